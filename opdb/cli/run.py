"""run."""

from __future__ import annotations

import io
import re
import statistics
import zipfile
from dataclasses import replace
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli.options import Errata, Execution, IgnoreErratum, Json, Timeout, is_program
from opdb.cli.output import print_json
from opdb.core import plugins
from opdb.core.errors import OpdbError
from opdb.core.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from opdb.catalog.targets.target import Target
    from opdb.core.graph import GraphTensor
    from opdb.execute.libraries.results import ExecuteResult
    from opdb.runtime.qnn.context_file import Header
    from opdb.runtime.qnn.execution import Array
    from opdb.runtime.qnn.graph import Tensor

EMULATION = "wall times of QNN's emulation on this machine, not of a device"


def add_to(app: typer.Typer) -> None:
    app.command("run")(run_file)


def run_file(
    file: Annotated[Path, typer.Argument(help="What `opdb compile` wrote.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--inputs",
            metavar="SPEC",
            help="FILE.npy, NAME=FILE.npy, FILE.npz, NAME=FILE.raw (stored values) or random:SEED; repeatable.",
        ),
    ] = None,
    graph: Annotated[
        str | None, typer.Option("--graph", metavar="NAME", help="The graph, where the file has several.")
    ] = None,
    outputs: Annotated[
        Path | None,
        typer.Option("--outputs", metavar="PATH", help="FILE.npz, or a folder for one .npy per output."),
    ] = None,
    real: Annotated[
        bool,
        typer.Option(
            "--real", help="Quantized inputs and outputs as real numbers; rounded to nearest, ties to even."
        ),
    ] = False,
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", help="Number of runs with the same inputs.")
    ] = 1,
    steps: Annotated[
        int,
        typer.Option(
            "--steps",
            metavar="N",
            help="N runs in a row; what a model keeps in buffers goes from each to the next.",
        ),
    ] = 1,
    from_states: Annotated[
        Path | None,
        typer.Option(
            "--states",
            metavar="FILE.npz",
            help="What the buffers begin with: a file that --save-states wrote.",
        ),
    ] = None,
    save_states: Annotated[
        Path | None,
        typer.Option(
            "--save-states",
            metavar="FILE.npz",
            help="Write the buffers after the last run, e.g. for another graph of the file.",
        ),
    ] = None,
    profile: Annotated[
        str, typer.Option("--profile", metavar="LEVEL", help="off, basic, detailed or linting (HTP).")
    ] = "off",
    trace: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="Write the profile as a Chrome trace.")
    ] = None,
    timeout: Timeout = 120.0,
    execution: Execution = None,
    errata: Errata = None,
    ignore_erratum: IgnoreErratum = None,
    json: Json = False,
) -> None:
    """Run a compiled graph on the library that it was compiled for; exit 1 if the library fails.

    The library works in a child process: if it crashes or hangs, that is the result.  With --steps an array with one more
    axis of N in front has a value for each run; the last run is printed, and --outputs has all runs along an axis in front.
    A .pte runs on the emulation by ExecuTorch's runtime; its inputs are input0, input1, ..., or what the ONNX file calls
    them.  What a context that was compiled for a device shows of the emulation's errata is said; with --errata avoid such a
    context is refused, with --errata ignore nothing is said.
    """
    from opdb.catalog.targets.target import Target, emulates_here
    from opdb.cli.compile_output import print_failure
    from opdb.cli.steps import given_inputs, stepped
    from opdb.execute.compile.inputs import feed
    from opdb.execute.compile.model_io import recorded_scalars
    from opdb.execute.compile.states import begun, recorded
    from opdb.execute.libraries.client import VendorWorker
    from opdb.execute.libraries.results import ExecuteResult
    from opdb.judge.errata.policy import known_errata
    from opdb.runtime.qnn import context_file
    from opdb.runtime.qnn.profile import check_level

    if repeat < 1 or steps < 1:
        raise OpdbError(
            f"--repeat {repeat}: give 1 or more" if repeat < 1 else f"--steps {steps}: give 1 or more"
        )
    if steps > 1 and (repeat > 1 or profile != "off"):
        raise OpdbError("--steps: without --repeat and --profile; each step is a run of its own")
    if timeout <= 0:
        raise OpdbError(f"--timeout {timeout:g}: give a time above 0 seconds")
    if outputs is not None and (outputs.is_file() if outputs.suffix != ".npz" else outputs.is_dir()):
        raise OpdbError(f"--outputs {outputs}: give a file that ends in .npz, or a folder")
    if is_program(file):
        if graph is not None or real or profile != "off" or trace is not None or steps > 1:
            raise OpdbError(
                f"{file}: --graph, --real, --profile, --trace and --steps are for context files, not for .pte"
            )
        plugins.load("PROGRAMS", file.suffix).run_program(file, inputs or [], outputs, repeat, timeout, json)
        return
    header = context_file.read(file).header
    check_level(profile, header.backend)
    if trace is not None and profile == "off":
        raise OpdbError("--trace writes what was profiled; give --profile basic, detailed or linting too")
    place = execution or ("emulator" if emulates_here(header.backend) else "device")
    target = Target(
        header.backend, execution=place, errata=errata, ignored=known_errata(ignore_erratum or ())
    )
    notice = _mixed(header, target, file)
    name = _graph(header, graph, file)
    ends = header.graphs[name]
    states = recorded(header.metadata, name)
    if from_states is not None:
        states = begun(states, from_states)
    if save_states is not None and not states:
        raise OpdbError(f"--save-states {save_states}: the graph {name} keeps nothing from run to run")
    given = given_inputs([t.config for t in ends.inputs], states, inputs or [])
    fed = feed(inputs or [], given, real=real, steps=steps)
    reports = () if profile == "off" else ("json", "trace") if json else ("text", "trace")
    with VendorWorker(header.backend, header.soc, soc_model=header.soc_model, timeout=timeout) as worker:
        loaded = worker.load(file)
        every: dict[str, Array] = {}
        if loaded.stage == "done" and steps > 1:
            result, every = stepped(worker, name, fed, given, states, steps)
        elif loaded.stage == "done":
            first = {s.input: s.initial for s in states} | fed
            result = worker.execute(name, first, repeat=repeat, profile=profile, reports=reports)
        else:
            result = ExecuteResult("load", loaded.verdict, loaded.code, loaded.code_name, loaded.log)
    done = result.stage == "done"
    outs = [t.config for t in ends.outputs]
    scalars = recorded_scalars(header.metadata, name)
    shown = _shown(result, outs, real, scalars)
    if done and outputs is not None:
        write(outputs, shown if steps == 1 else _shown(replace(result, outputs=every), outs, real, scalars))
    if done and save_states is not None:
        write(save_states, {s.buffer: result.outputs[s.output] for s in states})
    if done and trace is not None:
        write_atomically(trace, result.reports["trace"])
    if json:
        document = {"file": str(file), "backend": header.backend, "soc": header.soc, "graph": name}
        document["notice"] = notice
        print_json(document | _document(result, ends.outputs, shown, loaded.seconds))
    elif done:
        _print(header, name, ends.outputs, shown, result, loaded.seconds)
        if notice:
            print(f"  {notice}")
    else:
        print_failure(result, f"{file} on {header.backend} {header.soc or ''}".rstrip())
    if not done:
        raise typer.Exit(1)


