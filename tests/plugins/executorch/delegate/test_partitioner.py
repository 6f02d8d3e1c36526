"""OpdbPartitioner: the nodes it takes, its reasons for the others, and its work with other partitioners."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge
from executorch.exir.backend.backend_api import to_backend
from executorch.exir.backend.utils import is_identical_graph
from torch.export import Dim

from opdb.core.errors import OpdbError
from opdb.plugins.executorch.delegate.partitioner import BACKEND, OpdbPartitioner
from opdb.plugins.executorch.delegate.specs import KERNELS, Options

from .modules import NO_LINEAR, NO_SORT, Cached, Constants, Net, Sorted, X, calls, export, lower, lowered

pytestmark = [pytest.mark.slow, pytest.mark.executorch]

IMAGE = torch.arange(192.0).reshape(1, 3, 8, 8).sin()
SORT = "aten.sort.default"


def test_a_network_is_one_delegate_with_its_constants() -> None:
    partitioner = OpdbPartitioner(Options())
    made = lower(Net(), [IMAGE], partitioner)
    assert calls(made) == [BACKEND] and partitioner.reasons == {}
    inside = lowered(made)[0].original_module.graph_signature
    assert {"conv.weight", "norm.running_var", "out.bias"} <= {*inside.parameters, *inside.buffers}
    assert not made.exported_program().graph_signature.parameters
    assert "aten_hardswish_default" in {n for d in partitioner.decisions[0] for n in d.taken}  # kept whole


def test_nodes_not_taken_have_reasons() -> None:
    partitioner = OpdbPartitioner(NO_SORT)
    assert calls(lower(Sorted(), [X], partitioner)) == [BACKEND, SORT, BACKEND]
    assert partitioner.reasons == {"aten_sort_default": (f"asked: leave {SORT}",)}


def test_reasons_come_from_the_validators() -> None:
    class Sum(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x).double().cumsum(0)

    partitioner = OpdbPartitioner(Options("CPU"))
    left = calls(lower(Sum(), [X], partitioner))
    assert left[0] == BACKEND and "aten.cumsum.default" in left
    row = partitioner.decisions[0][0].rows["aten_cumsum_default"]
    assert row.verdict == "rejected" and row.reasons
    said = partitioner.reasons["aten_cumsum_default"]
    assert {r["rule"] for r in row.reasons} == {m.partition(":")[0] for m in said}


def test_the_program_is_not_changed() -> None:
    program = to_edge(export(Sorted(), [X])).exported_program()
    before = copy.deepcopy(program)
    result = OpdbPartitioner(NO_SORT)(program)
    assert is_identical_graph(result.tagged_exported_program.graph_module, before.graph_module)
    assert sorted(result.partition_tags) == ["opdb_0_0", "opdb_0_1"]
    assert {s.backend_id for s in result.partition_tags.values()} == {BACKEND}


def test_to_backend_accepts_a_single_program() -> None:
    program = to_backend(to_edge(export(Sorted(), [X])).exported_program(), OpdbPartitioner(NO_SORT))
    assert [n.name for n in program.graph.nodes if "call_delegate" in n.name] == [
        "executorch_call_delegate",
        "executorch_call_delegate_1",
    ]


def test_nodes_not_taken_go_to_the_next_partitioner() -> None:
    ours = OpdbPartitioner(NO_LINEAR)
    found = calls(made := lower(Sorted(), [X], ours, XnnpackPartitioner()))
    assert {BACKEND, "XnnpackBackend", SORT} <= set(found) and "aten_addmm_default" in ours.reasons
    assert len(made.to_executorch().buffer) > 0


def test_nodes_left_by_another_partitioner_are_taken() -> None:
    ours = OpdbPartitioner(Options())
    found = calls(made := lower(Sorted(), [X], XnnpackPartitioner(), ours))
    assert found.count(BACKEND) == 1 and found[0] == found[-1] == "XnnpackBackend" and SORT not in found
    assert all("call_delegate" in name for name in ours.reasons)
    assert len(made.to_executorch().buffer) > 0


def test_one_partitioner_can_use_two_backends() -> None:
    options = Options("CPU", leave=("aten.gelu.default", SORT)), Options(KERNELS)
    partitioner = OpdbPartitioner(*options)
    assert set(calls(lower(Sorted(), [X], partitioner))) == {BACKEND} and partitioner.reasons == {}
    first, second = partitioner.decisions[0]
    assert {"aten_gelu_default", "aten_sort_default"} <= second.taken
    assert first.taken.isdisjoint(second.taken) and len(first.groups) >= 2
    assert first.reasons["aten_gelu_default"] == ("asked: leave aten.gelu.default",)


def test_reasons_of_two_backends_name_them() -> None:
    partitioner = OpdbPartitioner(Options("CPU", leave=(SORT,)), Options(leave=(SORT,)))
    lower(Sorted(), [X], partitioner)
    assert partitioner.reasons["aten_sort_default"] == (
        f"CPU: asked: leave {SORT}",
        f"{KERNELS}: asked: leave {SORT}",
    )


def test_small_groups_are_not_taken() -> None:
    partitioner = OpdbPartitioner(NO_SORT, minimum=2)
    assert calls(lower(Sorted(), [X], partitioner)) == ["aten.linear.default", SORT, BACKEND]
    assert "its group has 1 operator, and 2 are asked for" in partitioner.reasons["aten_linear_default"]


def test_a_constant_used_by_two_groups_is_in_both() -> None:
    first, second = lowered(lower(Sorted(), [X], OpdbPartitioner(NO_SORT)))
    weights = [list(m.original_module.state_dict.values()) for m in (first, second)]
    assert any(torch.equal(a, b) for a in weights[0] for b in weights[1] if a.shape == b.shape)


def test_a_table_of_constants_is_computed_once() -> None:
    found = calls(lower(Constants(), [X], OpdbPartitioner(NO_SORT)))
    assert found.count(BACKEND) == 2 and found.count("aten.mul.Tensor") == 1


@pytest.mark.parametrize(("kept", "inside"), [("delegate", 1), ("program", 0)])
def test_mutable_buffers_are_kept_in_the_delegate_or_program(kept: str, inside: int) -> None:
    options = Options(mutable_buffers=kept)
    made = lower(Cached(), [X[:1], torch.tensor([1])], OpdbPartitioner(options))
    assert calls(made) == [BACKEND]
    assert len(lowered(made)[0].original_module.graph_signature.buffers_to_mutate) == inside
    assert len(made.exported_program().graph_signature.buffers_to_mutate) == 1 - inside


def test_a_buffer_with_other_readers_stays_in_the_program() -> None:
    class Shared(Cached):
        def forward(self, x: torch.Tensor, at: torch.Tensor) -> Any:
            return super().forward(x, at), torch.sort(self.keys)[0]

    made = lower(Shared(), [X[:1], torch.tensor([1])], OpdbPartitioner(NO_SORT))
    assert calls(made) == [BACKEND, SORT]
    assert len(made.exported_program().graph_signature.buffers_to_mutate) == 1


class Relu(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * 2.0


def test_dynamic_shapes_are_refused_with_a_fix() -> None:
    partitioner = OpdbPartitioner(Options())
    made = lower(Relu(), [X], partitioner, dynamic_shapes={"x": {0: Dim("rows", min=2, max=16)}})
    assert BACKEND not in calls(made)
    (said,) = partitioner.reasons["aten_relu_default"]
    assert "which only the run knows, from 2 to 16" in said and "export a method for each size" in said


def test_channels_last_is_refused_with_a_fix() -> None:
    partitioner = OpdbPartitioner(Options())
    made = lower(Relu(), [IMAGE.to(memory_format=torch.channels_last)], partitioner)
    assert calls(made)[0] == "aten.relu.default"
    assert "call .contiguous() there" in partitioner.reasons["aten_relu_default"][0]


def test_a_branch_stays_between_delegates() -> None:
    class Branch(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.relu(x)
            return torch.tanh(torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (y,)))

    partitioner = OpdbPartitioner(Options())
    found = calls(lower(Branch(), [X], partitioner))
    assert "cond" in found and found[-1] == BACKEND
    assert partitioner.reasons["cond"] == ("cond is no operator of PyTorch's",)


def test_results_that_are_inputs_or_constants_are_not_delegated() -> None:
    class Ends(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = torch.relu(x)
            return y, y.clone(), x.clone(), torch.full((2,), 3.0)

    made = lower(Ends(), [X], OpdbPartitioner(Options()))
    assert calls(made).count(BACKEND) == 1 and len(made.to_executorch().buffer) > 0


def test_a_partitioner_without_options_is_refused() -> None:
    with pytest.raises(OpdbError, match="say where the nodes run"):
        OpdbPartitioner()
