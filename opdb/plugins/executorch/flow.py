"""ExecuTorch's own Qualcomm flow: PyTorch module -> ``.pte`` -> outputs on QNN's HTP emulation.

``compile_module`` and ``run_pte`` work in a process that was started in the prepared environment
(opdb.plugins.executorch.env); ``compile_program`` and ``run_program`` do the same in a child process.
"""

from __future__ import annotations

import io
import json
import operator
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opdb.core.errors import MissingExtra, OpdbError
from opdb.plugins.executorch import env, process
from opdb.plugins.executorch.env import chipset
from opdb.plugins.executorch.pte_file import ENDS
from opdb.plugins.executorch.runtime import load
from opdb.runtime.forms import Reason

if TYPE_CHECKING:
    from opdb.lower.quantize import Recipe, TensorRange

#: Names of the inputs, and of the outputs.
Names = tuple[list[str], list[str]]
#: PyTorch's control flow operators.
BRANCHES = {"cond", "while_loop", "map_impl", "scan"}
PRECISIONS = ("fp16", "quantized")


@dataclass(frozen=True)
class Plugin:
    """Settings that a child process registers before it compiles; see ``opdb.plugins.executorch.registration.register``.

    ``lower`` names the function ("module:function"), since a function cannot be passed to a child.
    """

    lower: str
    target: Any
    targets: tuple[str, ...] | None = None  # None: all that specs map
    preserve_ops: tuple[str, ...] | None = None


@dataclass(frozen=True)
class ProgramRun:
    """One or more runs of a program.  ``seconds``: wall time of each, on the emulation."""

    outputs: tuple[np.ndarray[Any, Any], ...]
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class CompiledProgram:
    """A compiled model.  Nodes are named as in ExecuTorch's edge graph; e.g. aten_linear_default."""

    pte: bytes
    soc: str
    delegated: tuple[str, ...]
    not_delegated: tuple[str, ...]
    reasons: Mapping[str, tuple[Reason, ...]] = field(default_factory=dict)  # of nodes not delegated
    forms: Mapping[str, str] = field(default_factory=dict)  # node -> the form that opdb's builder chose
    ranges: Mapping[str, TensorRange] = field(
        default_factory=dict
    )  # ranges of the quantized tensors, by the node that makes each


def compile_module(
    module: Any,
    example_inputs: Sequence[Any],
    soc: str,
    precision: str = "fp16",
    op_packages: Sequence[Path] = (),
    names: Names | None = None,
) -> CompiledProgram:
    """Compiles ``module`` (torch.nn.Module) for one SoC with ExecuTorch's flow, in this process.

    ``example_inputs``: tensors that fix the shapes.  ``soc``: ExecuTorch's name of the chipset; e.g. SM8650.
    ``op_packages``: libraries of `opdb package qnn` (opdb.plugins.executorch.op_packages).
    ``precision``: "fp16" (float graphs, computed in fp16 on HTP) or "quantized" (a quantized module).
    ``names``: of inputs and outputs; the program's method ``opdb_ends`` returns them.

    Raises OpdbError for an unknown SoC or precision and for a process without the environment; errors of the
    flow itself (e.g. a failed finalize) propagate.
    """
    _check_precision(precision)
    env.require_active()
    chip = chipset(soc)
    from executorch.backends.qualcomm.utils import utils as qnn
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    from opdb.plugins.executorch import op_packages as op_package
    from opdb.plugins.executorch import registration
    from opdb.plugins.executorch.edge import exporting, finalizing

    registration.forget()
    process.tell("lower")
    options = qnn.generate_htp_compiler_spec(use_fp16=precision == "fp16")
    packages = op_package.options(op_packages, soc) if op_packages else None
    specs = qnn.generate_qnn_executorch_compiler_spec(chip, options, op_package_options=packages)
    try:
        with exporting(), finalizing(process.tell):
            # Memory that QNN's graph owns does not start with the values of the module's buffers.
            edge = qnn.to_edge_transform_and_lower_to_qnn(
                module,
                tuple(example_inputs),
                specs,
                constant_methods=None if names is None else {ENDS: json.dumps(names)},
                skip_mutable_buffer=True,
            )
    except RuntimeError as e:
        if "was not decomposed or delegated" not in str(e):
            raise
        raise OpdbError(_kept_whole(str(e))) from e
    config = ExecutorchBackendConfig(
        # Nor does ExecuTorch's memory, without this pass.
        passes=[InitializedMutableBufferPass([""])],
        # Contexts only load at the vendor's alignment: otherwise error 5005, or a crash.
        segment_alignment=qnn.get_qnn_context_binary_alignment(),
    )
    process.tell("write")
    delegated, rest = _split(edge.exported_program().graph_module)
    return CompiledProgram(
        pte=bytes(edge.to_executorch(config=config).buffer),
        soc=soc,
        delegated=delegated,
        not_delegated=rest,
        reasons=_reasons(rest),
        forms=registration.forms(),
    )


