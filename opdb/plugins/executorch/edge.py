"""The program that ExecuTorch's Qualcomm partitioner sees: after its export passes, edge lowering, and edge passes.

The steps are those of ``to_edge_transform_and_lower_to_qnn``, in a process with the prepared
environment (opdb.plugins.executorch.env); no library of the vendor is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from executorch.backends.qualcomm._passes.qnn_pass_manager import get_qnn_pass_manager_cls
from executorch.backends.qualcomm.partition.qnn_partitioner import QnnPartitioner
from executorch.backends.qualcomm.qnn_preprocess import QnnBackend
from executorch.backends.qualcomm.serialization.qc_schema import QnnExecuTorchBackendType
from executorch.backends.qualcomm.utils import utils as qnn
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.backend import backend_api


class _Reached(Exception):
    """Raised when the partitioner is called."""


class _Capture(QnnPartitioner):  # type: ignore[misc]  # untyped base
    """Keeps the same operators whole as QnnPartitioner, and stops before partitioning."""

    program: Any = None

    def partition(self, edge_program: Any) -> Any:
        self.program = edge_program
        raise _Reached


@contextmanager
def exporting() -> Iterator[None]:
    """Exports modules without gradients and without the fast path of attention.

    With gradients, a part of a module under no_grad is exported as a subgraph, at which ExecuTorch's passes fail.
    Without them, PyTorch's fast path turns a whole encoder layer into one operator, which nothing lowers.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


@contextmanager
def finalizing(tell: Callable[[str], None]) -> Iterator[None]:
    """Calls ``tell`` with "finalize" when ExecuTorch gives its graphs to QNN."""
    given = {name: getattr(QnnBackend, name) for name in ("preprocess", "preprocess_multimethod")}

    def told(name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            tell("finalize")
            return given[name](*args, **kwargs)

        return staticmethod(call)

    try:
        for name in given:
            setattr(QnnBackend, name, told(name))
        yield
    finally:
        for name, function in given.items():
            setattr(QnnBackend, name, staticmethod(function))


def compiler_specs(chipset: Any) -> Any:
    """Compiler specs for a float graph in fp16 on the HTP of a chip.  ``chipset``: a member of ExecuTorch's QcomChipset."""
    return qnn.generate_qnn_executorch_compiler_spec(chipset, qnn.generate_htp_compiler_spec(use_fp16=True))


@dataclass(frozen=True)
class Edge:
    """``seen``: the partitioner's program, with parameters without values.  ``whole``: the same nodes with values."""

    seen: torch.export.ExportedProgram
    whole: torch.export.ExportedProgram


def edge_program(module: torch.nn.Module, inputs: Sequence[Any], chipset: Any) -> Edge:
    """The edge program of ``module``; errors of export and the passes propagate."""
    specs = compiler_specs(chipset)
    exported = torch.export.export(module, tuple(inputs), strict=True)
    manager = get_qnn_pass_manager_cls(QnnExecuTorchBackendType.kHtpBackend)()
    capture = _Capture(specs)
    faked = backend_api.get_fake_program
    whole: list[torch.export.ExportedProgram] = []

    def keeps(program: torch.export.ExportedProgram) -> Any:
        whole.append(program)
        return faked(program)

    try:
        backend_api.get_fake_program = keeps
        to_edge_transform_and_lower(
            {"forward": manager.transform_for_export_pipeline(exported)},
            transform_passes={
                "forward": manager.get_to_edge_transform_passes(exported, compiler_specs=specs)
            },
            partitioner={"forward": [capture]},
            compile_config=qnn.qnn_edge_config(),
        )
    except _Reached:
        return Edge(capture.program, whole[-1])
    finally:
        backend_api.get_fake_program = faked
    raise AssertionError("ExecuTorch did not call the partitioner")
