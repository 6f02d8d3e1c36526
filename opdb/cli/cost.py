"""cost."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli.options import (
    Decompose,
    Dtype,
    Errata,
    Execution,
    Format,
    GraphName,
    IgnoreErratum,
    IoLayout,
    Json,
    NoPass,
    Passes,
    Timeout,
    target_of,
)
from opdb.cli.output import print_json, print_rows
from opdb.errors import OpdbError

if TYPE_CHECKING:
    from opdb.cli.compile import Lowering
    from opdb.cli.progress import Stages
    from opdb.cost import Difference, Estimate, Simulator
    from opdb.cost.report.rows import Row
    from opdb.errata.report import ErratumCount
    from opdb.graph import QnnGraph
    from opdb.targets.target import Target

COLUMNS = ("us", "share", "dma_wait_us", "nodes", "what", "ops", "uncosted")
CHANGES = ("before_us", "after_us", "change_us", "ops")


def add_to(app: typer.Typer) -> None:
    app.command("cost")(cost)


@dataclass(frozen=True)
class Loaded:
    """What a model became.  ``modules``: of the torch nodes; ``alone``: its graphs are op configs, each a graph of one op."""

    model: str
    graphs: tuple[QnnGraph, ...]
    modules: Mapping[str, str]
    errata: tuple[ErratumCount, ...]
    alone: bool


@dataclass(frozen=True)
class Wish:
    """The options that make graphs of a model."""

    target: Target
    how: Lowering
    quantize: str | None


def cost(
    model: Annotated[
        str,
        typer.Argument(
            help="A .pt2 or .onnx file, module:callable that returns (module, inputs), or op configs: .json, .jsonl, -."
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
        typer.Option("--quantize", metavar="WORD", help="8a8w or 16a8w, with ranges that are made up."),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="WHAT", help="Where the time goes: by node, module or op.")
    ] = None,
    top: Annotated[int, typer.Option("--top", metavar="N", help="Rows of --by and --against; 0: all.")] = 20,
    trace: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="Write a Chrome trace of the simulation.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with pictures.")
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", metavar="OTHER", help="Another model: what it costs more.")
    ] = None,
    fail_over: Annotated[
        float | None, typer.Option("--fail-over", metavar="US", help="Exit 1 above so many microseconds.")
    ] = None,
    fail_spill: Annotated[
        float | None,
        typer.Option("--fail-spill", metavar="MB", help="Exit 1 above so many MB (10**6) spilled."),
    ] = None,
    execution: Execution = None,
    errata: Errata = None,
    ignore_erratum: IgnoreErratum = None,
    graph: GraphName = None,
    dtype: Dtype = "f32",
    decompose: Decompose = False,
    precision: Annotated[
        str | None,
        typer.Option("--precision", metavar="WORD", help="How float32 is computed: fp16 or default. [fp16]"),
    ] = None,
    optimization: Annotated[
        int | None, typer.Option("--optimization", metavar="2..3", help="HTP's effort of finalization.")
    ] = None,
    no_pass: NoPass = None,
    io_layout: IoLayout = "keep",
    passes: Passes = False,
    timeout: Timeout = 600.0,
    json: Json = False,
) -> None:
    """Estimate the latency of a model on a chip by Qualcomm's own simulation; no device is needed.

    The library simulates a graph when it is finalized, in a child process.  Exit 1 if it refuses the graph, or where --fail-over or
    --fail-spill is exceeded.  docs/cost.md says what the figures are worth.
    """
    from opdb.cli.compile import Lowering
    from opdb.cli.progress import Stages
    from opdb.cost import Simulator
    from opdb.cost.report.rows import BY
    from opdb.cost.simulator import QNN
    from opdb.optimize import check_layout, check_names
    from opdb.runtime.qnn import SIMULATING

    check_names(no_pass or ())
    check_layout(io_layout)
    _check(by, BY, dtype, timeout, optimization, top)
    with Stages(quiet=True) as stages, Simulator(soc, libraries=qnn or QNN, timeout=timeout) as simulator:
        simulator.check_chip()  # before the model is loaded
        target = target_of(SIMULATING, soc, simulator.sdk, execution, errata, ignore_erratum)
        wish = Wish(target, Lowering(graph, dtype, decompose, tuple(no_pass or ()), io_layout), quantize)
        traced = bool(by or trace or html or against)
        run = _Run(simulator, precision, optimization, traced, stages, json)
        loaded = _load(model, wish, stages, json)
        if traced and len(loaded.graphs) > 1:
            raise OpdbError(f"{model}: it has {len(loaded.graphs)} graphs; choose one with --graph NAME")
        estimates = [run.estimate(g) for g in loaded.graphs]
        difference = None
        if against is not None:
            difference = _against(against, wish, run, estimates[0])
    _write(estimates[0], loaded, trace, html)
    failed = list(_failed(estimates, fail_over, fail_spill))
    if json:
        print_json(_document(estimates, loaded, by, quantize, difference, failed))
    else:
        _print(estimates, loaded, by, top, quantize, difference, failed)
    if failed:
        raise typer.Exit(1)


def _check(
    by: str | None, known: Sequence[str], dtype: str, timeout: float, optimization: int | None, top: int
) -> None:
    if by is not None and by not in known:
        raise OpdbError(f"--by {by}: one of {', '.join(known)}")
    if dtype not in ("f32", "f16"):
        raise OpdbError(f"--dtype {dtype}: one of f32, f16")
    if timeout <= 0:
        raise OpdbError(f"--timeout {timeout:g}: a time above 0 s")
    if optimization == 1:
        raise OpdbError("--optimization 1: the library's estimates are nonsense there; 2 or 3")
    if top < 0:
        raise OpdbError(f"--top {top}: a number of rows, 0 for all")


def _load(model: str, wish: Wish, stages: Stages, json: bool) -> Loaded:
    """The graphs of a model; exits 1 where a node is refused."""
    from opdb.cli.compile import graphs_of_configs, lowered_or_exit

    if model == "-" or model.endswith((".json", ".jsonl")):
        if wish.quantize is not None:
            raise OpdbError(f"--quantize {wish.quantize}: op configs say themselves what is quantized")
        if wish.how.without or wish.how.io_layout != "keep":
            raise OpdbError(f"{model}: --no-pass and --io-layout are for models; op configs stay as they are")
        graphs, errata = graphs_of_configs(model, wish.target, wish.how.name, stages, json)
        return Loaded(model, tuple(graphs), {}, errata, alone=True)
    coverage, made = lowered_or_exit(model, wish.target, wish.how, stages, json)
    if wish.quantize is not None:
        from opdb.cost.made_up import quantized

        stages("quantize")
        made = quantized(made, wish.quantize, wish.target)
    modules = {row.node: row.module for row in coverage.rows}
    return Loaded(model, (made,), modules, coverage.errata(), alone=False)


@dataclass(frozen=True)
class _Run:
    """How graphs are simulated."""

    simulator: Simulator
    precision: str | None
    optimization: int | None
    traced: bool
    stages: Stages
    json: bool

    def estimate(self, graph: QnnGraph) -> Estimate:
        """The estimate of a graph; exits 1 where the library refuses it."""
        from opdb.cli.compile import outcome_json, print_failure
        from opdb.compile.model import precision_of
        from opdb.cost import NotEstimated
        from opdb.runtime.qnn import SIMULATING
        from opdb.runtime.qnn.graph import GraphOptions

        precision = precision_of([graph], SIMULATING) if self.precision is None else self.precision
        options = GraphOptions(
            precision=None if precision == "default" else precision, optimization=self.optimization
        )
        try:
            return self.simulator.estimate(graph, options, trace=self.traced, progress=self.stages)
        except NotEstimated as error:
            if self.json:
                print_json({"result": outcome_json(error.outcome)})
            else:
                print_failure(error.outcome, f"{graph.name} on {self.simulator.soc}")
            raise typer.Exit(1) from None


def _against(other: str, wish: Wish, run: _Run, before: Estimate) -> Difference:
    from opdb.cost import compare

    loaded = _load(other, wish, run.stages, run.json)
    if len(loaded.graphs) > 1:
        raise OpdbError(
            f"--against {other}: it has {len(loaded.graphs)} graphs; choose one with --graph NAME"
        )
    return compare(before, run.estimate(loaded.graphs[0]))


def _write(estimate: Estimate, loaded: Loaded, trace: Path | None, html: Path | None) -> None:
    from opdb.files import write_atomically

    if trace is not None:
        write_atomically(trace, json_module.dumps(estimate.trace) + "\n")
    if html is not None:
        from opdb.cost.report.html import page

        write_atomically(html, page(estimate, loaded.modules, loaded.model))


def _failed(estimates: Sequence[Estimate], over: float | None, spill: float | None) -> Iterator[str]:
    """The limits that are exceeded."""
    us = sum(e.us for e in estimates)
    spilled = sum(e.spilled_bytes for e in estimates) / 1e6
    if over is not None and us > over:
        yield f"--fail-over {over:g}: the estimate is {us:,.0f} us"
    if spill is not None and spilled > spill:
        yield f"--fail-spill {spill:g}: {spilled:,.2f} MB are spilled"


def _document(
    estimates: Sequence[Estimate],
    loaded: Loaded,
    by: str | None,
    quantize: str | None,
    difference: Difference | None,
    failed: Sequence[str],
) -> dict[str, Any]:
    from opdb.cost.report.document import difference_json, whole_json
    from opdb.cost.report.rows import rows
    from opdb.cost.report.words import notes

    said = notes(estimates[0], made_up=quantize is not None, alone=loaded.alone, grouped=by is not None)
    return {
        "model": loaded.model,
        "quantize": quantize,
        **whole_json(estimates),
        "by": by,
        "rows": [vars(r) for r in rows(estimates[0], by, loaded.modules)] if by else [],
        "against": None if difference is None else difference_json(difference),
        "errata": [vars(e) for e in loaded.errata],
        "notes": list(said),
        "failed": list(failed),
    }


def _print(
    estimates: Sequence[Estimate],
    loaded: Loaded,
    by: str | None,
    top: int,
    quantize: str | None,
    difference: Difference | None,
    failed: Sequence[str],
) -> None:
    from opdb.cost.report import words
    from opdb.cost.report.rows import rows

    for e in estimates:
        print(words.headline(e))
        for line in words.figures(e):
            print(f"  {line}")
    if len(estimates) > 1:
        print(f"all {len(estimates)} graphs: {sum(e.us for e in estimates):,.0f} us")
    for erratum in loaded.errata:
        print(f"  {erratum.text}")
    if by:
        print()
        found = rows(estimates[0], by, loaded.modules)
        print_rows([_cells(r) for r in found[: top or None]], COLUMNS, Format.table)
        if top and (rest := found[top:]):
            print(f"and {len(rest)} more rows of {sum(r.us for r in rest):,.1f} us together")
    if difference is not None:
        _print_difference(difference, top)
    print()
    for note in words.notes(
        estimates[0], made_up=quantize is not None, alone=loaded.alone, grouped=by is not None
    ):
        print(f"- {note}")
    for line in failed:
        print(f"failed: {line}")


def _cells(row: Row) -> dict[str, Any]:
    return {
        "us": f"{row.us:,.1f}",
        "share": f"{row.share:.1%}",
        "dma_wait_us": f"{row.dma_wait_us:,.1f}",
        "nodes": row.nodes or None,
        "what": row.what,
        "ops": row.ops if row.ops != row.what else None,
        "uncosted": "at least" if row.missing else None,
    }


def _print_difference(difference: Difference, top: int) -> None:
    from opdb.cost.report import words

    other = difference.after
    print()
    print(words.headline(other))
    for line in words.figures(other):
        print(f"  {line}")
    sign = "+" if difference.us >= 0 else ""
    print(f"difference: {sign}{difference.us:,.0f} us, {difference.ratio - 1:+.1%} of the cycles")
    if difference.cycles and difference.noise:
        print("  less than 2 %: another order of the same work can make as much")
    changed = [c for c in difference.by_ops() if abs(c.us) >= 0.05]
    print_rows(
        [{"before_us": f"{c.before:,.1f}", "after_us": f"{c.after:,.1f}", "change_us": f"{c.us:+,.1f}", "ops": c.ops}
         for c in changed[: top or None]], CHANGES, Format.table,
    )  # fmt: skip
