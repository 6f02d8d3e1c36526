"""evidence build, check, export, merge, show."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opdb.cli import completion
from opdb.cli.help import MEASURE, App
from opdb.cli.option_groups import TableOptions, with_option_groups
from opdb.cli.options import Db, Json, Ops, Specs, known_op, prepared_for, store, synced
from opdb.cli.output import print_json
from opdb.cli.progress import Stages, working
from opdb.core import plugins
from opdb.core.errors import OpdbError
from opdb.core.names import counted

if TYPE_CHECKING:
    from opdb.catalog.evidence import Evidence
    from opdb.measure.evidence.build import Built, Progress
    from opdb.spec.catalog import Catalog

evidence_app = App(
    "evidence", example="opdb evidence show", help="What libraries make of each op: the measured set."
)
Libraries = Annotated[
    list[str] | None, typer.Option("--library", metavar="VERSION", help="Only this QNN version, e.g. 2.51; may be repeated.")
]  # fmt: skip
Socs = Annotated[
    list[str] | None,
    typer.Option(
        "--soc",
        metavar="SOC",
        help="Only this chip; may be repeated.",
        autocompletion=completion.socs,
        callback=prepared_for,
    ),
]
File = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="The file of evidence; by default the one that opdb ships.")
]  # fmt: skip


class Part(StrEnum):
    ops = "ops"
    operators = "operators"


def add_to(app: App) -> None:
    app.add(evidence_app, MEASURE)


@dataclass(frozen=True)
class BuildOptions:
    """The options of build, in the order of the help."""

    library: Libraries = None
    soc: Socs = None
    op: Ops = None
    file: File = None
    torch_op: Annotated[
        list[str] | None,
        typer.Option("--torch-op", metavar="TARGET", help="Only this PyTorch operator; may be repeated."),
    ] = None
    part: Annotated[
        Part | None,
        typer.Option(
            "--part",
            metavar="PART",
            help="ops: only QNN's, by libraries; operators: only PyTorch's, by ExecuTorch.",
        ),
    ] = None
    precision: Annotated[
        list[str] | None,
        typer.Option(
            "--precision", metavar="NAME", help="Of operators: float, 8a8w or 16a8w; may be repeated."
        ),
    ] = None
    modules: Annotated[
        Path | None,
        typer.Option(
            "--modules",
            metavar="DIR",
            help="Where the operators' modules are: corpus/operators of a checkout.",
        ),
    ] = None
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Other data than the usual.")] = 0
    cases: Annotated[
        int | None,
        typer.Option("--cases", metavar="N", min=0, help="The most cases of a type row; 0: all. [3]"),
    ] = None
    jobs: Annotated[int, typer.Option("--jobs", "-j", metavar="N", min=1, help="Processes.")] = 1
    again: Annotated[bool, typer.Option("--again", help="Ask also what the file has already.")] = False
    json: Json = False
    db: Db = None
    specs: Specs = None


@evidence_app.command(example="opdb evidence build --op Relu --soc SM8650")
@with_option_groups
def build(options: BuildOptions) -> None:
    """Measure what the libraries here make of ops and operators.

    The answers go into the file that opdb ships, for every library and class of chips.

    What the file has already is not asked again: a build that was interrupted goes on.
    """
    from opdb.catalog.evidence.format import shipped_path

    operators = plugins.load("EVIDENCE", "operators")
    for name in options.precision or ():
        if name not in operators.PRECISIONS:
            raise OpdbError(
                f"--precision {name}: no such precision; one of {', '.join(operators.PRECISIONS)}"
            )
    _, catalog = synced(options.db, options.specs)
    path, built = options.file or shipped_path(), []
    if options.part is not Part.operators and not options.torch_op:
        with working("measure ops") as stages:
            built.append(_built_ops(catalog, path, options, stages))
    if options.part is not Part.ops and not options.op and not options.library:
        socs, how = tuple(options.soc or operators.SOCS), tuple(options.precision or operators.PRECISIONS)
        with working("measure operators") as stages:
            built.append(
                operators.build_flow(
                    catalog, path, socs, how, options.torch_op,
                    folder=options.modules, again=options.again, progress=partial(_count, stages),
                )
            )  # fmt: skip
    if options.json:
        print_json([vars(b) | {"path": str(b.path), "seconds": round(b.seconds, 3)} for b in built])
        return
    for each in built:
        _print_built(each)


def _built_ops(catalog: Catalog, path: Path, options: BuildOptions, stages: Stages) -> Built:
    """Measures QNN's ops with the libraries."""
    from opdb.measure.evidence.build import build as run
    from opdb.measure.evidence.chips import places
    from opdb.measure.evidence.measure import LIMIT

    names = [known_op(name, catalog.ops) for name in options.op or ()] or None
    most = LIMIT if options.cases is None else options.cases
    asked = places(catalog, options.library or (), options.soc or ())
    return run(
        catalog, path, asked, names,
        seed=options.seed, limit=most, jobs=options.jobs, again=options.again, progress=partial(_count, stages),
    )  # fmt: skip


