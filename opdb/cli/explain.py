"""show, explain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from opdb.cli.options import Db, Json, known_op, store
from opdb.cli.output import print_json
from opdb.core.errors import OpdbError


def add_to(app: typer.Typer) -> None:
    app.command()(show)
    app.command()(explain)


def show(
    op: Annotated[str, typer.Argument(help="The op's name, e.g. LayerNorm.")],
    json: Json = False,
    db: Db = None,
) -> None:
    """Show one op in full, as its spec says it, and what was measured of it."""
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
    print(dump(catalog.ops[name]), end="")
    if measured:  # as comments, so that the text is still a spec
        print("# measured, not a part of the spec:")
    for row, places in measured.items():
        for place, what in places.items():
            print(f"#   {row}  {place}: {what}")
    for line in provenance(evidence.runs):
        print(f"# with {line}")


def explain(
    rule: Annotated[
        str | None,
        typer.Argument(help="The id of a rule, e.g. LayerNorm.C3, or of an erratum, e.g. HTP-0042."),
    ] = None,
    functions: Annotated[
        bool, typer.Option("--functions", help="List the functions of the rule language.")
    ] = False,
    json: Json = False,
    db: Db = None,
) -> None:
    """Explain one rule (what it asks in words, why, where it comes from) or one erratum (what goes wrong, where, what avoids it)."""

    if functions:
        _print_functions()
        return
    if rule is None:
        raise OpdbError(
            "give the id of a rule, e.g. opdb explain LayerNorm.C3, or of an erratum, e.g. HTP-0042;"
            " 'opdb query rules' and 'opdb query errata' list them"
        )
    from opdb.judge import explain as explaining

    if explaining.is_erratum(rule):
        catalog = store(db).load_erratum(rule.upper())
        erratum = explaining.erratum_of(catalog, rule)
        if json:
            print_json(explaining.erratum_facts(catalog, erratum))
        else:
            _print_facts(explaining.erratum_lines(catalog, erratum))
        return
    facts = explaining.explain(store(db).load_op(rule.partition(".")[0]), rule)
    if json:
        print_json(facts)
    else:
        _print_facts(facts)


def _print_facts(facts: Mapping[str, Any]) -> None:
    """Prints each heading with its lines, and skips headings without any."""
    width = max(map(len, facts))
    for key, value in facts.items():
        if value not in (None, "", []):
            first, *rest = value if isinstance(value, list) else [value]
            print(f"{key:{width}}  {first}")
            for line in rest:
                print(f"{'':{width}}  {line}")


def _print_functions() -> None:
    from opdb.spec.lang.functions import FUNCTIONS

    for f in FUNCTIONS.values():
        params = ", ".join("|".join(p) for p in f.params)
        example = f"   {f.examples[0][0]} = {f.examples[0][1]}" if f.examples else ""
        print(f"{f.name}({params}) -> {f.result}{example}{'   (torch mappings only)' if f.torch else ''}")
