"""show, explain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from opdb.cli import completion
from opdb.cli.help import ASK, App
from opdb.cli.options import Db, Json, known_op, store
from opdb.cli.output import print_json
from opdb.cli.screen import is_terminal, print_whole, width, wrapped
from opdb.core.errors import OpdbError


def add_to(app: App) -> None:
    app.command(example="opdb show LayerNorm", group=ASK)(show)
    app.command(example="opdb explain 3110", group=ASK)(explain)


def show(
    op: Annotated[
        str,
        typer.Argument(metavar="OP", help="The op's name, e.g. LayerNorm.", autocompletion=completion.ops),
    ],
    json: Json = False,
    db: Db = None,
) -> None:
    """Show an op: its whole spec, and what was measured of it."""
    from opdb.catalog.evidence.text import by_row, provenance
    from opdb.spec.rules import dump

    opened = store(db)
    catalog = opened.load_op(op)
    name = known_op(op, catalog.ops)
    evidence = opened.evidence("shipped", "merged", name=name)
    measured = by_row(evidence.cells.values())
    if json:
        rules = list(catalog.compiled(name).rule_ids())
        print_json({**catalog.ops[name].model_dump(mode="json"), "rules": rules, "measured": measured})
        return
    spec = dump(catalog.ops[name], width()) if is_terminal() else dump(catalog.ops[name])
    print_whole(spec, end="")
    if measured:  # as comments, so that the text is still a spec
        _print_comment("measured, not a part of the spec:")
    for row, places in measured.items():
        for place, what in places.items():
            _print_comment(f"  {row}  {place}: {what}")
    for line in provenance(evidence.runs):
        _print_comment(f"with {line}")


def _print_comment(line: str) -> None:
    for part in wrapped(line, width() - 2) if is_terminal() else [line]:
        print_whole(f"# {part}")


def explain(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="WHAT",
            help="The id of a rule, e.g. LayerNorm.C3, or of an erratum, e.g. HTP-0042; a code of QNN's, e.g. 3110 or 0xC26, or"
            " its name; or a line of a library's log.",
        ),
    ] = None,
    functions: Annotated[
        bool, typer.Option("--functions", help="List the functions of the rule language.")
    ] = False,
    json: Json = False,
    db: Db = None,
) -> None:
    """Explain a rule, an erratum, or an error of QNN's.

    Of a rule: what it asks, why, and its source.  Of an erratum: what goes wrong, where, and what avoids it.

    An error is a code, its name, or a line of the log: what it means, why it comes, what to type next.  docs/guides/troubleshooting.md
    has all entries.
    """

    if functions:
        _print_functions(json)
        return
    if what is None:
        raise OpdbError(
            "give the id of a rule, e.g. opdb explain LayerNorm.C3, or of an erratum, e.g. HTP-0042, or an error code, e.g. 3110;"
            " 'opdb query rules' and 'opdb query errata' list the ids"
        )
    facts, lines = _explained(what, db)
    if json:
        print_json(facts)
    else:
        _print_facts(lines)


def _explained(what: str, db: str | None) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The facts about an error, an erratum or a rule: as JSON has them, and for people."""
    from opdb.judge import error_codes

    if error_codes.is_error(what):
        facts = error_codes.explain(what)
        return facts, error_codes.lines_of(facts)
    from opdb.judge import explain as explaining

    if explaining.is_erratum(what):
        catalog = store(db).load_erratum(what.upper())
        erratum = explaining.erratum_of(catalog, what)
        return explaining.erratum_facts(catalog, erratum), explaining.erratum_lines(catalog, erratum)
    facts = explaining.explain(store(db).load_op(what.partition(".")[0]), what)
    return facts, facts


def _print_facts(facts: Mapping[str, Any]) -> None:
    """Prints each heading with its lines, and skips headings without any."""
    width = max(map(len, facts))
    for key, value in facts.items():
        if value not in (None, "", []):
            first, *rest = value if isinstance(value, list) else [value]
            print(f"{key:{width}}  {first}")
            for line in rest:
                print(f"{'':{width}}  {line}")


def _print_functions(json: bool) -> None:
    from opdb.spec.lang.functions import FUNCTIONS

    if json:
        print_json(
            [
                {"name": f.name, "parameters": list(map(list, f.params)), "result": f.result,
                 "examples": list(map(list, f.examples)), "torch_only": f.torch}
                for f in FUNCTIONS.values()
            ]
        )  # fmt: skip
        return
    for f in FUNCTIONS.values():
        params = ", ".join("|".join(p) for p in f.params)
        example = f"   {f.examples[0][0]} = {f.examples[0][1]}" if f.examples else ""
        print(f"{f.name}({params}) -> {f.result}{example}{'   (torch mappings only)' if f.torch else ''}")
