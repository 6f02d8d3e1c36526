"""probe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli import completion
from opdb.cli.help import MEASURE, App
from opdb.cli.option_groups import DatabaseOptions, with_option_groups
from opdb.cli.options import Dask, Format, Json, Ops, check_workers, known_op, prepared_for
from opdb.cli.output import print_json, print_rows
from opdb.cli.progress import working
from opdb.cli.screen import is_terminal
from opdb.core.errors import OpdbError
from opdb.core.names import counted

if TYPE_CHECKING:
    from opdb.measure.sweeps.sweep import Progress, Summary


def add_to(app: App) -> None:
    app.command(example="opdb probe --op Softmax --soc SM8650 --count 50", group=MEASURE)(probe)


@dataclass(frozen=True)
class ProbeOptions:
    """All options, in the order of the help."""

    op: Ops = None
    backend: Annotated[
        list[str] | None,
        typer.Option(
            "--backend",
            metavar="BACKEND",
            help="CPU or HTP; may be repeated.",
            autocompletion=completion.backends,
        ),
    ] = None
    soc: Annotated[
        list[str] | None,
        typer.Option(
            "--soc",
            metavar="SOC",
            help="SoC for HTP; may be repeated.",
            autocompletion=completion.socs,
            callback=prepared_for,
        ),
    ] = None
    qnn: Annotated[
        str | None,
        typer.Option(
            "--qnn",
            "--sdk",
            metavar="WHICH",
            help="QNN's libraries: a version of QNN or of the wheel, or a folder.",
            autocompletion=completion.sdks,
        ),
    ] = None
    count: Annotated[
        int, typer.Option("--count", "-n", metavar="N", min=1, help="Configs for each op, backend and SoC.")
    ] = 200
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the generated configs.")] = 0
    execute: Annotated[
        int,
        typer.Option(
            "--execute", metavar="N", min=0, help="Finalize and execute one config in this many; 0: none."
        ),
    ] = 20
    budget: Annotated[
        float | None,
        typer.Option("--budget", metavar="SECONDS", help="Stop after this time; the same command continues."),
    ] = None
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", metavar="N", min=1, help="Processes; one per core by default."),
    ] = None
    dask: Dask = None
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="For each request to a library.")
    ] = 20.0
    memory: Annotated[
        int, typer.Option("--memory", metavar="MIB", min=2048, help="Limit on what a library may allocate.")
    ] = 8192
    min_agreement: Annotated[
        float | None,
        typer.Option(
            "--min-agreement", metavar="PERCENT", min=0, max=100, help="Exit 1 if an op agrees less."
        ),
    ] = None
    json: Json = False
    database: DatabaseOptions = DatabaseOptions()

    def check(self) -> None:
        """Raises OpdbError for invalid values and incompatible options."""
        if self.budget is not None and self.budget <= 0:
            raise OpdbError(f"--budget {self.budget:g}: give a number of seconds above 0")
        if self.timeout <= 0:
            raise OpdbError(f"--timeout {self.timeout:g}: give a number of seconds above 0")
        check_workers(self.jobs, self.dask)


@with_option_groups
def probe(options: ProbeOptions) -> None:
    """Compare opdb's verdicts with those of Qualcomm's libraries.

    Both judge generated op configs.
    """
    options.check()
    from opdb.cli.library_install import found_or_installed
    from opdb.measure.sweeps.sweep import SOCS, Limits, sweep

    libraries = None if options.qnn is None else found_or_installed(options.qnn)
    opened, catalog = options.database.synced()
    names = [known_op(name, catalog.ops) for name in options.op or ()] or None
    backends = [b.upper() for b in options.backend] if options.backend else None
    limits = Limits(options.budget, options.timeout, options.memory << 20)
    with _progress() as progress, _interrupts() as interrupts:
        summary = sweep(
            catalog, opened, names, backends, options.soc or SOCS, libraries=libraries, count=options.count,
            seed=options.seed, execute=options.execute, jobs=options.jobs, dask=options.dask, limits=limits,
            command="opdb " + " ".join(sys.argv[1:]), progress=progress, stop=lambda: bool(interrupts),
        )  # fmt: skip
    least = options.min_agreement
    low = [r for r in summary.agreement if least is not None and (r["percent"] or 0) < least]
    if options.json:
        print_json(_document(summary, low))
    else:
        _print(summary, low, least)
    if interrupts:
        raise KeyboardInterrupt
    if low:
        raise typer.Exit(1)


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Handles Ctrl-C: the first lets running work finish, the second ends the command."""
    import signal

    found: list[int] = []

    def first(number: int, _frame: object) -> None:
        found.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, first)
    try:
        yield found
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """Counts the op configs, and shows the speed."""
    with working("probe") as stages:

        def show(p: Progress) -> None:
            speed = f"{p.done / max(p.seconds, 1e-3):.0f}/s"
            place = " ".join(filter(None, (p.target.backend, p.target.soc, p.op)))
            stages.count(p.done, p.total, f"{speed}, {place}")

        yield show


def _document(summary: Summary, low: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "runs": summary.runs,
        "asked": summary.asked,
        "kept": summary.kept,
        "left": summary.left,
        "seconds": round(summary.seconds, 3),
        "evidence": summary.evidence,
        "agreement": summary.agreement,
        "below": [{k: r[k] for k in ("op", "backend", "soc", "percent")} for r in low],
        "skipped": summary.skipped,
        "undocumented": summary.undocumented,
    }


def _print(summary: Summary, low: list[dict[str, Any]], least: float | None) -> None:
    from opdb.catalog.query.table import HEADER, agreement_rows, agreement_table

    if is_terminal() and summary.agreement:
        print_rows(agreement_rows(summary.agreement), HEADER, Format.table)
    else:
        print(agreement_table(summary.agreement), end="")
    for name, why in summary.skipped.items():
        print(f"  skipped  {name}: {why}")
    for backend, ops in summary.undocumented.items():
        if ops:
            print(f"  no document of {counted(len(ops), 'op')} that {backend} has: {', '.join(ops)}")
    speed = f", {summary.asked / summary.seconds:.0f} per second" if summary.asked else ""
    print(
        f"{counted(summary.asked, 'config')} asked in {summary.seconds:.1f} s{speed}; {summary.kept} had an answer before"
    )
    if summary.left:
        print(f"{summary.left} are left: the same command goes on with them")
    else:
        print(f"evidence {summary.evidence[:16]}; disagreements: opdb query runs --disagree")
    for r in low:
        where = " ".join(filter(None, (r["op"], "on", r["backend"], r["soc"])))
        print(f"  below {least:g} %: {where} has {r['percent'] or 0:.2f} %")