def _mixed(header: Header, target: Target, file: Path) -> str | None:
    """One line where a context that was compiled for a device runs on the emulator, with the errata it may show.

    Raises OpdbError where these are to be avoided.
    """
    if target.execution != "emulator" or header.metadata.get("execution") != "device":
        return None
    if target.errata == "ignore":
        return None
    shown = [e for e in header.metadata.get("errata", {}).get("warn", ()) if e not in target.ignored]
    if shown and target.errata == "avoid":
        raise OpdbError(
            f"{file}: compiled for a device, it may show {', '.join(shown)} here; compile it with --execution emulator"
        )
    may = f"may show {', '.join(shown)}" if shown else "has no erratum that opdb knows"
    return f"compiled for a device, run in emulation: it {may}"


def _graph(header: Header, name: str | None, file: Path) -> str:
    known = ", ".join(header.graphs)
    if name is None and len(header.graphs) == 1:
        return next(iter(header.graphs))
    if name is None:
        raise OpdbError(f"{file}: it has {len(header.graphs)} graphs; choose one with --graph: {known}")
    if name not in header.graphs:
        raise OpdbError(f"--graph {name}: {file} has: {known}")
    return name


def _shown(
    result: ExecuteResult, tensors: list[GraphTensor], real: bool, scalars: Container[str]
) -> dict[str, Array]:
    """The outputs as they are printed and written: stored values, or real numbers; ``scalars`` without their dimension."""
    from opdb.runtime.qnn.real_numbers import to_real

    if not result.outputs:
        return {}
    values = {t.name: to_real(t, result.outputs[t.name]) if real else result.outputs[t.name] for t in tensors}
    return {name: v[..., 0] if name in scalars and v.shape[-1:] == (1,) else v for name, v in values.items()}


