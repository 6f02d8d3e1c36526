"""conformance run, report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli.options import Db, Format, Json, Ops, Specs, known_op, store, synced
from opdb.cli.output import markdown, print_json, print_rows

if TYPE_CHECKING:
    from opdb.catalog import Catalog
    from opdb.conformance.quirks import Quirk
    from opdb.conformance.report.rows import Report
    from opdb.conformance.run import Progress, RunSummary
    from opdb.store import Store

conformance_app = typer.Typer(
    help="Cases of the catalogue on validators, kernels and libraries.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(conformance_app, name="conformance")


@conformance_app.command()
def run(
    op: Ops = None,
    executor: Annotated[
        list[str] | None,
        typer.Option(
            "--executor", metavar="NAME", help="python, c, torch, qnn-cpu or qnn-htp; may be repeated."
        ),
    ] = None,
    soc: Annotated[
        list[str] | None, typer.Option("--soc", metavar="NAME", help="SoC for qnn-htp; may be repeated.")
    ] = None,
    case: Annotated[
        list[str] | None, typer.Option("--case", metavar="ID", help="Only this case; * stands for anything.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Other data than the usual.")] = 0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="How many executors run at once.")] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the last unfinished run of this question.")
    ] = False,
    json: Json = False,
    db: Db = None,
    specs: Specs = None,
) -> None:
    """Run cases and keep the results; exit 1 if our validators or kernels are wrong, or numbers differ."""
    from opdb.settings import specs_folder

    opened, catalog = synced(db, specs)
    names = [known_op(name, catalog.ops) for name in op or ()] or None
    command = "opdb " + " ".join(sys.argv[1:])
    from opdb.conformance.executors import EXECUTORS
    from opdb.conformance.run import DEFAULT_SOCS
    from opdb.conformance.run import run as run_cases

    with _progress() as progress:
        summary = run_cases(
            catalog, opened, names, executor or tuple(EXECUTORS), soc or DEFAULT_SOCS, seed, jobs, progress,
            only=case or (), resume=resume, command=command, specs=specs_folder(specs),
        )  # fmt: skip
    if json:
        print_json(_summary_json(summary))
    else:
        _print_summary(summary)
    if not summary.ok:
        raise typer.Exit(1)


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None] | None]:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("conformance", total=None)
        yield lambda p: bar.update(
            task, completed=p.done, total=p.total, description=f"{p.executor} {p.soc}".strip()
        )


def _summary_json(summary: RunSummary) -> dict[str, object]:
    return {
        "run": summary.run,
        "cases": summary.cases,
        "results": summary.results,
        "kept": summary.kept,
        "seconds": round(summary.seconds, 3),
        "ok": summary.ok,
        "counts": {name: dict(counts) for name, counts in summary.counts.items()},
        "findings": [vars(f) for f in summary.findings],
        "missing": summary.missing,
        "unbroken": summary.unbroken,
    }


#: What the outcomes of a run mean to a reader.
MEANING = {
    "pass": "as stated",
    "known": "a known quirk of the library",
    "finding": "document and library disagree",
    "fail": "wrong",
    "unknown": "no oracle or not asked",
}
SHOWN = 8


def _print_summary(summary: RunSummary) -> None:
    print(f"run {summary.run}: {summary.cases} cases, {summary.results} results in {summary.seconds:.1f} s")
    for name, counts in summary.counts.items():
        parts = ", ".join(f"{counts[k]} {text}" for k, text in MEANING.items() if counts[k])
        print(f"  {name:18} {parts}")
    for what in ("fail", "finding"):
        found = [f for f in summary.findings if f.outcome == what]
        for f in found[: None if what == "fail" else SHOWN]:
            print(f"  {what:8} {f.case} on {f.executor} {f.soc}".rstrip() + f": {f.reason}")
        if what == "finding" and len(found) > SHOWN:
            print(f"  ... and {len(found) - SHOWN} more; all: opdb query evidence, or the HTML report")
    for rule in summary.unbroken:
        print(f"  left     no case breaks {rule}")
    for reason in summary.missing:
        print(f"  missing  {reason}", file=sys.stderr)


class ReportFormat(StrEnum):
    table = "table"
    json = "json"
    junit = "junit"
    html = "html"


@conformance_app.command()
def report(
    format_: Annotated[ReportFormat, typer.Option("--format", help="How to write it.")] = ReportFormat.table,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="File; else standard output.")
    ] = None,
    run: Annotated[
        int | None, typer.Option("--run", metavar="NUMBER", help="Which run; else the last.")
    ] = None,
    gaps: Annotated[
        bool, typer.Option("--gaps", help="Instead: the rules that no case tries alone.")
    ] = False,
    json: Json = False,
    db: Db = None,
    specs: Specs = None,
) -> None:
    """Report a run: table, JSON, JUnit, or one HTML page with everything in it."""
    from opdb.conformance.report import formats
    from opdb.conformance.report.rows import read
    from opdb.files import write_atomically

    opened = store(db)
    if gaps:
        rows = rule_gaps(opened)
        print_rows(rows, GAP_COLUMNS, Format.json if json else Format.table)
        return
    found = read(opened, run, _quirks(specs))
    if json:
        format_ = ReportFormat.json
    if format_ is ReportFormat.table and output is None:
        print_rows(formats.table(found), formats.COLUMNS, Format.table)
        return
    if format_ is ReportFormat.html:
        text = html_page(opened, found)
    elif format_ is ReportFormat.junit:
        text = formats.junit(found)
    elif format_ is ReportFormat.json:
        text = formats.as_json(found)
    else:
        text = markdown(formats.table(found), formats.COLUMNS) + "\n"
    if output is None:
        print(text, end="")
        return
    write_atomically(output, text)
    print(f"{output}: run {found.run['id']}, {len(found.rows)} results")


GAP_COLUMNS = ("op", "rule", "backend", "positive", "negative", "executed", "implied_by")


def _quirks(specs: Path | None) -> tuple[Quirk, ...]:
    from opdb.conformance.quirks import read_quirks
    from opdb.settings import specs_folder

    return read_quirks(specs_folder(specs))


def rule_gaps(opened: Store) -> list[dict[str, Any]]:
    """The rules without a case that breaks them alone, and what they are implied by."""
    from opdb.query import ask

    return [{k: r[k] for k in GAP_COLUMNS} for r in ask(opened, "coverage") if not r["negative"]]


def html_page(opened: Store, found: Report) -> str:
    from opdb.conformance.report.html import render

    return render(found.run, found.rows, rule_gaps(opened))


def run_and_report(opened: Store, catalog: Catalog, folder: Path, soc: str) -> tuple[Path, int]:
    """All ops on all executors, and the page in ``folder``; its path, and how many results are wrong."""
    from opdb.conformance.report.rows import read
    from opdb.conformance.run import run as run_cases
    from opdb.files import write_atomically

    with _progress() as progress:
        summary = run_cases(
            catalog, opened, socs=(soc,), jobs=2, progress=progress, command="opdb conformance run"
        )
    _print_summary(summary)
    page = folder / "conformance.html"
    write_atomically(page, html_page(opened, read(opened, summary.run, _quirks(None))))
    return page, sum(f.outcome == "fail" for f in summary.findings)
