"""compile."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli.compile_options import CompileOptions, Plan, plan
from opdb.cli.help import BUILD, App
from opdb.cli.option_groups import with_option_groups
from opdb.core import plugins

if TYPE_CHECKING:
    from opdb.catalog.targets.target import Target
    from opdb.cli.compile_graphs import ContextGraphs
    from opdb.cli.compile_report import Compilation
    from opdb.cli.progress import Stages
    from opdb.execute.compile.build import Compiled
    from opdb.execute.libraries.client import VendorWorker
    from opdb.execute.libraries.results import Outcome
    from opdb.runtime.qnn.graph import GraphOptions


#: The stages of a context, in order.
STAGES = ("read", "export", "lower", "quantize", "record", "open", "validate", "build", "finalize", "save")


def add_to(app: App) -> None:
    app.command("compile", example="opdb compile model.onnx --soc SM8650 -o model.bin", group=BUILD)(
        compile_model
    )


@with_option_groups
def compile_model(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A .pt2, .onnx or .tflite file, module:callable that returns (module, inputs), or op configs: .json, .jsonl, -.",
        ),
    ],
    options: CompileOptions,
) -> None:
    """Compile a model to a file that `opdb run` loads.

    Exit 1 if the target or the library refuses it.

    The library works in a child process: if it crashes or hangs, that is the result.  Each op config becomes a
    graph of its own, called by its id.  A .pte is made by ExecuTorch's own flow with opdb's builders, and holds what
    QNN does not take as well; it is written, with exit 1, where nodes fall back to the CPU.
    """
    asked = plan(model, options)
    if options.program is not None:
        plugins.load("PROGRAMS", options.program.suffix).compile_program(
            model, options.program, asked.target, asked.calibration, options.timeout, options.json, asked.dims
        )
        return
    done = _compiled(model, asked, options)
    if done.made.calibrated is not None:
        done.made.calibrated.save(model)
    if done.made.encodings is not None:
        done.made.encodings.save()
    if options.json:
        done.print_json()
    else:
        done.print()
    if done.failed:
        raise typer.Exit(1)


def _compiled(model: str, asked: Plan, options: CompileOptions) -> Compilation:
    """Makes the graphs, and writes the files of --saver and --output."""
    from opdb.cli.compile_graphs import context_graphs
    from opdb.cli.compile_report import Compilation
    from opdb.cli.progress import Stages
    from opdb.execute.compile.model import graph_options

    with ExitStack() as done:
        worker = (
            None if options.output is None else done.enter_context(_opening(asked.target, options.timeout))
        )
        stages = done.enter_context(Stages(STAGES))
        made = context_graphs(model, asked, options, stages)
        settings = graph_options(made.graphs, asked.target.backend, options.precision, options.optimization)
        settings.check(str(asked.target.backend))
        recorded = compiled = None
        if options.saver is not None:
            recorded = _record(made, options.saver, asked.target, settings, options.timeout, stages)
        if options.output is not None and worker is not None:
            metadata = _metadata(model, made, asked, options, settings)
            shared = _shares_weights(asked.target, options)
            compiled = _context(
                made, options.output, asked.target, settings, metadata, shared, worker, stages
            )
    return Compilation(made, asked, settings, stages, options.saver, recorded, compiled, options.verbose)


def _opening(target: Target, timeout: float) -> VendorWorker:
    """A worker that opens the library while the model is read."""
    from opdb.execute.libraries.client import VendorWorker

    worker = VendorWorker(str(target.backend), target.soc, timeout=timeout)
    worker.open_ahead()
    return worker


def _record(
    made: ContextGraphs,
    folder: Path,
    target: Target,
    settings: GraphOptions,
    timeout: float,
    stages: Stages,
) -> Outcome:
    from opdb.execute.libraries.client import record

    stages("record")
    return record(made.graphs, folder, str(target.backend), target.soc, options=settings, timeout=timeout)


def _context(
    made: ContextGraphs,
    output: Path,
    target: Target,
    settings: GraphOptions,
    metadata: dict[str, Any],
    shared: bool,
    worker: VendorWorker,
    stages: Stages,
) -> Compiled:
    from opdb.execute.compile.build import compile_to_file

    return compile_to_file(
        made.graphs, output, str(target.backend), target.soc, settings,
        metadata=metadata, progress=stages, weight_sharing=shared, worker=worker,
    )  # fmt: skip


def _shares_weights(target: Target, options: CompileOptions) -> bool:
    """True if graphs store equal weights once; the emulation cannot load such a context."""
    from opdb.runtime.qnn.context import SHARES_WEIGHTS

    return bool(options.others) and target.backend == SHARES_WEIGHTS and target.execution == "device"


def _metadata(
    model: str, made: ContextGraphs, asked: Plan, options: CompileOptions, settings: GraphOptions
) -> dict[str, Any]:
    """The record of a context: its origin, and what `opdb run` needs to know."""
    from opdb.execute.compile.states import states_json

    return {
        "model": model,
        "options": {k: v for k, v in vars(settings).items() if v},
        "execution": asked.target.execution,
        "without_passes": options.optimizer.no_pass or [],
        "io_layout": options.optimizer.io_layout,
        "calibration": made.calibrated and made.calibrated.origin(),
        "states": states_json(made.states),
        "scalars": {graph: list(names) for graph, names in made.scalars.items() if names},
        "errata": {kind: [e.erratum for e in made.errata if e.policy == kind] for kind in ("avoid", "warn")},
    }
