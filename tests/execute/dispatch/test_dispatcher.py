"""Plans on the real libraries, the C kernels and PyTorch, against PyTorch alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from dispatch_models import CPU, HTP, Attention, Call, Model, agree, plan_of, seeded, truth
from torch import nn

from opdb.core.errors import OpdbError
from opdb.core.op_config import ConfigError
from opdb.execute.dispatch import Dispatcher, PlanError, partition
from opdb.execute.dispatch.segments import TorchRunner, Values
from opdb.plugins.executorch.demo import guide_model
from opdb.programs.torch.export import export
from opdb.runtime.qnn.backend import Backend

pytestmark = [pytest.mark.vendor, pytest.mark.torch, pytest.mark.native]


# -- all on QNN


def test_a_model_on_qnn_gives_the_same_results_in_100_runs(cpu: Backend) -> None:
    module, (x,) = guide_model()
    x = x[:8]
    plan = plan_of(module, x)
    assert [s.name for s in plan.segments] == ["qnn_0"]
    assert {p.runs_on for p in plan.placements} == {"qnn"}
    with Dispatcher(plan, cpu) as dispatcher:
        first = dispatcher.run([x])
        agree(first, truth(module, x), 1e-4)
        kept = {n: a.copy() for n, a in first.items()}
        for i in range(99):
            dispatcher.run([x * 0.5]) if i % 2 else None
            again = dispatcher.run({plan.inputs[0]: x.numpy()})
            assert all(np.array_equal(again[n], kept[n]) for n in kept)
        assert all(np.array_equal(first[n], kept[n]) for n in kept), "a later run wrote into given outputs"
        report = dispatcher.report()
        assert list(dispatcher.graphs) == ["qnn_0"]
    assert report.runs == 149 and report.segments[0].runs == 149
    assert [(c.kind, c.bytes) for c in report.copies] == [("in", x.nbytes), ("out", 8 * 100 * 4)]
    assert (report.copied, report.copied_bytes) == (298, 149 * (x.nbytes + 8 * 100 * 4))
    assert report.shared == ()


def test_the_callers_own_arrays_need_no_copies(cpu: Backend) -> None:
    module, (x,) = guide_model()
    plan = plan_of(module, x)
    with Dispatcher(plan, cpu) as dispatcher:
        dispatcher.inputs[plan.inputs[0]][...] = x
        (y,) = dispatcher.run(dispatcher.inputs, copy=False).values()
        agree({"y": y}, truth(module, x), 1e-4)
        assert dispatcher.report().copies == ()
        dispatcher.inputs[plan.inputs[0]][...] = 2 * x
        (again,) = dispatcher.run(dispatcher.inputs, copy=False).values()
        assert np.shares_memory(again, y)
        agree({"y": y}, truth(module, 2 * x), 1e-4)


# -- op by op


def test_a_listed_op_runs_on_the_c_kernels_without_copies(cpu: Backend) -> None:
    module, x = seeded(lambda: Attention(16)), torch.randn(2, 5, 16)
    for name in ("Softmax", "aten.softmax", "aten.softmax.int"):
        plan = plan_of(module, x, host_ops=[name])
        assert [s.name for s in plan.segments] == ["qnn_0", "kernels_1", "qnn_2"]
        assert plan.segments[1].nodes == ("softmax",)
        placed = plan.placement("softmax")
        assert (placed.runs_on, placed.ops, placed.why) == (
            "kernels",
            ("Softmax",),
            f"asked: host_ops {name}",
        )
    with Dispatcher(plan, cpu) as dispatcher:
        agree(dispatcher.run([x]), truth(module, x))
        report = dispatcher.report()
    # v(x) goes from the first graph to the second, which run one after the other, or is made in the second
    crossing = {(s.tensor, s.source, s.to): s.bytes for s in report.shared}
    scores = 2 * 5 * 5 * 4
    assert crossing["matmul", "qnn_0", "kernels_1"] == scores
    assert crossing["softmax", "kernels_1", "qnn_2"] == scores
    assert {k: report.count(k) for k in ("in", "out", "between")} == {"in": 1, "out": 1, "between": 0}
    assert {c.why for c in report.copies if c.kind == "layout"} <= {"Transpose to [2, 16, 5]"}


def test_one_error_lists_all_ops_without_a_spec(cpu: Backend) -> None:
    module, x = Call(lambda x: torch.relu(torch.cumprod(torch.erfc(torch.relu(x)), 1))), torch.randn(3, 4)
    with pytest.raises(PlanError) as error:
        plan_of(module, x)
    assert [p.partition(" [at ")[0] for p in error.value.problems] == [
        "erfc (aten.erfc.default): QNN has no op for aten.erfc.default",
        "cumprod (aten.cumprod.default): QNN has no op for aten.cumprod.default",
    ]
    assert str(error.value).startswith("2 of 4 nodes cannot run as asked with CPU; unsupported='host'")
    with pytest.raises(PlanError, match=r"host='torch' lets PyTorch run.*\n.*erfc.*\n.*cumprod"):
        plan_of(module, x, unsupported="host")
    plan = plan_of(module, x, unsupported="host", host="torch")
    assert [(s.name, s.nodes) for s in plan.segments] == [
        ("qnn_0", ("relu",)), ("torch_1", ("erfc", "cumprod")), ("qnn_2", ("relu_1",))
    ]  # fmt: skip
    with Dispatcher(plan, cpu) as dispatcher:
        agree(dispatcher.run([x]), truth(module, x))
        report = dispatcher.report()
    assert [(c.kind, c.tensor, c.source, c.to, c.bytes) for c in report.copies] == [
        ("in", "args_0", "caller", "qnn_0", 48),
        ("between", "cumprod", "torch_1", "qnn_2", 48),
        ("out", "relu_1", "qnn_2", "caller", 48),
    ]
    assert [(s.tensor, s.source, s.to, s.bytes) for s in report.shared] == [("relu", "qnn_0", "torch_1", 48)]


def test_a_rejected_form_names_its_rule() -> None:
    """The spec's guard rejects a softmax with a dtype conversion; PyTorch runs it unchanged."""
    module, x = Call(lambda x: torch.softmax(x, 1, dtype=torch.float64)), torch.randn(3, 4)
    with pytest.raises(PlanError, match=r"softmax.*Softmax\.M_aten\.softmax\.int: .*conversion"):
        plan_of(module, x)
    plan = plan_of(module, x, unsupported="host", host="torch")
    assert plan.placement("softmax").runs_on == "torch"
    assert "conversion" in plan.placement("softmax").why
    with Dispatcher(plan) as dispatcher:  # no QNN graph: no backend
        agree(dispatcher.run([x]), truth(module, x))