def run_pte(pte: bytes, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Runs a program on ``inputs`` (tensors) in the executorch wheel's runtime; returns its outputs (tensors)."""
    program = load(pte)
    outputs = tuple(o.clone() for o in program.run_method("forward", tuple(inputs)))
    del program  # before the bytes, to which it holds no reference
    return outputs


def compile_program(
    program: Any,
    soc: str,
    *,
    environment: env.Environment,
    precision: str = "fp16",
    recipe: Recipe | str | None = None,
    samples: Sequence[Sequence[np.ndarray[Any, Any]]] | None = None,
    plugin: Plugin | None = None,
    timeout: float = 600.0,
    path: Sequence[str | Path] = (),
    names: Names | None = None,
    progress: process.Progress | None = None,
) -> CompiledProgram:
    """Compiles ``program`` (torch.export.ExportedProgram, exported from positional inputs) in a child process.

    ``recipe``: quantize the program first (``quantize``), calibrated on ``samples``: arrays in input order.
    ``plugin``: opdb's builders instead of ExecuTorch's own; None for the stock flow.  ``names``: see
    ``compile_module``.
    Raises OpdbError as ``compile_module`` does, and ChildError if the flow fails, crashes, or hangs.
    """
    _check_precision(precision)
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", "torch") from None
    _, kwargs = program.example_inputs or ((), {})
    if kwargs:
        raise OpdbError(
            f"keyword inputs ({', '.join(kwargs)}): ExecuTorch's flow takes positional inputs only"
        )
    refuse_branches(program)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    compiled: CompiledProgram = process.call(
        "opdb.plugins.executorch.flow:_compile_saved",
        buffer.getvalue(),
        soc,
        precision,
        recipe,
        samples,
        plugin,
        names,
        environment=environment,
        timeout=timeout,
        path=path,
        progress=progress,
    )
    return compiled


def refuse_branches(program: Any) -> None:
    """Raises OpdbError for a program with data-dependent branches or loops, at which a pass of ExecuTorch's flow fails."""
    names = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    if found := sorted(names & BRANCHES):
        raise OpdbError(
            f"torch.{found[0]}: ExecuTorch's flow for QNN ends at it, since QNN graphs do not branch; compute both ways and take "
            "torch.where, or split the model"
        )


def run_program(
    pte: bytes, inputs: Sequence[Any], *, environment: env.Environment, timeout: float = 600.0
) -> tuple[np.ndarray[Any, Any], ...]:
    """``run_pte`` in a child process; numpy arrays (or tensors) in, numpy arrays out."""
    return execute_program(pte, inputs, environment=environment, timeout=timeout).outputs


def execute_program(
    pte: bytes,
    inputs: Sequence[Any],
    *,
    environment: env.Environment,
    repeat: int = 1,
    timeout: float = 600.0,
    progress: process.Progress | None = None,
) -> ProgramRun:
    """Runs a program ``repeat`` times in a child process, and measures the times."""
    arrays = tuple(np.asarray(i) for i in inputs)
    run: ProgramRun = process.call(
        "opdb.plugins.executorch.flow:_run_arrays",
        pte,
        arrays,
        repeat,
        environment=environment,
        timeout=timeout,
        progress=progress,
    )
    return run


def _compile_saved(
    saved: bytes,
    soc: str,
    precision: str,
    recipe: Recipe | str | None,
    samples: Sequence[Sequence[np.ndarray[Any, Any]]] | None,
    plugin: Plugin | None,
    names: Names | None,
) -> CompiledProgram:
    """The child's side of ``compile_program``."""
    env.require_active()
    process.tell("start ExecuTorch")
    import torch

    import opdb.programs.torch_ops  # noqa: F401  the program may name its operators
    from opdb.plugins.executorch import registration
    from opdb.plugins.executorch.quantize import quantize
    from opdb.plugins.executorch.ranges import ranges_of

    program = torch.export.load(io.BytesIO(saved))
    inputs = program.example_inputs[0]
    module = program.module(check_guards=False)
    ranges: Mapping[str, TensorRange] = {}
    if recipe is not None:
        process.tell("quantize")
        tensors = samples and [
            tuple(torch.from_numpy(a).to(x.dtype) for a, x in zip(sample, inputs, strict=True))
            for sample in samples
        ]
        module = quantize(module, inputs, soc, recipe, tensors)
        ranges = ranges_of(module)
    if plugin is None:
        return replace(compile_module(module, inputs, soc, precision, names=names), ranges=ranges)
    registration.register(
        lower=process.resolve(plugin.lower),
        target=plugin.target,
        targets=plugin.targets,
        preserve_ops=plugin.preserve_ops,
    )
    try:
        return replace(compile_module(module, inputs, soc, precision, names=names), ranges=ranges)
    finally:
        registration.unregister()


def _run_arrays(pte: bytes, arrays: Sequence[Any], repeat: int) -> ProgramRun:
    """The child's side of ``execute_program``."""
    process.tell("start ExecuTorch")
    import torch

    program = load(pte)
    process.tell("run")
    inputs = tuple(torch.from_numpy(a.copy()) for a in arrays)
    outputs: tuple[np.ndarray[Any, Any], ...] = ()
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        outputs = tuple(o.clone().numpy() for o in program.run_method("forward", inputs))
        seconds.append(time.perf_counter() - start)
    del program  # before the bytes, to which it holds no reference
    return ProgramRun(outputs, tuple(seconds))


def _check_precision(precision: str) -> None:
    if precision not in PRECISIONS:
        raise OpdbError(f"precision {precision!r}: one of {', '.join(PRECISIONS)}")


def _split(graph_module: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the nodes inside and outside of the delegates."""
    inside: list[str] = []
    outside: list[str] = []
    for node in graph_module.graph.nodes:
        if node.op == "get_attr" and hasattr(getattr(graph_module, node.target), "original_module"):
            inner = getattr(graph_module, node.target).original_module.graph
            inside += [
                n.name for n in inner.nodes if n.op == "call_function" and n.target is not operator.getitem
            ]
        elif (
            node.op == "call_function"
            and node.target is not operator.getitem
            and "executorch_call_delegate" not in str(node.target)
        ):
            outside.append(node.name)
    return tuple(inside), tuple(outside)


def _kept_whole(message: str) -> str:
    """Rewords ExecuTorch's error about a node that was kept whole for the delegate but left out of it, with the reasons."""
    from opdb.plugins.executorch import registration

    node = message.partition("Node ")[2].partition(" ")[0]
    reasons = _reasons([node])[node]
    words = "; ".join(f"{r.rule}: {r.message}" for r in reasons)
    others = sorted(set(registration.reasons()) - {node})
    also = f" (also rejected: {', '.join(others)})" if others else ""
    return f"{node}: not taken by QNN, and ExecuTorch cannot run it on the CPU either: {words}{also}"


def _reasons(nodes: Collection[str]) -> dict[str, tuple[Reason, ...]]:
    """The reasons why nodes were left out: opdb's, or a note that ExecuTorch's builder or validator refused."""
    from opdb.plugins.executorch import registration

    own = registration.reasons()
    unknown = (Reason("stock", "unknown", "left out by ExecuTorch's own builder or validator"),)
    return {node: own.get(node, unknown) for node in nodes}
