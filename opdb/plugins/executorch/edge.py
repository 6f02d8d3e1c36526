"""The program that ExecuTorch's Qualcomm partitioner sees: after its export passes, edge lowering and edge passes.

The steps are those of ``to_edge_transform_and_lower_to_qnn``, in a process with the prepared
environment (opdb.plugins.executorch.env); no library of the vendor is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from executorch.backends.qualcomm._passes.qnn_pass_manager import get_qnn_pass_manager_cls
from executorch.backends.qualcomm.partition.qnn_partitioner import QnnPartitioner
from executorch.backends.qualcomm.serialization.qc_schema import QnnExecuTorchBackendType
from executorch.backends.qualcomm.utils import utils as qnn
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.backend import backend_api


class _Reached(Exception):
    """The partitioner was called."""


class _Capture(QnnPartitioner):  # type: ignore[misc]  # untyped base
    """Asks for the same operators to be kept whole, and stops where partitioning would begin."""

    program: Any = None

    def partition(self, edge_program: Any) -> Any:
        self.program = edge_program
        raise _Reached


@contextmanager
def exporting() -> Iterator[None]:
    """How modules are exported.

    With gradients, a part of a module under no_grad is exported as a graph of its own, at which ExecuTorch's passes stop.
    Without them PyTorch puts one operator in the place of a whole encoder layer, which nothing lowers.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def compiler_specs(chipset: Any) -> Any:
    """For the HTP of a chip, a float graph in fp16.  ``chipset``: a member of ExecuTorch's QcomChipset."""
    return qnn.generate_qnn_executorch_compiler_spec(chipset, qnn.generate_htp_compiler_spec(use_fp16=True))


@dataclass(frozen=True)
class Edge:
    """``seen``: what the partitioner gets, parameters without values.  ``whole``: the same nodes with values."""

    seen: torch.export.ExportedProgram
    whole: torch.export.ExportedProgram


def edge_program(module: torch.nn.Module, inputs: Sequence[Any], chipset: Any) -> Edge:
    """The edge program of ``module``; what export and the passes raise passes through."""
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
