"""query, show, explain, doctor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from opdb.cli.options import Backend, Db, Format, Json, Op, Ops, Sdk, Soc, known_op, store
from opdb.cli.output import print_json, print_rows
from opdb.core.errors import OpdbError


def add_to(app: typer.Typer) -> None:
    app.command()(query)
    app.command()(diff)
    app.command()(show)
    app.command()(explain)
    app.command()(doctor)


def query(
    question: Annotated[
        str,
        typer.Argument(
            help="ops, params, types, torch, rules, backends, socs, errata, support, quirks, evidence, agreement,"
            " census or coverage."
        ),
    ],
    op: Ops = None,
    backend: Annotated[
        list[str] | None,
        typer.Option("--backend", metavar="NAME", help="QNN backend, e.g. HTP; may be repeated."),
    ] = None,
    soc: Annotated[
        list[str] | None,
        typer.Option("--soc", "--name", metavar="NAME", help="SoC, e.g. SM8650, '8 Gen 3'; may be repeated."),
    ] = None,
    sdk: Annotated[
        list[str] | None,
        typer.Option("--sdk", metavar="VERSION", help="QNN SDK, e.g. 2.47; may be repeated."),
    ] = None,
    dtype: Annotated[
        list[str] | None, typer.Option("--dtype", help="Data type in any slot, e.g. uq8; may be repeated.")
    ] = None,
    torch_op: Annotated[
        list[str] | None, typer.Option("--torch-op", help="ATen target, e.g. aten.relu; may be repeated.")
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", help="Condition over the columns, e.g. \"validates <> 'yes'\".")
    ] = None,
    disagree: Annotated[
        bool, typer.Option("--disagree", help="For evidence: only where a library and opdb's rules disagree.")
    ] = False,
    pivot: Annotated[
        bool,
        typer.Option("--pivot", help="For support: one line per op, one column per backend, SoC, and SDK."),
    ] = False,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Only these columns, separated by commas.")
    ] = None,
    format_: Annotated[Format, typer.Option("--format", help="How to write the rows.")] = Format.table,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Output file; default: standard output.  Parquet needs a file."),
    ] = None,
    json: Json = False,
    db: Db = None,
) -> None:
    """Query the catalogue; docs/reference/sql-views.md documents the columns."""
    from opdb.catalog.query import QUESTIONS, Filters, stream
    from opdb.catalog.schema.views import ABOUT

    asked = (op, backend, soc, sdk, dtype, torch_op)
    filters = Filters(op, backend, soc, sdk, dtype, torch_op, disagree or None)
    rows: Iterable[dict[str, Any]] = stream(store(db), question, filters, where)
    chosen = list(QUESTIONS[question].columns)
    types = {c.name: c.type for c in ABOUT[QUESTIONS[question].view].columns}
    if pivot:
        from opdb.catalog.query.pivot import pivot as turned

        if question != "support":
            raise OpdbError(f"--pivot turns 'support' into a table of ops and targets, not '{question}'")
        rows, chosen = turned(rows, by_soc=bool(soc))
    if disagree and not json and columns is None:
        columns = "op,backend,soc,sdk,ours,validates,rules,reasons,detail,config"
    if columns:
        chosen = _chosen(columns, chosen, question)
        rows = ({c: row[c] for c in chosen} for row in rows)
    title = " ".join([question, *(v for values in asked for v in values or ()), where or ""]).strip()
    print_rows(rows, chosen, Format.json if json else format_, title, output, types)


def _chosen(columns: str, known: Sequence[str], question: str) -> list[str]:
    wanted = [c.strip() for c in columns.split(",")]
    for c in wanted:
        if c not in known:
            raise OpdbError(f"--columns: '{question}' has no column '{c}'; known: {', '.join(known)}")
    return wanted


def diff(
    a: Annotated[
        str, typer.Argument(metavar="A", help="An SDK, or BACKEND[:SOC][@SDK]; e.g. 2.25, HTP:SM8450.")
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="What it is compared with, in the same form.")],
    op: Op = None,
    backend: Backend = None,
    soc: Soc = None,
    sdk: Sdk = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            help="Exit 1 if there is a regression, or anything removed or changed; may be repeated.",
        ),
    ] = None,
    format_: Annotated[Format, typer.Option("--format", help="How to print the rows.")] = Format.table,
    json: Json = False,
    db: Db = None,
) -> None:
    """Compare two SDKs, SoCs, or backends: ops, type rows, rules in force, measured verdicts."""
    from opdb.catalog.query.diff import COLUMNS, FAILURES, failing, side
    from opdb.catalog.query.diff import diff as compare

    for what in fail_on or ():
        if what not in FAILURES:
            raise OpdbError(f"--fail-on {what}: one of {', '.join(FAILURES)}")
    sides = [side(text, backend and backend.upper(), soc, sdk) for text in (a, b)]
    if format_ is Format.parquet:
        raise OpdbError("diff writes no Parquet; choose table, json, csv, md or html")
    rows = compare(store(db), sides[0], sides[1], op)
    print_rows(rows, COLUMNS, Format.json if json else format_, f"{sides[0]} -> {sides[1]}")
    if failing(rows, fail_on or ()):
        raise typer.Exit(1)


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
    if measured:  # as comments: the text is still a spec
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
    """A heading and its lines; nothing for a heading without any."""
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


def doctor(json: Json = False) -> None:
    """Report what is installed, what is missing, and what does not work without it."""
    from opdb.cli.environment import examine

    rows = examine()
    if json:
        print_json(rows)
        return
    for row in rows:
        state = "ok" if row["ok"] else "refuses" if row["found"] else "missing"
        print(f"{state:7} {row['part']:16} {row['found'] or row['cost']}")
        for line in row.get("about", ()):
            print(f"{'':24} {line}")
        if not row["ok"]:
            if row["found"]:
                print(f"{'':24} {row['cost']}")
            print(f"{'':24} cure: {row['cure']}")
