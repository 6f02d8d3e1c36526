"""Mutating calls become calls that return the new value and match PyTorch, or are left to PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from opdb.programs.torch.composites import plain  # noqa: E402
from opdb.programs.torch.in_place import out_of_place  # noqa: E402

pytestmark = pytest.mark.torch


class Called(nn.Module):
    def __init__(self, function: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> object:
        return self.function(x)


def add_to_itself(x: Tensor) -> Tensor:
    y = torch.exp(x)
    y += x
    z = y * 2
    y.clamp_(max=3.0)
    return z + y  # z has the value of before


def read_before(x: Tensor) -> Tensor:
    y = torch.exp(x)
    z = y.sin()
    y.neg_()
    return torch.cat([z, y, nn.functional.dropout(y.flatten(), 0.5, False, inplace=True).reshape(2, 3)])


def view_of_it(x: Tensor) -> Tensor:
    y = torch.exp(x)
    row = y[0]
    y.neg_()
    return row + y


def changed_view(x: Tensor) -> Tensor:
    y = torch.exp(x)
    y.view(6).neg_()
    return y


def maybe_view(x: Tensor) -> Tensor:
    y = torch.exp(x)
    y.reshape(6).neg_()
    return y


def view_of_what_the_call_returns(x: Tensor) -> Tensor:
    y = torch.exp(x)
    row = y.relu_()[0]
    y.neg_()
    return row + y


def two_values_are_returned(x: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.exp(x)
    z = y.relu_()
    return z, y.neg_()


def of_another_type(x: Tensor) -> Tensor:
    return torch.exp(x).ge_(1.0)


def program(function: Callable[[Tensor], object]) -> tuple[torch.export.ExportedProgram, Tensor]:
    x = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
    return torch.export.export(Called(function), (x,)), x


def in_place(exported: torch.export.ExportedProgram) -> list[str]:
    calls = [n.target for n in exported.graph.nodes if isinstance(n.target, torch._ops.OpOverload)]
    return [str(t) for t in calls if t._schema.is_mutable]


@pytest.mark.parametrize("function", [add_to_itself, read_before, two_values_are_returned])
def test_later_reads_get_the_new_value(function: Callable[[Tensor], object]) -> None:
    exported, x = program(function)
    assert in_place(exported)
    made = out_of_place(exported)
    assert made is not None and not in_place(made) and in_place(exported)
    torch.testing.assert_close(made.module()(x.clone()), function(x.clone()))
    assert [n.name for n in made.graph.nodes] == [n.name for n in exported.graph.nodes]


REST = [
    view_of_it,
    changed_view,
    maybe_view,
    view_of_what_the_call_returns,
    of_another_type,
]


@pytest.mark.parametrize("function", REST)
def test_mutations_of_views_are_left_to_pytorch(function: Callable[[Tensor], Tensor]) -> None:
    exported, x = program(function)
    assert out_of_place(exported) is None
    read = plain(exported, ())
    assert not in_place(read)
    torch.testing.assert_close(read.module()(x.clone()), function(x.clone()))


class Builtin(nn.Module):
    def forward(self, input: Tensor) -> Tensor:
        return torch.exp(input).relu_()


def test_an_input_named_like_a_builtin_keeps_its_name() -> None:
    x = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
    exported = torch.export.export(Builtin(), (x,))
    made = out_of_place(exported)
    assert made is not None and [n.name for n in made.graph.nodes] == [n.name for n in exported.graph.nodes]
    torch.testing.assert_close(made.module()(x), x.exp())


def test_a_mutated_input_is_left_to_pytorch() -> None:
    exported, _ = program(lambda x: x.neg_() + 1)
    assert out_of_place(exported) is None
