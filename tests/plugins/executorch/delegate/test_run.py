"""Lowered programs in Python, without ExecuTorch's runtime."""

from __future__ import annotations

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower

from opdb.core.errors import OpdbError
from opdb.plugins.executorch.delegate.inspect import inspect_node
from opdb.plugins.executorch.delegate.partitioner import OpdbPartitioner
from opdb.plugins.executorch.delegate.run import Delegate, Runner, named_data
from opdb.plugins.executorch.delegate.shapes import Padded
from opdb.plugins.executorch.delegate.specs import Options

from .modules import NO_LINEAR, NO_SORT, Cached, Sorted, X, export, lower, lowered

pytestmark = [pytest.mark.slow, pytest.mark.executorch]


def test_other_nodes_run_in_pytorch_or_other_backends() -> None:
    for partitioners in ([OpdbPartitioner(NO_SORT)], [OpdbPartitioner(NO_LINEAR), XnnpackPartitioner()]):
        with Runner(lower(Sorted(), [X], *partitioners)) as runner:
            (found,) = runner.execute("forward", 3 * X)
        torch.testing.assert_close(found, Sorted()(3 * X).detach())


@pytest.mark.parametrize("kept", ["delegate", "program"])
def test_buffers_keep_their_values(kept: str) -> None:
    model = Cached().eval()
    made = lower(Cached(), [X[:1], torch.tensor([1])], OpdbPartitioner(Options(mutable_buffers=kept)))
    with Runner(made) as runner:
        for at in range(4):
            step = X[:1] * (at + 1)
            (found,) = runner.execute("forward", step, torch.tensor([at]))
            torch.testing.assert_close(found, model(step, torch.tensor([at])).detach())


def test_prefill_and_decode_share_a_cache() -> None:
    model, wanted = Cached().eval(), Cached().eval()
    prompt, token = X.flip(0), X[:1]
    programs = {
        "prefill": export(model, [prompt, torch.tensor([0, 1])]),
        "decode": export(model, [token, torch.tensor([2])]),
    }
    partitioner = OpdbPartitioner(Options(mutable_buffers="program"))
    with Runner(
        to_edge_transform_and_lower(programs, partitioner=[partitioner]), share_buffers=True
    ) as runner:
        for method, inputs in (
            ("prefill", (prompt, torch.tensor([0, 1]))),
            ("decode", (token, torch.tensor([2]))),
            ("decode", (-token, torch.tensor([3]))),
        ):
            torch.testing.assert_close(runner.execute(method, *inputs)[0], wanted(*inputs).detach())


def test_a_program_may_have_several_methods() -> None:
    programs = {"one": export(Sorted(), [X]), "two": export(torch.nn.ReLU(), [X])}
    with Runner(to_edge_transform_and_lower(programs, partitioner=[OpdbPartitioner(NO_SORT)])) as runner:
        assert runner.methods == ("one", "two")
        assert [len(runner.delegates(m)) for m in runner.methods] == [2, 1]
        torch.testing.assert_close(runner.execute("two", X)[0], torch.relu(X))
        with pytest.raises(OpdbError, match="no method 'three'; it has one, two"):
            runner.execute("three", X)


def test_inputs_that_do_not_fit_are_refused() -> None:
    (module,) = lowered(lower(Cached(), [X[:1], torch.tensor([1])], OpdbPartitioner(Options())))
    with Delegate(module.processed_bytes, named_data(module)) as delegate:
        for inputs, said in (
            ((X[:1],), "has 2 inputs, 1 are given"),
            (
                (X, torch.tensor([1])),
                r"input 0 of the delegate: torch.float32 \[1, 8\] is wanted, got .* \[2, 8\]",
            ),
            ((X[:1].double(), torch.tensor([1])), "got torch.float64"),
            ((X[:1], torch.tensor([2**40])), "which do not fit int32"),
        ):
            with pytest.raises(OpdbError, match=said):
                delegate.execute(*inputs)
        with pytest.raises(OpdbError):  # outside of the cache
            delegate.execute(X[:1], torch.tensor([7]))
    with pytest.raises(OpdbError, match="its checksum is wrong"):
        Delegate(bytes(module.processed_bytes[:-1]) + b"\1", named_data(module))


def test_a_module_of_maximum_size_runs_smaller_inputs() -> None:
    class Rows(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cumsum(x, 0) * 2.0

    padded = Padded(Rows(), dim=0, size=5)
    made = lower(padded, [torch.ones(5, 8)], OpdbPartitioner(Options()))
    with Runner(made) as runner:
        (found,) = padded.cut(runner.execute("forward", *padded.pad(X)), len(X))
    torch.testing.assert_close(found, Rows()(X))
    with pytest.raises(ValueError, match="at most 5 were exported"):
        padded.pad(torch.ones(6, 8))


def test_inspect_node_describes_delegates_and_refusals() -> None:
    partitioner = OpdbPartitioner(NO_SORT)
    graph = lower(Sorted(), [X], partitioner).exported_program().graph
    nodes = {n.name: n for n in graph.nodes}
    said = inspect_node(graph, nodes["executorch_call_delegate"], partitioner)
    assert "OpdbBackend runs 1 op on opdb's C kernels:" in said
    assert "0: FullyConnected aten_linear_default_0, of aten_linear_default; debug handles" in said
    said = inspect_node(graph, nodes["aten_sort_default"], partitioner)
    assert (
        "--> %aten_sort_default" in said and "OpdbBackend leaves it: asked: leave aten.sort.default" in said
    )
    assert "y = torch.sort(self.one(x), -1)[0]" in said
