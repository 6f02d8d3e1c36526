"""run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opdb.cli.help import BUILD, App
from opdb.cli.option_groups import with_option_groups
from opdb.cli.options import is_program
from opdb.cli.run_options import RunOptions, check_program
from opdb.core import plugins
from opdb.core.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdb.cli.run_report import RunReport
    from opdb.execute.compile.execute import Executed, Execution
    from opdb.execute.compile.outputs import Array


def add_to(app: App) -> None:
    app.command("run", example="opdb run model.bin --inputs random:1", group=BUILD)(run_file)


@with_option_groups
def run_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `opdb compile` wrote.")],
    options: RunOptions,
) -> None:
    """Run a compiled model on the library that it is for.

    Exit 1 if the library fails.

    The library works in a child process: if it crashes or hangs, that is the result.  With --steps an array with one more
    axis of N in front has a value for each run; the last run is printed, and --outputs has all runs along an axis in front.
    A .pte runs on the emulation by ExecuTorch's runtime; its inputs are input0, input1, ..., or what the ONNX file calls
    them.  If the file was compiled for a device, the errata that it may hit in emulation are listed.  --errata avoid refuses
    such a file; --errata ignore hides the list.
    """
    options.check()
    if is_program(file):
        check_program(file, options)
        plugins.load("PROGRAMS", file.suffix).run_program(
            file, options.inputs or [], options.outputs, options.repeat, options.timeout, options.json
        )
        return
    execution, notice = _execution(file, options)
    report = _executed(execution, notice, options)
    if options.json:
        report.print_json()
    else:
        report.print()
    if not report.done:
        raise typer.Exit(1)


def _execution(file: Path, options: RunOptions) -> tuple[Execution, str | None]:
    """The execution to run, and the notice about the emulation's errata.  Raises OpdbError for options that do not fit the file."""
    from opdb.cli.run_options import check_compiled, check_profile, target_of
    from opdb.cli.run_report import warn_not_finite
    from opdb.core.errors import OpdbError
    from opdb.execute.compile.execute import Execution, chosen_graph, emulation_notice
    from opdb.execute.compile.inputs import feed
    from opdb.execute.compile.states import begun, recorded
    from opdb.execute.compile.successive_runs import given_inputs
    from opdb.runtime.qnn import context_file

    check_compiled(file)
    header = context_file.read(file).header
    check_profile(options, header.backend)
    notice = emulation_notice(header, target_of(header.backend, options.errata), file)
    name = chosen_graph(header, options.graph, file)
    states = recorded(header.metadata, name)
    if options.from_states is not None:
        states = begun(states, options.from_states)
    if options.save_states is not None and not states:
        raise OpdbError(
            f"--save-states {options.save_states}: the graph {name} keeps nothing from run to run"
        )
    specs = options.inputs or []
    given = given_inputs([t.config for t in header.graphs[name].inputs], states, specs)
    fed = feed(specs, given, real=options.real, steps=options.steps)
    warn_not_finite(fed)
    reports = () if options.profile == "off" else ("json", "trace") if options.json else ("text", "trace")
    execution = Execution(
        file, header, name, states, given, fed, options.steps, options.repeat, options.profile, reports
    )
    return execution, notice


def _executed(execution: Execution, notice: str | None, options: RunOptions) -> RunReport:
    """Runs it, and writes the files of the options."""
    from opdb.cli.progress import working
    from opdb.cli.run_report import RunReport
    from opdb.execute.compile.model_io import recorded_scalars
    from opdb.execute.compile.outputs import shown

    with working("load and run"):
        found = execution.run(options.timeout)
    tensors = [t.config for t in execution.header.graphs[execution.graph].outputs]
    scalars = recorded_scalars(execution.header.metadata, execution.graph)
    values = shown(found.result.outputs, tensors, options.real, scalars)
    if found.result.stage == "done":
        steps = values if options.steps == 1 else shown(found.steps, tensors, options.real, scalars)
        _write(execution, found, steps, options)
    return RunReport(execution, found, tensors, values, notice)


def _write(execution: Execution, found: Executed, values: Mapping[str, Array], options: RunOptions) -> None:
    """Writes the files of --outputs (``values``), --save-states, and --trace."""
    from opdb.execute.compile.outputs import write

    if options.outputs is not None:
        write(options.outputs, values)
    if options.save_states is not None:
        write(options.save_states, {s.buffer: found.result.outputs[s.output] for s in execution.states})
    if options.trace is not None:
        write_atomically(options.trace, found.result.reports["trace"])
