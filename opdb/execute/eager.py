"""Calls on tensors: a graph of one op, run by QNN's own libraries in a child process, where a crash is an error.

Libraries that compute natively (QNN CPU) go first.  Calls that they refuse run in the emulation of a chip (HTP),
in float16.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch

from opdb.catalog.targets.target import Target, execution_here, half
from opdb.core.errors import OpdbError
from opdb.core.graph import single
from opdb.core.op_config import OpConfig
from opdb.execute.libraries.client import VendorWorker
from opdb.generated.constants.backends import ASKED
from opdb.judge.errata.policy import excludes
from opdb.judge.validate import check
from opdb.programs.torch_ops.call import Call
from opdb.runtime import native

#: Where a call is tried: a target, and True if every tensor after the first is a constant there.
PLACES = tuple(
    (Target(backend.name, backend.soc, execution=execution_here()), fixed)
    for backend in sorted(ASKED, key=lambda b: b.emulated)
    for fixed in (False, True)
)


def execute(call: Call) -> list[torch.Tensor]:
    """The results of ``call``.  Raises OpdbError with the reasons if no library accepts it."""
    expected = call.expected()
    config = call.config(expected)
    arrays = [None if t is None else _array(t) for t in call.tensors][: len(config.inputs)]
    reasons: list[str] = []
    for target, fixed in PLACES:
        found = _attempt(_fixed(config) if fixed else config, arrays, target)
        if isinstance(found, str):
            reasons.append(f"{target}{', with constants' * fixed}: {found}")
            continue
        own = [torch.from_numpy(found[f"y{i}"].copy()) for i in range(len(config.outputs))]
        own = [t.to(dtype).reshape(shape) for t, (shape, dtype) in zip(own, expected, strict=False)]
        return own + [torch.empty(0, dtype=dtype) for _, dtype in expected[len(own) :]]
    raise OpdbError(f"qnn.{call.op} runs nowhere with these arguments: {'; '.join(reasons)}")


def compute(call: Call) -> list[torch.Tensor]:
    """Computes ``call`` with the op's C kernel, for an op that no QNN library has.

    Raises OpdbError with the broken rule, or with the message that there is no kernel for the data types.
    """
    expected = call.expected()
    config = call.config(expected)
    arrays = [None if t is None else _array(t) for t in call.tensors][: len(config.inputs)]
    made = native.run(config, arrays)
    return [
        torch.from_numpy(array).to(dtype).reshape(shape)
        for array, (shape, dtype) in zip(made, expected, strict=True)
    ]


def _attempt(config: OpConfig, arrays: list[Any], target: Target) -> dict[str, Any] | str:
    """The results by name, or the reason why there are none."""
    if refused := [f"{v.rule}: {v.message}" for v in check(config, target).violations if excludes(v, target)]:
        return ", ".join(refused)
    graph = single(config, arrays)
    given = {t.name: arrays[int(t.name)] for t in graph.inputs}
    floats = half(target.backend) and any(t.dtype == "f32" for t in graph.tensors.values())
    said = _worker(target).run(graph, given, "fp16" if floats else None)
    return dict(said.outputs) if said.verdict == "yes" else f"{said.stage}: {said.verdict} ({said.explained})"


def _fixed(config: OpConfig) -> OpConfig:
    inputs = (replace(t, type="STATIC") if i and t.type != "NULL" else t for i, t in enumerate(config.inputs))
    return replace(config, inputs=tuple(inputs))


@lru_cache(len(PLACES))
def _worker(target: Target) -> VendorWorker:
    return VendorWorker(str(target.backend), target.soc)


def _array(tensor: torch.Tensor) -> Any:
    dtype = torch.int32 if tensor.dtype == torch.int64 else tensor.dtype
    return tensor.detach().to(dtype).contiguous().reshape(tensor.shape or (1,)).numpy()
