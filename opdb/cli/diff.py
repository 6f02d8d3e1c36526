"""diff: what differs between SDKs, chips and backends, in the catalog or for a model."""

from __future__ import annotations

from typing import Annotated

import typer

from opdb.cli.diff_options import DiffOptions
from opdb.cli.help import ASK, App
from opdb.cli.option_groups import with_option_groups
from opdb.cli.options import store
from opdb.cli.output import print_rows
from opdb.cli.targets import listed
from opdb.core.errors import OpdbError

#: What changed in the catalog, by importance.
FIRST = ("change", "name", "before", "after", "part", "soc", "count", "regression", "example")


def add_to(app: App) -> None:
    app.command(example="opdb diff HTP:SM8550 HTP:SM8750 --op MatMul", group=ASK)(diff)


@with_option_groups
def diff(
    a: Annotated[
        str | None,
        typer.Argument(metavar="A", help="An SDK, or BACKEND[:SOC][@SDK]; e.g. 2.25, HTP:SM8450."),
    ] = None,
    b: Annotated[
        str | None, typer.Argument(metavar="B", help="What it is compared with, in the same form.")
    ] = None,
    options: DiffOptions = DiffOptions(),
) -> None:
    """Compare two SDKs, SoCs, or backends, for the catalog or for a model.

    What differs in the catalog: ops, type rows, rules in force, measured verdicts.
    """
    options.check(bool(a or b))
    if options.model is not None:
        from opdb.cli.diff_model import diff_model

        failed = diff_model(options.model, options)
    else:
        failed = _diff_catalog(a, b, options)
    if failed:
        raise typer.Exit(1)


def _diff_catalog(a: str | None, b: str | None, options: DiffOptions) -> bool:
    """Prints the differences of two sides of the catalog; True if a condition of --fail-on holds."""
    from opdb.catalog.query.diff import COLUMNS, failing, side
    from opdb.catalog.query.diff import diff as compare

    if a is None or b is None:
        raise OpdbError(
            "diff: name two sides, e.g. opdb diff 2.47 2.51, or a model, e.g. opdb diff --model net.onnx --soc SM8650 "
            "--sdk 2.47,2.51"
        )
    backend = options.backend and options.backend.upper()
    soc, sdk = (next(iter(listed(values)), None) for values in (options.soc, options.sdk))
    sides = [side(text, backend, soc, sdk) for text in (a, b)]
    rows = compare(store(options.db), sides[0], sides[1], options.op)
    chosen = options.table.chosen(COLUMNS, "diff")
    shown = [{c: row[c] for c in chosen} for row in rows]
    title, layout = f"{sides[0]} -> {sides[1]}", options.table.layout(FIRST)
    print_rows(shown, chosen, options.form, title, options.output, layout=layout)
    return failing(rows, options.fail_on or ())
