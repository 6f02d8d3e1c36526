"""compile."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli.calibration import (
    Calibrated,
    Data,
    Quantize,
    Ranges,
    calibration,
    quantized,
    rounded_file,
    samples_of,
)
from opdb.cli.compile_output import outcome_json, print_ends, print_failure, tensor_json
from opdb.cli.encodings_export import VERSION, EncodingsVersion, Exported, ExportEncodings, export_of
from opdb.cli.options import (
    Decompose,
    Dim,
    Dtype,
    Encodings,
    Errata,
    Execution,
    GraphName,
    IgnoreErratum,
    IoLayout,
    Json,
    NoPass,
    Passes,
    Sdk,
    Soc,
    Timeout,
    is_program,
    target_of,
)
from opdb.cli.output import print_json
from opdb.cli.recipes import asked_recipe
from opdb.core import plugins
from opdb.core.errors import OpdbError
from opdb.generated.constants.backends import BACKENDS, DEFAULT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.export import ExportedProgram

    from opdb.catalog.targets.target import Target
    from opdb.checks.verdicts import Coverage
    from opdb.cli.progress import Stages
    from opdb.core.graph import QnnGraph
    from opdb.execute.compile.build import Compiled
    from opdb.execute.compile.states import State
    from opdb.execute.libraries.client import VendorWorker
    from opdb.execute.libraries.results import Outcome
    from opdb.judge.errata.report import ErratumCount
    from opdb.runtime.qnn.graph import GraphOptions

#: The backends that a context can be compiled for.
CONTEXTS = tuple(b.name for b in BACKENDS.values() if "context" in b.programs)
#: Warnings of the library that are printed.
LINES = 3


def add_to(app: typer.Typer) -> None:
    app.command("compile")(compile_model)


def compile_model(
    model: Annotated[
        str,
        typer.Argument(
            help="A .pt2, .onnx or .tflite file, module:callable that returns (module, inputs), or op configs: .json, .jsonl, -."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The context file, or the .pte, to write."),
    ] = None,
    backend: Annotated[
        str, typer.Option("--backend", metavar="NAME", help=f"{' or '.join(CONTEXTS)}.")
    ] = DEFAULT,
    soc: Soc = None,
    sdk: Sdk = None,
    execution: Execution = None,
    errata: Errata = None,
    ignore_erratum: IgnoreErratum = None,
    others: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="MODEL",
            help="Another model for the same context, e.g. prefill beside decode; on a device equal weights are there once. Repeatable.",
        ),
    ] = None,
    graph: GraphName = None,
    dtype: Dtype = "f32",
    decompose: Decompose = False,
    dim: Dim = None,
    encodings: Encodings = None,
    precision: Annotated[
        str | None,
        typer.Option(
            "--precision",
            metavar="WORD",
            help="How HTP computes float32: fp16, or default for the library's choice. [fp16]",
        ),
    ] = None,
    optimization: Annotated[
        int | None,
        typer.Option("--optimization", metavar="1..3", help="Optimization level of HTP's finalization."),
    ] = None,
    saver: Annotated[
        Path | None,
        typer.Option(
            "--saver", metavar="DIR", help="Write the calls of this compilation as C into a folder."
        ),
    ] = None,
    quantize: Quantize = None,
    data: Data = None,
    ranges: Ranges = None,
    export_encodings: ExportEncodings = None,
    encodings_version: EncodingsVersion = VERSION,
    no_pass: NoPass = None,
    io_layout: IoLayout = "keep",
    passes: Passes = False,
    timeout: Timeout = 600.0,
    json: Json = False,
) -> None:
    """Compile a model to a file that `opdb run` loads; exit 1 if the target or the library refuses it.

    The library works in a child process: if it crashes or hangs, that is the result.  Each op config becomes a
    graph of its own, called by its id.  A .pte is made by ExecuTorch's own flow with opdb's builders, and holds what
    QNN does not take as well; it is written, with exit 1, where nodes fall back to the CPU.
    """
    from opdb.cli.progress import Stages
    from opdb.execute.compile.rounding import check as to_round
    from opdb.execute.compile.sources import sources_of
    from opdb.execute.compile.states import states_json, stored_states
    from opdb.lower.passes import check_layout, check_names
    from opdb.programs.onnx.inputs import parsed
    from opdb.runtime.qnn.context import SHARES_WEIGHTS
    from opdb.runtime.qnn.device import soc_model_of

    if output is None and saver is None:
        raise OpdbError("nothing to write: give -o FILE, or --saver DIR, or both")
    if output is not None and output.is_dir():
        raise OpdbError(f"{output}: this is a folder; name a file")
    target = target_of(backend, soc, sdk, execution, errata, ignore_erratum)
    target.context()  # an unknown backend or SoC is said before the model is loaded
    if target.backend not in CONTEXTS:
        raise OpdbError(f"--backend {backend}: graphs are compiled for {' and '.join(CONTEXTS)}")
    soc_model_of(str(target.backend), target.soc, None)
    if dtype not in ("f32", "f16"):
        raise OpdbError(f"--dtype {dtype}: one of f32, f16")
    dims = parsed(dim or ())
    check_names(no_pass or ())
    check_layout(io_layout)
    if timeout <= 0:
        raise OpdbError(f"--timeout {timeout:g}: give a time above 0 seconds")
    floats = dtype
    recipe, dtype = asked_recipe(quantize, dtype)
    how_to_quantize = calibration(quantize, recipe, data, ranges)
    rounds = recipe is not None and to_round(recipe, model, io_layout)
    _alone(others or [], model, output, graph, quantize)
    export = export_of(
        export_encodings,
        encodings_version,
        model,
        recipe is not None,
        dims,
        output is not None and is_program(output),
        rounds,
    )
    if encodings is not None and quantize is not None:
        raise OpdbError(
            "--encodings and --quantize: give one of them; the encodings say how the model is quantized"
        )
    if output is not None and is_program(output):
        given = (saver, graph, optimization, no_pass, encodings)
        if any(g is not None for g in given) or floats != "f32" or decompose or io_layout != "keep":
            raise OpdbError(
                f"{output}: --saver, --graph, --optimization, --dtype, --decompose, --no-pass, --encodings and --io-layout "
                "are not for a .pte"
            )
        plugins.load("PROGRAMS", output.suffix).compile_program(
            model, output, target, how_to_quantize, timeout, json, dims
        )
        return
    calibrated: Calibrated | None = None
    kept_encodings: Exported | None = None
    states: tuple[State, ...] = ()
    scalars: dict[str, tuple[str, ...]] = {}
    with ExitStack() as done:
        worker = None if output is None else done.enter_context(_opening(target, timeout))
        stages = done.enter_context(Stages(quiet=json))
        if model == "-" or model.endswith((".json", ".jsonl")):
            if no_pass or io_layout != "keep" or quantize or dims or encodings:
                raise OpdbError(
                    f"{model}: --no-pass, --io-layout, --quantize, --encodings and --dim are for models; op configs stay as they are"
                )
            graphs, errata_met = graphs_of_configs(model, target, graph, stages, json)
        else:
            how = Lowering(
                graph,
                dtype,
                decompose,
                tuple(no_pass or ()),
                io_layout,
                how_to_quantize is not None,
                encodings,
            )
            program = exported(model, stages, dims, encodings, quick=not decompose)
            coverage, made = lowered_or_exit(program, model, target, how, stages, json)
            states = coverage.states
            scalars = {made.name: coverage.scalars}
            rows = coverage.rows
            if how_to_quantize is not None:
                kept = {s.input for s in states}
                samples = samples_of(how_to_quantize, [t for t in made.inputs if t.name not in kept], program)
                learned: tuple[str, ...] = ()
                if rounds:
                    with rounded_file(model, how_to_quantize, samples, made, rows, stages) as (copy, learned):
                        program = exported(copy, stages, dims, quick=not decompose)
                        coverage, made = lowered_or_exit(program, copy, target, how, stages, json)
                    rows = coverage.rows
                sources = sources_of(rows)
                whole = made
                made, calibrated = quantized(made, how_to_quantize, samples, target, stages, states, sources)
                if export is not None:
                    kept_encodings = export.named(program, rows, whole, made, samples[0], states)
                calibrated = replace(calibrated, notes=(*learned, *calibrated.notes))
                states = stored_states(states, made)
            graphs = [made]
            for other in others or ():
                program = exported(other, stages, dims, quick=not decompose)
                coverage, made = lowered_or_exit(
                    program, other, target, replace(how, encodings=None), stages, json
                )
                if any(g.name == made.name for g in graphs):
                    raise OpdbError(
                        f"--with {other}: the context has a graph {made.name} already; rename the callable or file"
                    )
                graphs.append(made)
                scalars[made.name] = coverage.scalars
                states += coverage.states
                rows += coverage.rows
            errata_met = replace(coverage, rows=rows).errata()
        # The emulation loads no context whose graphs share weights.
        shared = bool(others) and target.backend == SHARES_WEIGHTS and target.execution == "device"
        options = _options(graphs, target, precision, optimization)
        metadata: dict[str, Any] = {
            "model": model,
            "options": {k: v for k, v in vars(options).items() if v},
            "execution": target.execution,
            "without_passes": no_pass or [],
            "io_layout": io_layout,
            "calibration": calibrated and calibrated.origin(),
            "states": states_json(states),
            "scalars": {graph: list(names) for graph, names in scalars.items() if names},
            "errata": {
                kind: [e.erratum for e in errata_met if e.policy == kind] for kind in ("avoid", "warn")
            },
        }
        outcomes = []
        if saver is not None:
            outcomes.append(_record(graphs, saver, target, options, timeout, stages))
        if output is not None:
            from opdb.execute.compile.build import compile_to_file

            compiled = compile_to_file(
                graphs, output, str(target.backend), target.soc, options,
                metadata=metadata, progress=stages, weight_sharing=shared, worker=worker,
            )  # fmt: skip
            outcomes.append(compiled.result)
        else:
            compiled = None
    if calibrated is not None:
        calibrated.save(model)
    if kept_encodings is not None:
        kept_encodings.save()
    _report(
        compiled,
        graphs,
        target,
        options,
        saver,
        stages,
        outcomes,
        errata_met,
        io_layout,
        calibrated,
        kept_encodings,
        states,
        json,
    )
    if any(o.stage != "done" for o in outcomes):
        raise typer.Exit(1)


def _opening(target: Target, timeout: float) -> VendorWorker:
    """A worker whose library opens while the model is read."""
    from opdb.execute.libraries.client import VendorWorker

    worker = VendorWorker(str(target.backend), target.soc, timeout=timeout)
    worker.open_ahead()
    return worker


def _alone(
    others: list[str], model: str, output: Path | None, graph: str | None, quantize: str | None
) -> None:
    """Refuses what cannot be beside --with."""
    if not others:
        return
    if model == "-" or model.endswith((".json", ".jsonl")) or output is None or is_program(output):
        raise OpdbError("--with: for models that become one context file; give -o FILE.bin")
    if graph is not None or quantize is not None:
        raise OpdbError(
            f"--with: without {'--graph' if graph is not None else '--quantize'}; each graph is called as its model"
        )


@dataclass(frozen=True)
class Lowering:
    """How a model becomes a graph: its name (None: the model's), and what opdb.execute.compile.model.lowered takes."""

    name: str | None
    dtype: str
    decompose: bool
    without: tuple[str, ...]
    io_layout: str
    to_quantize: bool = False
    encodings: str | None = None


def exported(
    model: str,
    stages: Stages,
    dims: Mapping[str, int] | None = None,
    encodings: str | None = None,
    quick: bool = False,
) -> ExportedProgram:
    """The program of a model as the command line spells it; see opdb.programs.load.load_program."""
    from opdb.programs.load import load_program

    stages("export")
    sys.path.insert(0, "")
    return load_program(model, dims, encodings, quick=quick)


def made_of(
    program: ExportedProgram, model: str, target: Target, how: Lowering
) -> tuple[Coverage, QnnGraph | None]:
    """What each node of the model became, and its graph if every node is supported."""
    from opdb.checks.file_names import with_names
    from opdb.execute.compile.model import graph_name, lowered
    from opdb.execute.compile.model_io import Ends
    from opdb.programs.load import has_names
    from opdb.programs.onnx.files import ends

    named = has_names(model)
    coverage, graph = lowered(
        program,
        target,
        how.name or graph_name(model),
        float_dtype=how.dtype,
        decompose=how.decompose,
        without=how.without,
        io_layout=how.io_layout,
        to_quantize=how.to_quantize,
        ends=Ends(*ends(model)) if named else None,
    )
    return with_names(coverage, model, how.encodings) if named else coverage, graph


def lowered_or_exit(
    program: ExportedProgram, model: str, target: Target, how: Lowering, stages: Stages, json: bool
) -> tuple[Coverage, QnnGraph]:
    """``made_of``; where a node is refused, prints what `opdb check` prints and exits 1."""
    stages("lower")
    coverage, graph = made_of(program, model, target, how)
    if graph is None:
        if json:
            print_json({"result": {"stage": "lower", "verdict": "no"}, "coverage": coverage.to_json()})
        else:
            from opdb.cli.check import print_coverage

            print_coverage(coverage)
        raise typer.Exit(1)
    return coverage, graph


def graphs_of_configs(
    file: str, target: Target, name: str | None, stages: Stages, json: bool
) -> tuple[list[QnnGraph], tuple[ErratumCount, ...]]:
    """A graph for each op config, and the errata to warn of; where the specs refuse one, prints the reasons and exits 1."""
    from opdb.cli.configs import configs
    from opdb.execute.compile.model import chosen, config_graphs, judged, warned

    stages("read")
    graphs = chosen(config_graphs(configs(file)), name)
    refused = judged(graphs, target)
    if refused:
        if json:
            print_json({"result": {"stage": "lower", "verdict": "no"}, "refused": refused})
        for graph, reasons in [] if json else refused.items():
            print(f"{graph} on {target}: reject")
            for reason in reasons:
                print(f"  {reason}")
        raise typer.Exit(1)
    return graphs, warned(graphs, target)


def _options(
    graphs: list[QnnGraph], target: Target, precision: str | None, optimization: int | None
) -> GraphOptions:
    from opdb.execute.compile.model import precision_of
    from opdb.runtime.qnn.graph import GraphOptions

    if precision is None:
        precision = precision_of(graphs, target.backend)
    options = GraphOptions(precision=None if precision == "default" else precision, optimization=optimization)
    options.check(str(target.backend))
    return options


def _record(
    graphs: list[QnnGraph],
    folder: Path,
    target: Target,
    options: GraphOptions,
    timeout: float,
    stages: Stages,
) -> Outcome:
    from opdb.execute.libraries.client import record

    stages("record")
    return record(graphs, folder, str(target.backend), target.soc, options=options, timeout=timeout)


def _report(
    compiled: Compiled | None,
    graphs: list[QnnGraph],
    target: Target,
    options: GraphOptions,
    saver: Path | None,
    stages: Stages,
    outcomes: list[Any],
    errata: tuple[ErratumCount, ...],
    io_layout: str,
    calibrated: Calibrated | None,
    exported: Exported | None,
    states: tuple[State, ...],
    json: bool,
) -> None:
    bad = next((o for o in outcomes if o.stage != "done"), None)
    if json:
        own = [s for s in stages.seconds if s[0] in ("export", "read", "lower", "record")]
        print_json({
            "output": str(compiled.path) if compiled and compiled.size else None,
            "size": compiled.size if compiled else None,
            "backend": target.backend,
            "soc": target.soc,
            "build_id": compiled.build_id if compiled else None,
            "saver": str(saver) if saver and outcomes[0].stage == "done" else None,
            "precision": options.precision,
            "optimization": options.optimization,
            "io_layout": io_layout,
            "calibration": calibrated and calibrated.to_json(),
            "states": [
                {"graph": s.graph, "buffer": s.buffer, "input": s.input, "output": s.output} for s in states
            ],
            "graphs": [
                {"name": g.name, "nodes": len(g.ops), "inputs": [tensor_json(t) for t in g.inputs],
                 "outputs": [tensor_json(t) for t in g.outputs]} for g in graphs
            ],
            "seconds": [
                {"stage": s, "graph": g, "seconds": round(t, 6)}
                for s, g, t in (*own, *(compiled.seconds if compiled else ()))
            ],
            "errata": [vars(e) for e in errata],
            "result": outcome_json(bad or outcomes[-1]),
        })  # fmt: skip
        return
    for o in outcomes:
        if o.stage != "done":
            print_failure(o, str(target))
    if saver is not None and outcomes[0].stage == "done":
        print(f"{saver}: saver_output.c and params.bin")
        if BACKENDS[str(target.backend)].per_soc:
            what = "own configurations (SoC, precision, optimization)"
            print(f"  without {target.backend}'s {what}: the Saver leaves them out")
    if compiled is not None and compiled.size:
        print(f"{compiled.path}: {compiled.size} bytes for {target}, QNN {compiled.build_id}")
        for g in graphs:
            ends = "; images at its ends in NHWC" if io_layout == "nhwc" else ""
            print(f"graph {g.name}: {len(g.ops)} node{'s' * (len(g.ops) != 1)}{ends}")
            print_ends(g.inputs, g.outputs)
            for s in states:
                if s.graph == g.name:
                    print(f"  state  {s.buffer}: the output {s.output} is the next run's input {s.input}")
        if calibrated is not None:
            calibrated.print()
        if exported is not None:
            exported.print()
        for e in errata:
            print(f"  {e.text}")
        log = compiled.result.log
        for line in log if len(log) <= LINES else log[: LINES - 1]:
            print(f"  {line}")
        if len(log) > LINES:
            print(f"  and {len(log) - LINES + 1} lines more of the library's; --json has them all")