def test_ops_refused_by_qnn_go_to_a_kernel(cpu: Backend) -> None:
    """QNN CPU documents Softmax up to rank 5; the definition has no limit, and neither has our kernel."""
    module = Call(lambda a: torch.relu(torch.softmax(torch.tanh(a), -1)))
    a = torch.randn(1, 2, 1, 2, 3, 4)
    plan = plan_of(module, a, unsupported="host")
    placed = plan.placement("softmax")
    assert (placed.runs_on, placed.ops) == ("kernels", ("Softmax",))
    assert placed.why.startswith("Softmax.P1: ")
    with Dispatcher(plan, cpu) as dispatcher:
        agree(dispatcher.run([a]), truth(module, a))
        report = dispatcher.report()
    assert [(c.kind, c.tensor, c.to) for c in report.copies] == [
        ("in", "args_0", "qnn_0"), ("out", "relu", "caller")
    ]  # fmt: skip
    assert [(s.tensor, s.source, s.to) for s in report.shared] == [
        ("tanh", "qnn_0", "kernels_1"), ("softmax", "kernels_1", "qnn_2")
    ]  # fmt: skip


# -- module by module


def test_modules_can_be_forced_to_qnn_or_the_host(cpu: Backend) -> None:
    module, x = seeded(Model), torch.randn(2, 5, 16)
    plan = plan_of(module, x, host_modules=["layers.0.attn"])
    for p in plan.placements:
        if p.runs_on != "nowhere":
            assert (p.runs_on == "kernels") == p.module.startswith("layers.0.attn"), p
    assert [s.runs_on for s in plan.segments] == ["qnn", "kernels", "qnn"]
    inner = plan_of(module, x, host_modules=[""], qnn_modules=["layers.1", "layers.0.up"])
    assert [s.runs_on for s in inner.segments] == ["kernels", "qnn", "kernels", "qnn"]
    assert inner.segments[1].nodes == ("linear_3",)
    assert inner.placement("linear_3").why.endswith("asked: qnn_modules layers.0.up")
    for chosen in (plan, inner):
        with Dispatcher(chosen, cpu) as dispatcher:
            agree(dispatcher.run([x]), truth(module, x), 1e-4)
            assert dispatcher.report().count("between") == 0