def _print_built(built: Built) -> None:
    for line in built.missing:
        print(f"  not asked: {line}", file=sys.stderr)
    print(
        f"{built.path}: {counted(built.cells, 'cell')}, {built.measured} measured now, {built.kept} kept, {built.removed} removed; "
        f"{counted(built.size, 'byte')}; {built.seconds:.0f} s"
    )


@evidence_app.command(example="opdb evidence check --share 0.001")
def check(
    share: Annotated[
        float,
        typer.Option(
            "--share", metavar="X", help="Which part of the cells of the libraries here, e.g. 0.01."
        ),
    ] = 0.01,
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", help="Which ones; by default the date, e.g. 20261127."),
    ] = None,
    library: Libraries = None,
    file: File = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", metavar="N", min=1, help="Processes.")] = 1,
    json: Json = False,
    db: Db = None,
    specs: Specs = None,
) -> None:
    """Measure a random share of the file again.

    Exit 1 where a library says otherwise than the file.
    """
    from datetime import UTC, datetime

    from opdb.measure.evidence.check import check as run
    from opdb.measure.evidence.chips import places

    chosen = int(f"{datetime.now(UTC):%Y%m%d}") if seed is None else seed
    print(f"evidence: {share:g} of the cells, --seed {chosen}", file=sys.stderr, flush=True)
    _, catalog = synced(db, specs)
    with working("measure again"):
        found = run(catalog, _read(file), places(catalog, library or ()), share, chosen, jobs)
    if json:
        told = {"differences": list(map(str, found.differences)), "stale": list(map(str, found.stale)),
                "flaky": [f"{key}: {names}" for key, names in found.flaky]}  # fmt: skip
        print_json({**vars(found), **told, "ok": found.ok})
    else:
        for difference in found.differences:
            print(f"  differs  {difference}")
        for key, names in found.flaky:
            print(f"  flaky    {key}: memory decides, {names}")
        for key in found.stale:
            print(f"  stale    {key}: its cases are others by now; opdb evidence build")
        for line in found.missing:
            print(f"  missing  {line}", file=sys.stderr)
        print(
            f"{counted(found.asked, 'cell')} measured again with --seed {chosen}: {found.same} the same, "
            f"{found.asked - found.same} not; {len(found.flaky)} flaky, {len(found.stale)} stale, {found.elsewhere} of another build"
        )
    if not found.ok:
        raise typer.Exit(1)


