"""debug."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli.help import CHECK, App
from opdb.cli.options import Format, Json, More, Timeout
from opdb.cli.output import print_json, print_rows
from opdb.cli.progress import Stages
from opdb.cli.screen import print_whole
from opdb.core.errors import MissingExtra, OpdbError
from opdb.core.files import check_writable
from opdb.core.names import counted

if TYPE_CHECKING:
    from opdb.plugins.executorch.delegate.debug import OpRow, Report

COLUMNS = ("instruction", "place", "op", "torch", "source", "module", "ms", "cycles", "gap", "note")


def add_to(app: App) -> None:
    app.command("debug", example="opdb debug model.pte --inputs inputs.pt", group=CHECK)(debug_program)


def debug_program(
    model: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A program of ExecuTorch (.pte) lowered with OpdbPartitioner."),
    ],
    etrecord: Annotated[
        Path | None,
        typer.Option("--etrecord", metavar="FILE", help="Its ETRecord; by default MODEL.etrecord beside it."),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            "--inputs",
            metavar="FILE",
            help="A tuple of tensors written by torch.save; default: the inputs of the export.",
        ),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", help="The method that is run.")
    ] = "forward",
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", min=1, help="Number of runs that times are averaged over.")
    ] = 3,
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance", metavar="X", min=0, help="Largest error of an op, relative to its largest value."
        ),
    ] = 0.01,
    timeout: Timeout = 600.0,
    format_: Annotated[
        Format, typer.Option("--format", metavar="FORMAT", help="table, json, csv, md or html.")
    ] = Format.table,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")
    ] = None,
    verbose: More = False,
    json: Json = False,
) -> None:
    """Find the op of a program whose result is wrong.

    Shows each op of its delegates: time, source line, module, distance from PyTorch.  Exit 1 if one departs.

    The program runs in a child process by ExecuTorch's runtime.  HTP's cycles and times are those of the emulation here.
    """
    from opdb.plugins.executorch.pte_file import read

    read(model)  # refuses another kind of file at once
    _check(etrecord or model.with_suffix(".etrecord"))
    check_writable(output)
    from opdb.plugins.executorch.delegate.debug import debug

    with Stages(("run", "compute in PyTorch", "compare")) as stages:
        report = debug(
            model, etrecord or model.with_suffix(".etrecord"), inputs,
            method=method, runs=runs, tolerance=tolerance, timeout=timeout, progress=stages,
        )  # fmt: skip
    if json:
        print_json(_document(report))
    elif format_ is Format.html:
        _write_page(report, model, output)
    else:
        print_rows(map(_shown, report.rows), COLUMNS, format_, str(model), output)
    typer.echo(_said(report), err=True)
    if report.first is not None:
        raise typer.Exit(1)


def _check(etrecord: Path) -> None:
    """Raises OpdbError for what is missing, before ExecuTorch is imported, which takes seconds."""
    if not etrecord.is_file():
        raise OpdbError(
            f"{etrecord}: no such file; save the ETRecord of the lowering there, or name it with --etrecord"
        )
    with suppress(ModuleNotFoundError):
        if find_spec("executorch") is not None:
            return
    raise MissingExtra("ExecuTorch", "executorch")


def _write_page(report: Report, model: Path, output: Path | None) -> None:
    from opdb.core.files import write_atomically
    from opdb.plugins.executorch.delegate.debug_page import page

    text = page(report, str(model))
    if output is None:
        print_whole(text)
    else:
        write_atomically(output, text)


def _document(report: Report) -> dict[str, Any]:
    first = report.first
    return {
        "method": report.method,
        "runs": report.runs,
        "tolerance": report.tolerance,
        "backends": report.backends,
        "first": None if first is None else first.name,
        "rows": [asdict(row) for row in report.rows],
    }


def _shown(row: OpRow) -> dict[str, Any]:
    found = asdict(row)
    found["ms"] = None if row.ms is None else round(row.ms, 4)
    found["gap"] = None if row.gap is None else float(f"{row.gap:.3g}")
    return found


def _said(report: Report) -> str:
    where = ", ".join(f"instruction {i} on {name}" for i, name in report.backends.items())
    first = report.first
    if first is None:
        known = sum(r.gap is not None for r in report.rows)
        return f"{where}: {known} of {counted(len(report.rows), 'op')} compared, none off by more than {report.tolerance:g}"
    place = f" at {first.source}" if first.source else ""
    return f"{where}: the first op that departs is {first.name} ({first.op}){place}: off by {first.gap:.3g}"
