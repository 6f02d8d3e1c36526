"""cost build-table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli import completion
from opdb.cli.options import Format, Json, Timeout, check_timeout, prepared_for
from opdb.cli.output import print_json, print_rows
from opdb.core.errors import OpdbError
from opdb.core.names import counted

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from opdb.lower.prices import Table
    from opdb.measure.cost.price_fit.accuracy import Check

COLUMNS = ("what", "pairs", "table", "signs", "left_out", "its_signs", "model", "model_signs")


def build_table(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL", help="Models as for 'opdb cost': files, or module:callable."),
    ] = None,
    listed: Annotated[
        Path | None, typer.Option("--models", metavar="FILE", help="More models, one on each line.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The table to write. [none is written]"),
    ] = None,
    kept: Annotated[
        Path | None,
        typer.Option(
            "--pairs", metavar="FILE", help="Keep measurements in this file, and reuse those that are in it."
        ),
    ] = None,
    soc: Annotated[
        str,
        typer.Option(
            "--soc",
            metavar="SOC",
            help="The chip that is simulated.",
            autocompletion=completion.socs,
            callback=prepared_for,
        ),
    ] = "SA8255",
    qnn: Annotated[
        str | None,
        typer.Option(
            "--qnn",
            metavar="VERSION",
            help="QNN's libraries: a version or a folder. [2.51]",
            autocompletion=completion.sdks,
        ),
    ] = None,
    timeout: Timeout = 600.0,
    json: Json = False,
) -> None:
    """Build the table of prices that candidates are compared by.

    From models; it says how well the table predicts.

    Each model is finalized as it is and with one thing changed, over and over: another form of an operator, an erratum ignored, a kind
    of op left out; in fp16, 8a8w and 16a8w.  Prices are fitted to what that changes.  The figures printed are rank
    correlations and shares of right signs, against the simulation.  docs/guides/cost.md says more.
    """
    from opdb.cli.library_install import found_or_installed
    from opdb.cli.progress import working
    from opdb.core.files import check_writable, write_atomically
    from opdb.lower.prices import written
    from opdb.measure.cost import Simulator
    from opdb.measure.cost.price_fit.accuracy import checks
    from opdb.measure.cost.price_fit.build import measured
    from opdb.measure.cost.price_fit.fit import table
    from opdb.measure.cost.simulator import QNN

    names = [*(models or ()), *_listed(listed)]
    if not names:
        raise OpdbError("no model; give some, or a file of them with --models")
    check_timeout(timeout)
    check_writable(output)
    check_writable(kept, option="--pairs")
    with Simulator(soc, libraries=found_or_installed(qnn or QNN), timeout=timeout) as simulator:
        simulator.check_chip()
        with working("measure pairs") as stages:
            pairs = measured(simulator, [*_programs(names)], kept, stages.note)
        soc, build_id = simulator.soc, simulator.build_id
    if not pairs:
        raise OpdbError("the library takes none of these models, so there is nothing to measure")
    made = table(pairs, soc, build_id)
    if output is not None:
        write_atomically(output, written(made))
    found = [*checks(pairs)]
    if json:
        print_json({"soc": soc, "build_id": build_id, "models": list(made.models), "lines": len(made.lines),
                    "compared": len(made.compared), "pairs": len(pairs), "checks": [vars(c) for c in found]})  # fmt: skip
    else:
        _print(made, len(pairs), found)


def _print(made: Table, pairs: int, found: Iterable[Check]) -> None:
    print(
        f"{counted(pairs, 'pair')} of {counted(len(made.models), 'model')}: "
        f"{counted(len(made.lines), 'line')}, {counted(len(made.compared), 'comparison')} of forms"
    )
    print_rows([_cells(c) for c in found], COLUMNS, Format.table)
    print(
        "rank correlation (Spearman) with the simulation, and the share of right signs: of the table, of tables made without the network, "
        "and of the model that counts ops, bytes and products"
    )


def _listed(file: Path | None) -> list[str]:
    if file is None:
        return []
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise OpdbError(f"--models {file}: {error.strerror}") from None
    return [name for line in text.splitlines() if (name := line.partition("#")[0].strip())]


def _programs(names: Iterable[str]) -> Iterable[tuple[str, Callable[[], ExportedProgram]]]:
    from opdb.execute.compile.model import graph_name
    from opdb.programs.load import load_program

    sys.path.insert(0, "")
    seen: dict[str, str] = {}
    for name in names:
        short = graph_name(name)
        if short in seen:
            raise OpdbError(f"{name}: {seen[short]} has the same name, {short}")
        seen[short] = name
        yield short, partial(load_program, name)


def _cells(check: Check) -> dict[str, Any]:
    def shown(value: float | None, percent: bool = False) -> str | None:
        return None if value is None else f"{value:.0%}" if percent else f"{value:.2f}"

    figures = (check.table, check.left_out, check.model)
    cells = [x for rank, sign in figures for x in (shown(rank), shown(sign, percent=True))]
    return dict(zip(COLUMNS, (check.name, check.pairs, *cells), strict=True))