def write(path: Path, values: Mapping[str, Array]) -> None:
    """Writes arrays to ``path``: a .npz archive, else a folder with a .npy file for each.  Raises OpdbError."""
    import numpy as np

    if path.suffix == ".npz":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:  # numpy.savez takes no array called "file"
            for name, value in values.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, value, allow_pickle=False)
        write_atomically(path, buffer.getvalue())
        return
    for name, value in values.items():
        buffer = io.BytesIO()
        np.save(buffer, value)
        write_atomically(path / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}.npy", buffer.getvalue())


def figures(value: Array) -> dict[str, Any]:
    """min, max and mean of the finite values, and how many are not finite."""
    import numpy as np

    numbers = value.astype(np.float64).ravel()
    finite = numbers[np.isfinite(numbers)]
    some = finite.size > 0
    return {
        "min": float(finite.min()) if some else None,
        "max": float(finite.max()) if some else None,
        "mean": float(finite.mean()) if some else None,
        "not_finite": int(numbers.size - finite.size),
    }


def _times(seconds: tuple[float, ...]) -> dict[str, float]:
    return {
        "first": seconds[0],
        "min": min(seconds),
        "median": statistics.median(seconds),
        "max": max(seconds),
    }


def _document(
    result: ExecuteResult, outputs: tuple[Tensor, ...], shown: Mapping[str, Array], load_seconds: float
) -> dict[str, Any]:
    from opdb.cli.compile_output import outcome_json, tensor_json

    report = result.reports.get("json")
    return {
        "outputs": [
            tensor_json(t.config)
            | {"shape": list(shown[t.config.name].shape), "stored": str(shown[t.config.name].dtype)}
            | figures(shown[t.config.name])
            for t in outputs
            if t.config.name in shown
        ],
        "load_seconds": load_seconds,
        "seconds": list(result.seconds),
        "profile": None if report is None else loads(report),
        "result": outcome_json(result),
    }


def _print(
    header: Header,
    name: str,
    outputs: tuple[Tensor, ...],
    shown: Mapping[str, Array],
    result: ExecuteResult,
    load_seconds: float,
) -> None:
    from opdb.catalog.targets.target import emulates_here
    from opdb.cli.compile_output import quant_text
    from opdb.core.dtypes import BY_SHORT

    print(f"graph {name} on {header.backend} {header.soc or ''}".rstrip() + f", QNN {header.build_id}")
    for t in (o.config for o in outputs):
        f = figures(shown[t.name])
        numbers = "  ".join(f"{k} {f[k]:.6g}" for k in ("min", "max", "mean") if f[k] is not None)
        odd = f"  {f['not_finite']} not finite" if f["not_finite"] else ""
        print(
            f"  {t.name}  {BY_SHORT[t.dtype].qnn} {list(shown[t.name].shape)}{quant_text(t)}  {numbers}{odd}"
        )
    times = "  ".join(f"{k} {v * 1e3:.3f} ms" for k, v in _times(result.seconds).items())
    emulated = emulates_here(header.backend)
    print(
        f"load {load_seconds * 1e3:.1f} ms; {len(result.seconds)} run{'s' * (len(result.seconds) != 1)}: {times}"
    )
    if emulated:
        print(f"  {EMULATION}")
    if "text" in result.reports:
        print(result.reports["text"], end="")
