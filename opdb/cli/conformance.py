"""conformance run, torch, report."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opdb.cli import completion
from opdb.cli.help import MEASURE, App
from opdb.cli.option_groups import DatabaseOptions, with_option_groups
from opdb.cli.options import (
    Dask,
    Db,
    Format,
    Json,
    Ops,
    check_workers,
    known_op,
    prepared_for,
    renamed,
    store,
)
from opdb.cli.output import print_json, print_rows
from opdb.cli.progress import working
from opdb.cli.screen import is_terminal, print_whole
from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.core.version import __version__
from opdb.generated.constants.backends import PACKAGED

if TYPE_CHECKING:
    from opdb.catalog.store import Store
    from opdb.measure.conformance.report import Tables
    from opdb.measure.conformance.run import Progress, RunSummary
    from opdb.spec.catalog import Catalog

conformance_app = App(
    "conformance",
    example="opdb conformance run --op Relu",
    help="Run the catalog's cases on kernels and libraries; report.",
)


def add_to(app: App) -> None:
    app.add(conformance_app, MEASURE)


@conformance_app.command(example="opdb conformance run --op Relu --executor qnn-htp")
@with_option_groups
def run(
    op: Ops = None,
    executor: Annotated[
        list[str] | None,
        typer.Option(
            "--executor",
            metavar="NAME",
            help="python, c, torch, onnx.reference, qnn-cpu, qnn-htp, or hexagon, which is asked by name only; may be repeated.",
        ),
    ] = None,
    soc: Annotated[
        list[str] | None,
        typer.Option(
            "--soc",
            metavar="SOC",
            help="SoC for qnn-htp; may be repeated.",
            autocompletion=completion.socs,
            callback=prepared_for,
        ),
    ] = None,
    case: Annotated[
        list[str] | None, typer.Option("--case", metavar="ID", help="Only this case; * stands for anything.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the data.")] = 0,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", metavar="N", min=1, help="Processes; 1 by default.")
    ] = None,
    dask: Dask = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the last unfinished run with these options.")
    ] = False,
    json: Json = False,
    database: DatabaseOptions = DatabaseOptions(),
) -> None:
    """Run cases, and keep the results.

    Exit 1 if our validators or kernels are wrong, or numbers differ.
    """
    check_workers(jobs, dask)
    opened, catalog = database.synced()
    names = [known_op(name, catalog.ops) for name in op or ()] or None
    command = "opdb " + " ".join(sys.argv[1:])
    from opdb.measure.conformance.cases import DEFAULT_SOCS
    from opdb.measure.conformance.executors import USUAL
    from opdb.measure.conformance.run import run as run_cases

    with _progress() as progress:
        summary = run_cases(
            catalog, opened, names, executor or USUAL, soc or DEFAULT_SOCS, seed, jobs or 1, progress,
            dask=dask, only=case or (), resume=resume, command=command,
        )  # fmt: skip
    if json:
        print_json(_summary_json(summary))
    else:
        _print_summary(summary)
    if not summary.ok:
        raise typer.Exit(1)


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """Counts the cases of each executor."""
    with working("conformance") as stages:
        yield lambda p: stages.count(p.done, p.total, f"{p.executor} {p.soc}".strip())


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


#: Descriptions of a run's outcomes.
MEANING = {
    "pass": "as stated",
    "known": "with a known fault of the library",
    "finding": "where document and library disagree",
    "fail": "wrong",
    "unknown": "without an oracle or not asked",
}
SHOWN = 8


def _print_summary(summary: RunSummary) -> None:
    print(
        f"run {summary.run}: {counted(summary.cases, 'case')}, {counted(summary.results, 'result')} in {summary.seconds:.1f} s"
    )
    for name, counts in summary.counts.items():
        parts = ", ".join(f"{counts[k]} {text}" for k, text in MEANING.items() if counts[k])
        print(f"  {name:18} {parts}")
    for what in ("fail", "finding"):
        found = [f for f in summary.findings if f.outcome == what]
        for f in found[: None if what == "fail" else SHOWN]:
            print(f"  {what:8} {f.case} on {f.executor} {f.soc}".rstrip() + f": {f.reason}")
        if what == "finding" and len(found) > SHOWN:
            print(f"  ... and {len(found) - SHOWN} more; all: opdb query runs, or the HTML report")
    for rule in summary.unbroken:
        print(f"  left     no case breaks {rule}")
    for reason in summary.missing:
        print(f"  missing  {reason}", file=sys.stderr)


@conformance_app.command("torch", example="opdb conformance torch LayerNorm")
@with_option_groups
def torch_calls(
    op: Annotated[
        str,
        typer.Argument(
            metavar="OP", help="The op whose torch operators are called.", autocompletion=completion.ops
        ),
    ],
    target: Annotated[
        list[str] | None, typer.Option("--torch", metavar="TARGET", help="Only this one; may be repeated.")
    ] = None,
    library: Annotated[
        str | None,
        typer.Option(
            "--torch-library",
            metavar="FILE.py|MODULE",
            help="File or module that defines operators outside ATen.",
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print every call.")] = False,
    json: Json = False,
    database: DatabaseOptions = DatabaseOptions(),
) -> None:
    """Run an op's torch operators on QNN CPU.

    The results are compared with PyTorch's.
    """
    from opdb.measure.conformance.torch_calls import Calls, load_library

    catalog = database.catalog()
    name = known_op(op, catalog.ops)
    if library is not None:
        load_library(library)
    with working("run torch's operators"), Calls(catalog) as calls:
        found = {t: list(calls.run(name, t)) for t in target or catalog.mappings(name)}
    wrong = False
    for t, results in found.items():
        counts = Counter(r.outcome for r in results)
        wrong |= bool(counts["differs"] + counts["crashed"] + counts["hung"])
        if json:
            continue
        parts = ", ".join(f"{counts[o]} {text}" for o, text in OUTCOMES.items() if counts[o])
        print(
            f"  {t}: {counted(len(results), 'call')} on qnn-{PACKAGED.lower()}{': ' if parts else ''}{parts}"
        )
        for r in results:
            if verbose or r.outcome in ("differs", "crashed", "hung"):
                print(f"    {r.outcome:8} {r.arguments}{': ' * bool(r.text)}{r.text}")
        if not counts["same"]:
            why = next((r.text for r in results if r.text), "no sample's shapes suit the operator")
            print(f"    not proven: {why}")
    if json:
        print_json([vars(r) for results in found.values() for r in results])
    if wrong:
        raise typer.Exit(1)


#: Descriptions of a call's outcomes.
OUTCOMES = {
    "same": "as PyTorch",
    "differs": "other than PyTorch",
    "refused": "refused",
    "crashed": "crashed",
    "hung": "hung",
}


#: The list of opdb's files in a report's folder.
SITE_MANIFEST = "opdb-report.json"


class ReportFormat(StrEnum):
    table = "table"
    json = "json"
    junit = "junit"
    html = "html"
    site = "site"


@conformance_app.command(example="opdb conformance report --format html -o report.html")
def report(
    format_: Annotated[
        ReportFormat, typer.Option("--format", metavar="FORMAT", help="table, json, junit or html.")
    ] = ReportFormat.table,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Output file, or for HTML a folder; default: standard output.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite files of a site's folder that are not opdb's.")
    ] = False,
    run: Annotated[
        int | None,
        typer.Option(
            "--run", metavar="NUMBER", help="Number of a run; default: the latest result of each case."
        ),
    ] = None,
    gaps: Annotated[bool, typer.Option("--gaps", help="Add the coverage of every rule.")] = False,
    json: Json = False,
    db: Db = None,
) -> None:
    """Report results: a table, JSON, JUnit, or HTML.

    With -o FILE.html, HTML is one page with everything; with -o FOLDER a site with a page for each op.
    """
    from opdb.core.files import check_writable, write_atomically
    from opdb.measure.conformance.report import report as write
    from opdb.measure.conformance.report import tables

    opened = store(db)
    chosen = ReportFormat.json if json else format_
    if chosen is ReportFormat.site:
        renamed("--format site -o FOLDER", "--format html -o FOLDER")
    if chosen is ReportFormat.site or (chosen is ReportFormat.html and _is_folder(output)):
        _write_site(opened, output, run, force)
        return
    check_writable(output)
    if chosen is ReportFormat.table and output is None and is_terminal():
        with working("write the report"):
            found = tables(opened.load_catalog(), opened, run=run, with_gaps=gaps)
        _print_tables(found)
        return
    with_gaps = gaps or chosen is ReportFormat.html
    with working("write the report"):
        text = write(opened.load_catalog(), opened, chosen.value, run=run, with_gaps=with_gaps)
    if output is None:
        print_whole(text, end="" if text.endswith("\n") else "\n")
        return
    write_atomically(output, text)
    print(f"{output}: {counted(len(text.encode()), 'byte')}")


def _is_folder(output: Path | None) -> bool:
    """True if --output is a folder, or is to become one: a name without .html."""
    return output is not None and not output.is_file() and output.suffix not in (".html", ".htm")


def _print_tables(found: Tables) -> None:
    for number, rows in enumerate(filter(None, (found.results, found.agreement))):
        if number:
            print()
        print_rows(rows, list(rows[0]), Format.table)
    if found.gaps:
        print(f"\n{found.gaps}", end="")


def _write_site(opened: Store, folder: Path | None, run: int | None, force: bool) -> None:
    from opdb.core.source_folder import write_folder
    from opdb.measure.conformance.report import site

    if folder is None:
        raise OpdbError("a site is written to a folder; name it with --output")
    with working("write the pages"):
        texts = site(opened.load_catalog(), opened, run=run)
    write_folder(folder, texts, SITE_MANIFEST, {"opdb": __version__}, force)
    largest = max(len(t.encode()) for t in texts.values())
    print(f"{folder / 'index.html'}: {counted(len(texts), 'file')}, the largest of {largest} bytes")


def run_and_report(
    opened: Store, catalog: Catalog, folder: Path, soc: str, ops: Sequence[str]
) -> tuple[Path, int]:
    """Runs ``ops`` on all executors and writes a site to ``folder``; returns its first page and the number of wrong results."""
    from opdb.measure.conformance.run import run as run_cases

    with _progress() as progress:
        summary = run_cases(
            catalog, opened, ops=ops, socs=(soc,), jobs=2, progress=progress, command="opdb demo"
        )
    _print_summary(summary)
    _write_site(opened, folder, summary.run, force=False)
    return folder / "index.html", sum(f.outcome == "fail" for f in summary.findings)