def test_a_module_requested_on_qnn_is_not_moved() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Call(lambda x: torch.erfc(x)), nn.ReLU()

        def forward(self, x: Any) -> Any:
            return self.b(self.a(x))

    with pytest.raises(PlanError, match=r"erfc .*qnn_modules asks for QNN: QNN has no op for"):
        plan_of(Two(), torch.randn(3), unsupported="host", host="torch", qnn_modules=["a"])


# -- shapes of programs


def test_a_diamond_becomes_two_graphs_without_a_cycle(cpu: Backend) -> None:
    def call(x: Any) -> Any:
        y = torch.relu(x)
        return torch.tanh(y) + torch.cumprod(y, 0)

    x = torch.randn(4, 4)
    plan = plan_of(Call(call), x, unsupported="host", host="torch")
    assert [(s.runs_on, s.nodes) for s in plan.segments] == [
        ("qnn", ("relu", "tanh")), ("torch", ("cumprod",)), ("qnn", ("add",))
    ]  # fmt: skip
    with Dispatcher(plan, cpu) as dispatcher:
        agree(dispatcher.run([x]), truth(Call(call), x))


def test_layouts_at_the_ends_of_graphs_are_counted(cpu: Backend) -> None:
    """Conv2d is NHWC: NCHW inputs are converted, back for PyTorch's erfc, and again after it."""
    module = seeded(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), Call(torch.erfc), nn.Conv2d(4, 2, 1)))
    x = torch.randn(1, 3, 8, 6)
    with Dispatcher(plan_of(module, x, unsupported="host", host="torch"), cpu) as dispatcher:
        agree(dispatcher.run([x]), truth(module, x))
        report = dispatcher.report()
    layouts = [(c.source, c.why, c.bytes) for c in report.copies if c.kind == "layout"]
    assert layouts == [
        ("qnn_0", "Transpose to [1, 8, 6, 3]", 576), ("qnn_0", "Transpose to [1, 4, 6, 4]", 384),
        ("qnn_2", "Transpose to [1, 6, 4, 4]", 384), ("qnn_2", "Transpose to [1, 2, 6, 4]", 192),
    ]  # fmt: skip
    assert report.to_json()["per_run"]["layout"] == {"copies": 4, "bytes": 1536}


def test_inputs_constants_and_repeated_results_may_be_outputs(cpu: Backend) -> None:
    constant = torch.arange(3.0)

    def call(x: Any, n: Any) -> Any:
        y = torch.relu(x)
        return x, y, torch.cumprod(n, 0), constant * 2, y.mean((0, 1))

    x, n = torch.randn(2, 3), torch.tensor([3, 2, 2**40])
    plan = plan_of(Call(call), x, n, unsupported="host", host="torch")
    with Dispatcher(plan, cpu) as dispatcher:
        got = dispatcher.run([x, n])
        agree(got, truth(Call(call), x, n))
        assert got[plan.outputs[4]].shape == ()
        assert not np.shares_memory(got[plan.outputs[0]], x.numpy())


def test_int64_passes_qnn_as_int32_or_is_rejected(cpu: Backend) -> None:
    def call(n: Any) -> Any:
        return torch.maximum(torch.cumprod(n, 0), n)

    n = torch.tensor([1, -5, 7])
    with Dispatcher(plan_of(Call(call), n, unsupported="host", host="torch"), cpu) as dispatcher:
        agree(dispatcher.run([n]), truth(Call(call), n))
        report = dispatcher.report()
        assert ("out", "int32 to int64") in [(c.kind, c.why) for c in report.copies]
        with pytest.raises(ConfigError, match=r"input args_0: 1 to 1099511627776 do not fit int32"):
            dispatcher.run([torch.tensor([1, 2**40, 7])])
        with pytest.raises(ConfigError, match=r"cumprod: .* do not fit int32"):
            dispatcher.run([torch.tensor([2**31 - 1, 1, 7])])
        agree(dispatcher.run([n]), truth(Call(call), n))