@evidence_app.command(example="opdb evidence export -o mine.jsonl.gz")
def export(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write it, e.g. mine.jsonl.gz.")
    ],
    merged: Annotated[
        bool, typer.Option("--merged", help="Also what was merged into this database.")
    ] = False,
    json: Json = False,
    db: Db = None,
) -> None:
    """Write what this database has measured, for a colleague.

    Its conformance runs, as a file for 'opdb evidence merge'.
    """
    from opdb.catalog.evidence.format import write
    from opdb.catalog.evidence.merge import merge as merge_into
    from opdb.measure.evidence.runs import own_evidence

    opened = store(db)
    found = own_evidence(opened)
    if merged:
        found = merge_into(found, opened.evidence("merged"), opened.name).evidence
    if not found.cells:
        raise OpdbError(
            f"{opened.name}: no library was measured in this database; 'opdb conformance run --executor qnn-htp' measures"
        )
    size = write(output, found)
    if json:
        print_json({"path": str(output), "cells": len(found), "bytes": size, "runs": len(found.runs)})
    else:
        print(
            f"{output}: {counted(len(found), 'cell')} of {counted(len(found.runs), 'run')}, {counted(size, 'byte')}"
        )


@evidence_app.command(example="opdb evidence merge theirs.jsonl.gz")
def merge(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file that 'opdb evidence export' or 'build' wrote.")
    ],
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="FILE", help="Into this file of evidence, not the database."),
    ] = None,
    json: Json = False,
    db: Db = None,
) -> None:
    """Take in what a colleague measured.

    Newer cells replace older ones; what an emulator and a device say stays apart.
    """
    from opdb.catalog.evidence.format import read, write
    from opdb.catalog.evidence.merge import merge as merge_into

    theirs = read(file)
    if into is not None:
        done = merge_into(read(into), theirs, str(file))
        write(into, done.evidence)
        name = str(into)
    else:
        opened = store(db)
        done = merge_into(opened.evidence("shipped", "merged"), theirs, str(file))
        mine = opened.evidence("merged")
        mine.cells |= {c.key: c for c in (*done.added, *done.replaced)}
        opened.record_merged(mine)
        name = opened.name
    if json:
        groups = {"added": done.added, "replaced": done.replaced, "left": done.left}
        print_json({"into": name, **{k: [str(c.key) for c in v] for k, v in groups.items()}})
        return
    print(
        f"{name}: {counted(len(done.added), 'cell')} added, {len(done.replaced)} replaced by newer ones, {len(done.left)} left as they are"
    )


@evidence_app.command(example="opdb evidence show")
@with_option_groups
def show(file: File = None, table: TableOptions = TableOptions(), json: Json = False) -> None:
    """List the runs of a file of evidence.

    Which library, for which chip, where, when and how, and how many cells.
    """
    from collections import Counter

    from opdb.cli.options import Format
    from opdb.cli.output import print_rows

    evidence = _read(file)
    cells = Counter(cell.run for cell in evidence.cells.values())
    rows = [
        {**{n: getattr(run, n) or None for n in ("backend", "sdk", "soc", "execution", "flow")},
         "library": f"{run.package} {run.version}", "build": run.build_id, "measured": run.date, "host": run.host,
         "generator": run.generator, "seed": run.seed, "case_limit": run.limit, "cells": cells[run]}
        for run in evidence.runs
    ]  # fmt: skip
    if json:
        print_json(rows)
        return
    print_rows(rows, table.chosen(COLUMNS, "evidence show"), Format.table, layout=table.layout(FIRST))


#: The columns of ``show``, and those that a terminal shows.
FIRST = ("backend", "sdk", "soc", "execution", "cells", "measured", "flow", "library")
COLUMNS = ("backend", "sdk", "soc", "execution", "flow", "library", "build", "measured", "host", "generator", "seed",
           "case_limit", "cells")  # fmt: skip


def _read(file: Path | None) -> Evidence:
    from opdb.catalog.evidence.format import read, shipped_path

    return read(file or shipped_path())


def _count(stages: Stages, p: Progress) -> None:
    stages.count(p.done, p.total, f"{counted(p.measured, 'cell')} measured, last {p.place}")
