"""opdb's main task on real input: the model of the ExecuTorch guide, from PyTorch to Qualcomm's libraries.

LayerNorm([768], eps=1e-6) then Linear(768, 100) on (200, 768): checked, lowered by the generated builders,
computed by the C kernels, the real QNN CPU library, the HTP emulation, and inside ExecuTorch, each
compared with PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opdb.catalog.targets.target import Target
from opdb.core.errors import MissingExtra, OpdbError
from opdb.core.graph import QnnGraph
from opdb.core.names import counted
from opdb.core.op_config import OpConfig, ParamConfig, TensorConfig
from opdb.generated.constants.backends import ASKED, BACKENDS

if TYPE_CHECKING:
    import numpy as np
    import torch

#: The backend that demonstrates ExecuTorch's flow and the emulation.
PTE = next(b for b in BACKENDS.values() if "pte" in b.programs)
SOC = str(PTE.soc)
SEED = 0
#: The QNN ops of the guide's model.
OPS = ("LayerNorm", "FullyConnected")
#: Bounds of the relative error: the largest difference from PyTorch float32 over the largest result.
#: HTP computes float32 graphs in fp16 (10 bits of mantissa: 2**-11 for each rounding, summed over 768 products).
FLOAT32_BOUND, FLOAT16_BOUND = 1e-4, 5e-3


@dataclass(frozen=True)
class Comparison:
    """One executor against PyTorch float32.  ``relative``: largest difference over largest |result|."""

    executor: str
    largest: float
    relative: float
    bound: float

    @property
    def ok(self) -> bool:
        return self.relative <= self.bound


def guide_model() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The model of the ExecuTorch guide and its input (200, 768), both with a fixed seed."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("PyTorch", "torch") from None
    torch.manual_seed(SEED)
    norm = torch.nn.LayerNorm([768], eps=1e-6)
    with torch.no_grad():  # not the ones and zeros of a fresh layer
        norm.weight.uniform_(0.5, 1.5)
        norm.bias.uniform_(-0.5, 0.5)
    return torch.nn.Sequential(norm, torch.nn.Linear(768, 100)).eval(), (torch.randn(200, 768),)


def compare(executor: str, result: Any, reference: Any, bound: float) -> Comparison:
    import numpy

    got, want = numpy.asarray(result, dtype="float64"), numpy.asarray(reference, dtype="float64")
    if got.shape != want.shape:
        raise OpdbError(f"{executor}: the result has shape {list(got.shape)}, PyTorch's {list(want.shape)}")
    largest = float(numpy.abs(got - want).max())
    return Comparison(executor, largest, largest / float(numpy.abs(want).max()), bound)


def lowered_graph(program: Any, target: Target) -> QnnGraph:
    """The QNN graph of an exported program from the generated builders.  Raises OpdbError if a node is refused."""
    from opdb.checks.graph import build_graph
    from opdb.checks.verdicts import check_nodes
    from opdb.programs.torch.program import Program

    read = Program(program)
    coverage = check_nodes(read, target)
    if not coverage.complete:
        refused = [r.node for r in coverage.rows if r.verdict != "supported"]
        raise OpdbError(f"not a whole graph on {target}: {', '.join(refused)}")
    return build_graph(read, coverage.lowered, "guide")


def run_everywhere(
    program: Any, inputs: tuple[torch.Tensor, ...], reference: Any, say: Callable[[str], None]
) -> list[Comparison]:
    """Runs the model on the C kernels, QNN CPU, and QNN HTP."""
    from opdb.execute.libraries.client import VendorWorker
    from opdb.runtime.kernels import run_graph

    exact = next(b for b in ASKED if not b.half)
    graph = lowered_graph(program, Target(exact.name, exact.soc, execution="emulator"))
    say(f"QNN graph: {' -> '.join(op.op for op in graph.ops)}, {counted(len(graph.tensors), 'tensor')}")
    feed = {t.name: i.numpy() for t, i in zip(graph.inputs, inputs, strict=True)}
    found = [compare("C kernels", *_only(run_graph(graph, feed)), reference, FLOAT32_BOUND)]
    for asked in ASKED:
        backend, soc, bound = asked.name, asked.soc, FLOAT16_BOUND if asked.half else FLOAT32_BOUND
        graph = lowered_graph(program, Target(backend, soc, execution="emulator"))
        with VendorWorker(backend, soc) as worker:
            result = worker.run(graph, feed)
            if result.stage != "done":
                raise OpdbError(
                    f"QNN {backend}: {result.stage} {result.verdict} {result.code} {result.code_name}: "
                    + " | ".join(result.log)
                )
            version = ".".join(worker.info().build_id.lstrip("v").split(".")[:2])
        found.append(
            compare(
                f"QNN {backend} {version}{' ' + soc if soc else ''}", *_only(result.outputs), reference, bound
            )
        )
    return found


def _only(outputs: Mapping[str, np.ndarray[Any, Any]]) -> tuple[np.ndarray[Any, Any]]:
    (output,) = outputs.values()
    return (output,)


def run_in_executorch(
    program: Any, inputs: tuple[torch.Tensor, ...], reference: Any, name: str
) -> tuple[Comparison, Any]:
    """Runs the program through ExecuTorch's own flow with opdb's builders, on the emulation."""
    from opdb.generated.builders import TARGETS
    from opdb.plugins.executorch import env
    from opdb.plugins.executorch.flow import Plugin, compile_program, run_program

    environment = env.prepare()
    plugin = Plugin("opdb.lower.select:lower", Target(PTE.name, SOC, execution="emulator"), tuple(TARGETS))
    compiled = compile_program(program, SOC, environment=environment, plugin=plugin)
    (output,) = run_program(compiled.pte, [i.numpy() for i in inputs], environment=environment)
    return compare(name, output, reference, FLOAT16_BOUND), compiled


def rejected_config() -> OpConfig:
    """A LayerNorm that no row of HTP's table allows: 16-bit activations with a float gamma, normalized over axis 1."""
    return OpConfig(
        "LayerNorm",
        (TensorConfig("x", "uq16", (2, 3, 4)), TensorConfig("gamma", "f32", (3,), "STATIC")),
        (ParamConfig("axes", "u32", (1,), (1,)), ParamConfig("epsilon", "f32", 1e-6)),
        (TensorConfig("y", "uq16", (2, 3, 4)),),
    )
