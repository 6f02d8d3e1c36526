"""compile and run for ExecuTorch programs: files that end in .pte."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from opdb.cli.output import print_json
from opdb.cli.progress import Stages
from opdb.cli.quantization import Calibrated, Calibration
from opdb.cli.run_report import EMULATION, figures_text, warn_not_finite
from opdb.core.errors import OpdbError
from opdb.core.files import write_atomically
from opdb.core.names import counted
from opdb.generated.constants.backends import BACKENDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdb.catalog.targets.target import Target
    from opdb.core.graph import GraphTensor
    from opdb.plugins.executorch.flow import CompiledProgram

#: The stages of a compilation, in order.
STAGES = ("prepare", "export", "start ExecuTorch", "quantize", "lower", "finalize", "write")
#: The backends that such programs can be compiled for.
PTE = tuple(b.name for b in BACKENDS.values() if "pte" in b.programs)


def compile_program(
    model: str,
    output: Path,
    target: Target,
    how: Calibration | None,
    timeout: float,
    json: bool,
    dims: Mapping[str, int] | None = None,
) -> None:
    """Compiles the model in ExecuTorch's own flow with opdb's builders; exit 1 if nodes fall back to the CPU."""
    from opdb.plugins.executorch.quantize import check

    if target.backend not in PTE:
        raise OpdbError(
            f"{output}: an ExecuTorch program is compiled for {' and '.join(PTE)}, not {target.backend}"
        )
    name = None if how is None else how.recipe.name
    if how is not None:
        check(how.recipe)
    with Stages(STAGES) as stages:
        compiled, samples = _compiled(model, target, how, timeout, dims, stages)
        write_atomically(output, compiled.pte)
    calibrated = None if how is None else Calibrated(how, samples, compiled.ranges)
    if calibrated is not None:
        calibrated.save(model)
    if json:
        print_json(_compiled_json(output, target, compiled, name, calibrated))
    else:
        _print_compiled(output, target, compiled, name)
        if calibrated is not None:
            calibrated.print()
    if compiled.not_delegated:
        raise typer.Exit(1)


def _compiled(
    model: str,
    target: Target,
    how: Calibration | None,
    timeout: float,
    dims: Mapping[str, int] | None,
    stages: Stages,
) -> tuple[CompiledProgram, int]:
    """The program, and the number of its calibration samples."""
    from opdb.execute.compile.calibration import program_samples
    from opdb.plugins.executorch import env, flow
    from opdb.programs.load import has_names, load_model
    from opdb.programs.onnx.files import unread
    from opdb.programs.torch.export import export

    stages("prepare")
    environment = env.prepare()
    stages("export")
    module, inputs = load_model(model, dynamo=True, dims=dims)
    program = export(module, inputs, name=model)
    if has_names(model) and (why := unread(model, program)) is not None:
        raise OpdbError(f"{model}: ExecuTorch cannot run {why}; `opdb check {model}` lists all such nodes")
    names = _names(model)
    samples = None if how is None else program_samples(how.data, program, names and names[0])
    stages("start ExecuTorch")
    compiled = flow.compile_program(
        program,
        str(target.soc),
        environment=environment,
        recipe=None if how is None else how.recipe,
        samples=samples,
        plugin=flow.Plugin("opdb.lower.select:lower", target),
        timeout=timeout,
        names=names,
        progress=stages,
    )
    return compiled, len(samples or ())


def _names(model: str) -> tuple[list[str], list[str]] | None:
    """The names of inputs and outputs in an ONNX or TensorFlow Lite file; None for other models."""
    from opdb.programs.load import has_names
    from opdb.programs.onnx.files import ends

    if not has_names(model):
        return None
    inputs, outputs, _ = ends(model)
    return list(inputs), [f"{name}_out" if name in inputs else name for name in outputs]


def _compiled_json(
    output: Path,
    target: Target,
    compiled: CompiledProgram,
    recipe: str | None,
    calibrated: Calibrated | None,
) -> dict[str, Any]:
    return {
        "output": str(output),
        "size": len(compiled.pte),
        "backend": target.backend,
        "soc": compiled.soc,
        "quantize": recipe,
        "calibration": calibrated and calibrated.to_json(),
        "delegated": {n: compiled.forms.get(n, "") for n in compiled.delegated},
        "not_delegated": {
            n: [{"form": r.form, "rule": r.rule, "message": r.message} for r in compiled.reasons[n]]
            for n in compiled.not_delegated
        },
    }


def _print_compiled(output: Path, target: Target, compiled: CompiledProgram, recipe: str | None) -> None:
    total = len(compiled.delegated) + len(compiled.not_delegated)
    how = f"quantized {recipe}" if recipe else "fp16"
    print(f"{output}: {counted(len(compiled.pte), 'byte')} for {target.backend} {compiled.soc}, {how}")
    print(f"  {len(compiled.delegated)} of {counted(total, 'node')} on QNN")
    for node in compiled.not_delegated:
        print(f"  {node}: on the CPU")
        for reason in compiled.reasons[node]:
            print(f"    {f'{reason.rule}: ' if reason.rule else ''}{reason.message}")


def run_program(
    file: Path, specs: list[str], outputs: Path | None, repeat: int, timeout: float, json: bool
) -> None:
    """Runs a program with the runtime of the executorch wheel, on QNN's emulation."""
    from opdb.core.dtypes import BY_SHORT
    from opdb.execute.compile.inputs import feed
    from opdb.execute.compile.outputs import figures, write
    from opdb.plugins.executorch import env
    from opdb.plugins.executorch.flow import execute_program
    from opdb.plugins.executorch.pte_file import read

    program = read(file)
    inputs, results = program.ends()
    fed = feed(specs, inputs)
    warn_not_finite(fed)
    with Stages(("start ExecuTorch", "run")) as stages:
        run = execute_program(
            program.data, [fed[t.name] for t in inputs],
            environment=env.prepare(), repeat=repeat, timeout=timeout, progress=stages,
        )  # fmt: skip
    shown = {t.name: value for t, value in zip(results, run.outputs, strict=True)}
    if outputs is not None:
        write(outputs, shown)
    if json:
        ends = [_end(t) | figures(shown[t.name]) for t in results]
        print_json({"file": str(file), "outputs": ends, "seconds": list(run.seconds)})
        return
    for t in results:
        words = figures_text(figures(shown[t.name]))
        print(f"  {t.name}  {BY_SHORT[t.dtype].qnn} {list(t.shape)}  {words}")
    median = statistics.median(run.seconds) * 1e3
    print(f"{counted(repeat, 'run')}: first {run.seconds[0] * 1e3:.3f} ms, median {median:.3f} ms")
    print(f"  {EMULATION}")


def _end(tensor: GraphTensor) -> dict[str, Any]:
    from opdb.core.dtypes import BY_SHORT

    return {"name": tensor.name, "dtype": BY_SHORT[tensor.dtype].qnn, "shape": list(tensor.shape)}
