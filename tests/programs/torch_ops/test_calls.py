"""Calls of torch.ops.qnn.*: results against PyTorch's own operators, shapes against the specs' samples, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as f

import opdb.programs.torch_ops
from opdb.catalog.targets.target import Target
from opdb.checks.verdicts import check_program
from opdb.core.errors import OpdbError
from opdb.generated.torch_ops import SCHEMAS
from opdb.judge.samples import sample_config, slot_of
from opdb.programs.torch.export import export
from opdb.programs.torch_ops.call import TORCH
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp

pytestmark = [pytest.mark.torch]
qnn = torch.ops.qnn
X = torch.linspace(-3, 3, 2 * 4 * 6).reshape(1, 4, 6, 2)


class Calls(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: torch.Tensor) -> Any:
        return self.function(*given)


@pytest.mark.vendor
def test_a_call_runs_in_the_library() -> None:
    i = torch.tensor([2, 0, 3])
    for got, wanted in (
        (qnn.Relu(X), X.relu()),
        (qnn.OneHot(i, depth=4), f.one_hot(i, 4).float()),
        (qnn.Split(X, axis=1, split_index=[1])[1], X[:, 1:]),
        (qnn.GatherNd(X[0, 0], i[:2, None].int()), X[0, 0][i[:2]]),
        (qnn.Transpose(X, perm=[0, 3, 1, 2]), X.permute(0, 3, 1, 2)),
        (qnn.ElementWiseNeuron(X, operation="TANH"), X.tanh()),
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.vendor
def test_ops_missing_on_cpu_run_on_emulated_htp() -> None:
    torch.testing.assert_close(qnn.Relu1(X), X.clamp(-1, 1), rtol=1e-3, atol=1e-3)


@pytest.mark.vendor
def test_weights_may_be_passed_as_constants() -> None:
    w = torch.randn(3, 3, 2, 5)
    got = qnn.Conv2d(X, w, stride=[1, 1], pad_amount=[1, 1, 1, 1])
    wanted = f.conv2d(X.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1).permute(0, 2, 3, 1)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.vendor
def test_a_call_refused_by_all_libraries_gives_all_reasons() -> None:
    with pytest.raises(OpdbError, match=r"qnn.Softmax runs nowhere .*CPU: Softmax.*HTP SM8650: Softmax"):
        qnn.Softmax(X.to(torch.int32))
    with pytest.raises(OpdbError, match="direction must be one of FORWARD, REVERSE"):
        qnn.Gru(*[X] * 7, direction="BACKWARD")


def test_shapes_and_types_match_the_samples(catalog: Catalog) -> None:
    seen = set()
    with FakeTensorMode():
        for name in SCHEMAS:
            op = catalog.compiled(name)
            for sample in op.definition.samples:
                got, wanted = _called(op, sample), _shapes(op, sample)
                assert [tuple(t.shape) for t in got] == wanted, (name, sample)
                seen.add(name)
    assert seen == set(SCHEMAS)


def _called(op: CompiledOp, sample: dict[str, Any]) -> list[torch.Tensor]:
    dtypes = {
        s.name: next((TORCH[d] for d in TORCH if d in s.definition.dtype), torch.float32) for s in op.inputs
    }

    def tensor(slot: str, shape: list[int]) -> torch.Tensor:
        return torch.empty(shape, dtype=dtypes[slot])

    def flat(value: Any) -> Any:
        rows = isinstance(value, list) and value and isinstance(value[0], list)
        return [v for row in value for v in row] if rows else value

    inputs = [
        [tensor(s.name, shape) for shape in sample.get(s.name, [])] if s.variadic
        else None if s.name not in sample else tensor(s.name, sample[s.name])
        for s in op.inputs
    ]  # fmt: skip
    operator = getattr(qnn, op.name).default
    keywords = {p.name: flat(sample[p.name]) for p in op.params if p.name in sample}
    for argument in operator._schema.arguments:
        slot = argument.name.removesuffix("_shape")
        if slot != argument.name and slot in sample:
            keywords[argument.name] = sample[slot]
    got = operator(*inputs, **keywords)
    return [got] if isinstance(got, torch.Tensor) else list(got)


def _shapes(op: CompiledOp, sample: dict[str, Any]) -> list[tuple[int, ...]]:
    """The outputs of the sample's op config; [0] for a missing optional one."""
    config = sample_config(op, op.definition.samples.index(sample), _any_types(op))
    made = {slot_of(t): t.shape for t in config.outputs}
    if any(s.variadic for s in op.outputs) and len(op.outputs) == 1:
        return [t.shape for t in config.outputs]
    count = len(getattr(qnn, op.name).default._schema.returns)
    return [made.get(s.name, (0,)) for s in op.outputs[:count]]


def _any_types(op: CompiledOp) -> dict[str, str]:
    return {s.name: (s.definition.dtype or ["f32"])[0] for s in op.slots}


def test_programs_with_qnn_operators_can_be_checked() -> None:
    program = export(Calls(lambda x: qnn.L2Norm(x, axis=3) + 1), (X,))
    assert all(
        r.verdict == "supported"
        for r in check_program(program, Target("HTP", "SM8650", execution="emulator")).rows
    )
    program = export(Calls(lambda x: qnn.L2Norm(x, axis=9)), (X,))
    (row,) = check_program(program, Target("HTP", "SM8650", execution="emulator")).rows
    assert row.verdict != "supported"
    assert opdb.programs.torch_ops.targets()[0] == "qnn.ArgbToRgb.default"
