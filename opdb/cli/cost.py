"""cost, and cost build-table."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from opdb.cli.cost_table import build_table
from opdb.cli.options import (
    Decompose,
    Dim,
    Dtype,
    Errata,
    Execution,
    GraphName,
    IgnoreErratum,
    IoLayout,
    Json,
    NoPass,
    Passes,
    Timeout,
    target_of,
)
from opdb.cli.output import print_json
from opdb.cli.recipes import asked_recipe
from opdb.core.errors import OpdbError

if TYPE_CHECKING:
    from opdb.catalog.targets.target import Target
    from opdb.cli.estimates import Loaded, Run, Wish
    from opdb.measure.cost import Difference, Estimate
    from opdb.measure.cost.errata import ErratumPrice

ESTIMATE, ERRATUM = "estimate", "erratum"


class _Costs(TyperGroup):
    """A group whose first word is a model unless it is one of the group's commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = bool(args) and args[0] in self.commands
        return super().parse_args(ctx, args if known else [ESTIMATE, *args])


class _Estimate(TyperCommand):
    """Called opdb cost in its own help: the word of the command is never written."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return super().make_context(parent.info_name, args, parent=parent.parent, **extra)


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(
        cls=_Costs,
        help="Estimate the latency of a model on a chip; build-table makes the table of prices.",
        rich_markup_mode=None,
    )
    group.command(ESTIMATE, cls=_Estimate, epilog=EPILOG)(cost)
    group.command("build-table")(build_table)
    app.add_typer(group, name="cost")


EPILOG = "'opdb cost build-table' makes the table of prices by which candidates are compared; it has a --help of its own."


def cost(
    model: Annotated[
        str,
        typer.Argument(
            help="A .pt2, .onnx or .tflite file, module:callable that returns (module, inputs), or op configs: .json, .jsonl, -."
        ),
    ],
    soc: Annotated[
        str, typer.Option("--soc", metavar="NAME", help="A chip that the library simulates, e.g. SA8255.")
    ],
    qnn: Annotated[
        str | None,
        typer.Option("--qnn", metavar="VERSION", help="QNN's libraries: a version or a folder. [2.51]"),
    ] = None,
    quantize: Annotated[
        str | None,
        typer.Option(
            "--quantize",
            metavar="RECIPE",
            help="8a8w, 16a8w, another recipe or a .yaml file, with made-up ranges.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="WHAT",
            help="Where the time goes: by node, module or op; or what avoiding each erratum costs: erratum.",
        ),
    ] = None,
    top: Annotated[int, typer.Option("--top", metavar="N", help="Rows of --by and --against; 0: all.")] = 20,
    trace: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="Write a Chrome trace of the simulation.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with pictures.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="OTHER",
            help="Compare with another model, or with what 'opdb cost --json' printed.",
        ),
    ] = None,
    rank_only: Annotated[
        bool,
        typer.Option(
            "--rank-only",
            help="For any chip of v73 to v81: SA8255's figures, to say which of two models is faster.",
        ),
    ] = False,
    fail_over: Annotated[
        float | None,
        typer.Option(
            "--fail-over", metavar="US", help="Exit 1 if the estimate is above this many microseconds."
        ),
    ] = None,
    fail_spill: Annotated[
        float | None,
        typer.Option(
            "--fail-spill", metavar="MB", help="Exit 1 if more than this many MB (10**6 bytes) are spilled."
        ),
    ] = None,
    execution: Execution = None,
    errata: Errata = None,
    ignore_erratum: IgnoreErratum = None,
    graph: GraphName = None,
    dtype: Dtype = "f32",
    decompose: Decompose = False,
    dim: Dim = None,
    precision: Annotated[
        str | None,
        typer.Option("--precision", metavar="WORD", help="How float32 is computed: fp16 or default. [fp16]"),
    ] = None,
    optimization: Annotated[
        int | None,
        typer.Option("--optimization", metavar="2..3", help="Optimization level of HTP's finalization."),
    ] = None,
    no_pass: NoPass = None,
    io_layout: IoLayout = "keep",
    passes: Passes = False,
    timeout: Timeout = 600.0,
    json: Json = False,
) -> None:
    """Estimate the latency of a model on a chip by Qualcomm's own simulation; no device is needed.

    The library simulates a graph when it is finalized, in a child process.  Exit 1 if it refuses the graph, or where --fail-over or
    --fail-spill is exceeded.  docs/guides/cost.md says what the figures are worth.
    """
    from opdb.cli.compile import Lowering
    from opdb.cli.cost_output import Found, document, print_found
    from opdb.cli.estimates import Run, Wish, load
    from opdb.cli.progress import Stages
    from opdb.lower.passes import check_layout, check_names
    from opdb.measure.cost import Simulator
    from opdb.measure.cost.report.rows import BY
    from opdb.measure.cost.simulator import QNN
    from opdb.programs.onnx.inputs import parsed
    from opdb.runtime.qnn import SIMULATING

    check_names(no_pass or ())
    check_layout(io_layout)
    _check(by, (*BY, ERRATUM), dtype, timeout, optimization, top)
    recipe, dtype = asked_recipe(quantize, dtype)
    simulated = _ranking(soc, fail_over) if rank_only else soc
    with (
        Stages(quiet=True) as stages,
        Simulator(simulated, libraries=qnn or QNN, timeout=timeout) as simulator,
    ):
        simulator.check_chip()  # before the model is loaded
        target = target_of(SIMULATING, soc, simulator.sdk, execution, errata, ignore_erratum)
        how = Lowering(graph, dtype, decompose, tuple(no_pass or ()), io_layout, recipe is not None)
        wish = Wish(target, how, recipe, parsed(dim or ()))
        other = None if against is None else _saved(against)
        traced = bool(by not in (None, ERRATUM) or trace or html or (against and other is None))
        run = Run(simulator, precision, optimization, traced, stages, json)
        loaded = load(model, wish, stages, json)
        if (traced or by) and len(loaded.graphs) > 1:
            raise OpdbError(f"{model}: it has {len(loaded.graphs)} graphs; choose one with --graph NAME")
        if by == ERRATUM and loaded.on is None:
            raise OpdbError(f"--by {ERRATUM}: for models; op configs stay as they are")
        estimates = [run.estimate(g) for g in loaded.graphs]
        found = Found(
            loaded,
            tuple(estimates),
            by,
            None if recipe is None else recipe.name,
            str(target.soc) if rank_only else None,
            None if against is None else _against(against, other, wish, run, estimates),
            _errata_prices(loaded, target, run, estimates[0]) if by == ERRATUM else (),
            tuple(_failed(estimates, fail_over, fail_spill)),
        )
    _write(estimates[0], loaded, trace, html)
    if json:
        print_json(document(found))
    else:
        print_found(found, top)
    if found.failed:
        raise typer.Exit(1)


def _ranking(soc: str, fail_over: float | None) -> str:
    """The chip whose simulation ranks models for ``soc``."""
    from opdb.catalog.targets.target import soc_name
    from opdb.lower.prices import RANKED
    from opdb.measure.cost.chips import RANKING, ranks

    if fail_over is not None:
        raise OpdbError(
            f"--fail-over {fail_over:g}: does not go with --rank-only, whose time is another chip's"
        )
    if not ranks(soc_name(soc)):
        raise OpdbError(
            f"{soc_name(soc)}: --rank-only is for v{RANKED[0]} to v{RANKED[-1]}; the order was not checked on other chips"
        )
    return RANKING


def _saved(against: str) -> dict[str, Any] | None:
    """The document of --against, if it is a file that `opdb cost --json` wrote."""
    from opdb.measure.cost.report.document import is_saved

    if not against.endswith(".json"):
        return None
    try:
        found = json_module.loads(Path(against).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OpdbError(f"--against {against}: {error}") from None
    return found if is_saved(found) else None


def _against(
    against: str, saved: dict[str, Any] | None, wish: Wish, run: Run, estimates: Sequence[Estimate]
) -> Difference:
    from opdb.cli.estimates import load
    from opdb.measure.cost import compare
    from opdb.measure.cost.report.document import whole, whole_json

    if saved is None:
        loaded = load(against, wish, run.stages, run.json)
        if len(loaded.graphs) > 1:
            raise OpdbError(
                f"--against {against}: it has {len(loaded.graphs)} graphs; choose one with --graph NAME"
            )
        return compare(estimates[0], run.estimate(loaded.graphs[0]))
    try:
        before, after = whole(whole_json(estimates)), whole(saved)
    except OpdbError as error:
        raise OpdbError(f"--against {against}: {error}") from None
    same = {
        "chip": (before.soc, after.soc),
        "QNN version": (before.build_id, after.build_id),
        "precision": (
            wish.recipe.name if wish.recipe else before.precision,
            saved.get("quantize") or after.precision,
        ),
    }
    for what, (here, there) in same.items():
        if here != there:
            raise OpdbError(
                f"--against {against}: it is of another {what}: {there or 'default'}, here {here or 'default'}"
            )
    return compare(before, after)


def _errata_prices(loaded: Loaded, target: Target, run: Run, own: Estimate) -> tuple[ErratumPrice, ...]:
    from opdb.measure.cost.errata import prices

    assert loaded.on is not None  # of a model
    return prices(own, loaded.errata, target, loaded.on, run.asked)


def _check(
    by: str | None, known: Sequence[str], dtype: str, timeout: float, optimization: int | None, top: int
) -> None:
    if by is not None and by not in known:
        raise OpdbError(f"--by {by}: one of {', '.join(known)}")
    if dtype not in ("f32", "f16"):
        raise OpdbError(f"--dtype {dtype}: one of f32, f16")
    if timeout <= 0:
        raise OpdbError(f"--timeout {timeout:g}: give a time above 0 seconds")
    if optimization == 1:
        raise OpdbError("--optimization 1: the library's estimates are meaningless at this level; use 2 or 3")
    if top < 0:
        raise OpdbError(f"--top {top}: a number of rows, 0 for all")


def _write(estimate: Estimate, loaded: Loaded, trace: Path | None, html: Path | None) -> None:
    from opdb.core.files import write_atomically

    if trace is not None:
        write_atomically(trace, json_module.dumps(estimate.trace) + "\n")
    if html is not None:
        from opdb.measure.cost.report.html import page

        write_atomically(html, page(estimate, loaded.modules, loaded.model))


def _failed(estimates: Sequence[Estimate], over: float | None, spill: float | None) -> Iterator[str]:
    """The limits that are exceeded."""
    us = sum(e.us for e in estimates)
    spilled = sum(e.spilled_bytes for e in estimates) / 1e6
    if over is not None and us > over:
        yield f"--fail-over {over:g}: the estimate is {us:,.0f} us"
    if spill is not None and spilled > spill:
        yield f"--fail-spill {spill:g}: {spilled:,.2f} MB are spilled"