def test_bfloat16_results_are_returned_as_bits() -> None:
    x = torch.randn(5).to(torch.bfloat16)
    with Dispatcher(plan_of(Call(lambda x: torch.cumprod(x, 0)), x, unsupported="host", host="torch")) as d:
        for given in (x, x.view(torch.uint16).numpy()):
            (y,) = d.run([given]).values()
            assert np.array_equal(y, torch.cumprod(x, 0).view(torch.uint16).numpy())


def test_unused_nodes_of_a_program_are_listed() -> None:
    x = torch.randn(2, 2)
    program = export(Call(lambda x: torch.relu(x) + 1), (x,))
    graph = program.graph
    relu = next(n for n in graph.nodes if n.name == "relu")
    with graph.inserting_after(relu):
        dead = graph.call_function(torch.ops.aten.erfc.default, (relu,))
        dead.meta = dict(relu.meta)
    plan = partition(program, CPU)
    assert plan.placement(dead.name).runs_on == "nowhere"
    assert plan.placement(dead.name).why == "nothing reads its results"
    assert "nothing reads its results" in plan.table()


def test_pytorchs_results_are_freed_after_their_last_use() -> None:
    x = torch.randn(4)
    plan = plan_of(Call(lambda x: x.erfc().digamma().cumprod(0).erfc()), x, unsupported="host", host="torch")
    (segment,) = plan.segments
    values = Values(plan, {}, {plan.source.inputs[0]: x.numpy()}, lambda copy: None)
    TorchRunner(segment, plan, {}, {}, {}).run(values)
    assert set(values.eager) == {("args_0", 0), ("erfc_1", 0)}
    assert torch.equal(values.eager["erfc_1", 0], x.erfc().digamma().cumprod(0).erfc())


# -- HTP


def test_host_nodes_can_run_between_htp_graphs(htp: Backend) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, 5)

        def forward(self, x: Any) -> Any:
            y = torch.relu(self.conv(x)).mean((2, 3))
            return torch.softmax(self.head(torch.cumprod(y, 1)), -1)

    module, x = seeded(Net), torch.randn(1, 3, 10, 10)
    plan = plan_of(module, x, target=HTP, unsupported="host", host="torch", host_ops=["Softmax"])
    assert [s.runs_on for s in plan.segments] == ["qnn", "torch", "qnn", "kernels"]
    with Dispatcher(plan, htp) as dispatcher:
        first = dispatcher.run([x])
        agree(first, truth(module, x), 5e-3)
        again = dispatcher.run([x])
        assert all(np.array_equal(first[n], again[n]) for n in first)
        assert (dispatcher.report().count("between"), len(dispatcher.report().shared)) == (1, 2)


def test_half_precision_htp_works_with_float32_pytorch(htp: Backend) -> None:
    module, x = Call(lambda x: torch.relu(torch.cumprod(torch.tanh(x), 1))), torch.randn(3, 8)
    plan = plan_of(module, x, target=HTP, float_dtype="f16", unsupported="host", host="torch")
    with Dispatcher(plan, htp) as dispatcher:
        agree(dispatcher.run([x]), truth(module, x), 5e-3)
        report = dispatcher.report()
    assert [(c.kind, c.tensor, c.why) for c in report.copies] == [
        ("in", "args_0", "float32 to float16"),
        ("between", "tanh", "float16 to torch.float32"),
        ("between", "cumprod", "PyTorch's own memory"),
        ("out", "relu", "float16 to float32"),
    ]
    assert report.shared == ()


def test_graphs_of_a_plan_are_optimized() -> None:
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Conv2d(4, 2, 1))
    program = torch.export.export(network.eval(), (torch.rand(1, 3, 8, 8),))
    kinds = [op.op for op in partition(program, CPU).graphs[0].ops]
    assert kinds.count("Transpose") == 2
    plain = partition(program, CPU, without_passes=["sink-transposes"])
    assert sum(op.op == "Transpose" for op in plain.graphs[0].ops) == 4
    assert plain.segments[0].part is not None and len(plain.segments[0].part.layout_ops) == 4
    with pytest.raises(OpdbError, match="no pass 'sink'"):
        partition(program, CPU, without_passes=["sink"])
