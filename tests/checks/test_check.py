"""Verdicts with reasons: guards, rules and missing mappings on real modules."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from interpreter import run
from modules import CASES, Function
from rejected import REJECTED
from torch import Tensor, nn

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Row
from opdb.checks.graph import build_graph
from opdb.checks.verdicts import check_nodes, check_program
from opdb.core.errors import OpdbError
from opdb.core.op_config import Quant
from opdb.execute.dispatch.plan import partition
from opdb.lower.candidates import unmapped_reason
from opdb.lower.violations import judge, violations
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program
from opdb.runtime.forms import Lowered, LoweredOp
from opdb.runtime.tensors import TensorRef

pytestmark = pytest.mark.torch
CPU, HTP = Target("CPU"), Target("HTP", "SM8650")
aten = torch.ops.aten


def rows_of(
    module: nn.Module | Callable[..., Any], *inputs: Tensor, target: Target = CPU, **options: Any
) -> tuple[Row, ...]:
    module = module if isinstance(module, nn.Module) else Function(module)
    return check_program(export(module, inputs), target, **options).rows


def only(module: nn.Module | Callable[..., Any], *inputs: Tensor, target: Target = CPU) -> Row:
    (row,) = rows_of(module, *inputs, target=target)
    return row


r = torch.randn


@pytest.mark.parametrize("name", REJECTED)
def test_a_rejected_node_names_its_rule_and_values(name: str) -> None:
    module, inputs, rule, words = REJECTED[name]
    row = only(module, *inputs)
    assert row.verdict == "rejected" and not row.ops
    assert row.reasons[0]["rule"] == rule
    assert words in row.reasons[0]["message"]


def test_a_rule_of_the_backend_rejects() -> None:
    row = only(torch.relu, r(1, 1, 1, 1, 1, 2), target=HTP)
    assert [(q["rule"], q["message"]) for q in row.reasons] == [
        ("Relu.H1", "HTP takes x of at most 5 dimensions; got x.rank = 6")
    ]


def test_a_backend_without_documents_is_never_supported() -> None:
    row = only(torch.isinf, r(3).half(), target=Target("HTA"))
    assert row.verdict == "rejected"
    assert {q["message"] for q in row.reasons} == {
        "only the op definition was judged: the specs hold no rules of IsInf on HTA (cannot be evaluated)"
    }


def test_layer_norm_over_two_dimensions_takes_a_supported_form() -> None:
    module, x = nn.LayerNorm((8, 6)), r(2, 4, 8, 6)
    assert only(module, x, target=CPU).ops == ("LayerNorm",)
    row = only(module, x, target=HTP)
    assert (row.form, row.ops) == ("layer_norm_trailing", ("Reshape", "LayerNorm", "Reshape"))
    assert [q["rule"] for q in row.reasons] == ["LayerNorm.H5"]  # why the direct form was passed over


def test_only_the_reasons_that_matter_are_given() -> None:
    """Not the condition of DepthWiseConv2d, which another convolution needs not meet, and not the same types for each Transpose."""
    row = only(nn.Conv2d(3, 4, 3).double(), r(1, 3, 8, 8).double())
    assert [(q["form"], q["rule"]) for q in row.reasons] == [("Conv2d", "Conv2d.TYPES_CPU")]
    assert {n["form"] for n in row.nearest} == {"Conv2d"}
    row = only(nn.Conv2d(3, 4, 3), r(1, 3, 8, 8), target=Target("HTP", "QCM6490"))
    assert [q["rule"] for q in row.reasons] == ["Conv2d.TYPES_HTP"]
    assert row.reasons[0]["message"].startswith("this chip has no floating point on the HTP")


def test_an_unknown_target_goes_to_the_host() -> None:
    row = only(torch.digamma, r(3))
    assert (row.verdict, row.reasons[0]["message"]) == ("host", "QNN has no op for aten.digamma.default")
    assert unmapped_reason("aten.nonzero.default").message == (
        "QNN has the op NonZero, opdb does not map this operator to it"
    )
    assert unmapped_reason("aten.argsort.stable").message == (
        "opdb does not map aten.argsort.stable; it maps aten.argsort.default"
    )
    assert unmapped_reason("aten.relu_.default").message == (
        "opdb does not map aten.relu_.default; it maps aten.relu.default"
    )
    assert "real and the imaginary part" in unmapped_reason("aten.view_as_complex.default").message


def test_symbolic_shapes_are_refused_with_a_fix() -> None:
    program = torch.export.export(
        nn.Linear(4, 5), (r(3, 4),), dynamic_shapes=({0: torch.export.Dim("batch")},)
    )
    (row,) = check_program(program, CPU).rows
    assert row.verdict == "rejected" and row.bytes is None
    assert "symbolic dimension" in row.reasons[0]["message"] and "static shapes" in row.reasons[0]["message"]


def test_decompose_makes_unmapped_operators_supported() -> None:
    assert [row.verdict for row in rows_of(torch.rad2deg, r(3))] == ["host"]
    rows = rows_of(torch.rad2deg, r(3), decompose=True)
    assert [(row.target, row.verdict) for row in rows] == [
        ("aten.mul.Tensor", "supported"),
    ]


def test_locations_name_module_and_line() -> None:
    case = next(c for c in CASES if c.id == "attention")
    rows = rows_of(case.build(), *case.inputs())
    assert rows[0].module == "norm" and rows[0].line.startswith("modules.py:")
    assert rows[0].bytes == 4 * (80 + 16 + 16 + 80)


def test_coverage_is_json() -> None:
    coverage = check_program(export(nn.Sequential(nn.Linear(3, 3), Function(torch.digamma)), (r(2, 3),)), HTP)
    out = json.loads(json.dumps(coverage.to_json()))
    assert (out["nodes"], out["supported"], out["host"], out["rejected"]) == (2, 1, 1, 0)
    assert [row["verdict"] for row in out["rows"]] == ["supported", "host"]
    assert not coverage.complete


def partitions_of(call: Callable[..., Any], *inputs: Tensor) -> int:
    return check_program(export(Function(call), inputs), CPU).partitions


def test_partitions_are_cut_at_unsupported_nodes() -> None:
    x = r(2, 3)
    assert partitions_of(lambda x: torch.relu(x) + x, x) == 1
    assert partitions_of(lambda x: torch.relu(torch.digamma(torch.relu(x))), x) == 2
    assert partitions_of(torch.digamma, x) == 0
    # y reads two sides of the cut: relu before digamma, the sum after it
    assert partitions_of(lambda x: (y := torch.relu(x)) + torch.digamma(y), x) == 2
    assert partitions_of(lambda x: (torch.relu(x), torch.tanh(x)), x) == 2


def test_adjacent_convolutions_share_one_layout() -> None:
    """There are three Transposes at the ends of two convolutions and none between them."""
    case = next(c for c in CASES if c.id == "convolutions")
    module, inputs = case.build(), case.inputs()
    program = Program(export(module, inputs))
    graph = build_graph(program, check_nodes(program, HTP).lowered)
    assert [op.op for op in graph.ops].count("Transpose") == 3
    convs = [op for op in graph.ops if op.op == "Conv2d"]
    assert convs[1].inputs[0] == convs[0].outputs[0]
    assert [t.name for t in graph.outputs] == ["conv2d_1", "add"]


def test_a_reshape_between_types_is_refused() -> None:
    x = TensorRef((2, 3), "f32", key=("x", 0))
    y = TensorRef((6,), "uq8", key=("y", 0), quant=Quant("SCALE_OFFSET", (0.1,), (0,)))
    (reason,) = judge(Lowered("Reshape", (LoweredOp("Reshape", (x,), (), (y,)),)), HTP)
    assert (reason.rule, reason.warning) == ("Reshape.C1", False)


def test_scatter_nd_with_misplaced_rows_is_refused() -> None:
    """HTP 2.47 validates and finalizes this ScatterNd, and computes wrong results."""

    emulator = replace(HTP, execution="emulator")

    def op(row: int) -> LoweredOp:
        x, y = (TensorRef((3, row), "f32", key=(n, 0)) for n in "xy")
        indices, updates = TensorRef((2, 1), "i32", key=("i", 0)), TensorRef((2, row), "f32", key=("u", 0))
        return LoweredOp("ScatterNd", (x, indices, updates), (), (y,))

    assert not list(judge(Lowered("ScatterNd", (op(32768),)), emulator))
    (reason,) = judge(Lowered("ScatterNd", (op(32769),)), emulator)
    assert (reason.rule, reason.warning) == ("HTP-0093", False)
    (reason,) = judge(Lowered("ScatterNd", (op(32769),)), HTP)
    assert (reason.rule, reason.warning) == ("HTP-0093", True)


def test_an_empty_input_is_not_an_input_of_the_graph() -> None:
    program = Program(export(Function(lambda a, b: torch.cat([a, b], 1)), (torch.zeros(0), r(2, 3))))
    assert len(program.inputs) == 2
    graph = build_graph(program, check_nodes(program, HTP).lowered)
    assert [t.shape for t in graph.tensors.values() if t.type == "APP_WRITE"] == [(2, 3)]


def test_constants_are_computed_ahead() -> None:
    weight = nn.Parameter(r(4, 5))

    class Folded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weight

        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.linear(x, (self.weight * torch.arange(5)).t().contiguous())

    program = Program(export(Folded(), (r(3, 4),)))
    assert [n.target for n in program.nodes] == ["aten.linear.default"]
    x = r(3, 4)
    graph = build_graph(program, check_nodes(program, CPU).lowered)
    assert {t.type for t in graph.tensors.values()} == {"APP_WRITE", "STATIC", "APP_READ"}
    torch.testing.assert_close(run(graph, [x])[0], Folded()(x))


def test_a_half_precision_graph_is_right_on_htp() -> None:
    module, x = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 4)), r(3, 8)
    program = Program(export(module, (x,)), "f16")
    coverage = check_nodes(program, HTP)
    graph = build_graph(program, coverage.lowered)
    assert coverage.complete and {t.dtype for t in graph.tensors.values()} == {"f16"}
    torch.testing.assert_close(run(graph, [x])[0].float(), module(x), rtol=1e-2, atol=1e-2)
    assert only(module[0], x, target=CPU).verdict == "supported"
    assert rows_of(module[0], x, target=CPU, float_dtype="f16")[0].verdict == "rejected"


def test_64_bit_integers_are_stored_in_32_bits() -> None:
    table = torch.tensor([[1], [-(2**31)]])
    program = Program(export(Function(lambda x: torch.maximum(x, table)), (torch.tensor([[5, 6]]),)))
    graph = build_graph(program, check_nodes(program, CPU).lowered)
    assert {t.dtype for t in graph.tensors.values()} == {"i32"}
    assert run(graph, [torch.tensor([[-5, 6]])])[0].tolist() == [[1, 6], [-5, 6]]
    large = Program(export(Function(lambda x: torch.maximum(x, table - 1)), (torch.tensor([[5, 6]]),)))
    (row,) = check_nodes(large, CPU).rows
    assert row.verdict == "rejected" and str(-(2**31) - 1) in row.reasons[0]["message"]


def test_outputs_may_be_inputs_or_constants() -> None:
    program = Program(export(Function(lambda x: (x.clone(), torch.relu(x))), (r(3),)))
    graph = build_graph(program, check_nodes(program, CPU).lowered)
    x = torch.tensor([-1.0, 0.0, 2.0])
    assert [t.tolist() for t in run(graph, [x])] == [[-1.0, 0.0, 2.0], [0.0, 0.0, 2.0]]
    constant = Program(export(Function(lambda x: (torch.relu(x), torch.ones(2))), (r(3),)))
    graph = build_graph(constant, check_nodes(constant, CPU).lowered)
    assert [t.tolist() for t in run(graph, [x])] == [[0.0, 0.0, 2.0], [1.0, 1.0]]


def test_a_graph_with_a_rejected_node_is_refused_with_the_reason() -> None:
    program = Program(export(Function(torch.digamma), (r(3),)))
    with pytest.raises(
        OpdbError,
        match=r"the node digamma \(aten.digamma.default\) cannot be a QNN op: QNN has no op for aten.digamma",
    ):
        build_graph(program, check_nodes(program, CPU).lowered)


def test_a_mutated_buffer_is_an_input_and_an_output() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            self.count.add_(1)
            return x + self.count

    program = Program(export(Counter(), (r(3),)))
    before, after = program.states["count"]
    assert (program.inputs[-1], program.outputs[-1]) == (before, after) and len(program.inputs) == 2
    graph = build_graph(program, check_nodes(program, CPU).lowered)
    assert [t.tolist() for t in run(graph, [torch.ones(3), torch.full((1,), 5.0)])] == [[7, 7, 7], [6]]
    with pytest.raises(OpdbError, match="changes the buffer 'count', which a plan does not keep"):
        partition(program, CPU)


def test_a_rejected_node_lists_its_nearest_form() -> None:
    row = only(torch.relu, r(2, 3).half())
    assert row.verdict == "rejected"
    (near,) = row.nearest
    assert (near["form"], near["op"]) == ("Relu", "Relu")
    assert near["text"] == "x f32 instead of f16, y f32 instead of f16"
    assert [c["path"] for c in near["changes"]] == ["inputs[0].dtype", "outputs[0].dtype"]
    assert only(torch.relu, r(2, 3)).nearest == ()


def test_a_form_refused_by_its_guard_has_no_nearest() -> None:
    assert only(lambda a, b: torch.add(a, b, alpha=2), r(3), r(3)).nearest == ()


def test_1500_nodes_take_less_than_a_second() -> None:
    """CPU time; no two layers are alike, so no verdict is reused in a run."""

    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linears = nn.ModuleList(nn.Linear(16 + i, 17 + i) for i in range(150))
            self.norms = nn.ModuleList(nn.LayerNorm(17 + i) for i in range(150))

        def forward(self, x: Tensor) -> Tensor:
            for linear, norm in zip(self.linears, self.norms, strict=True):
                y = norm(linear(x))
                gate = torch.sigmoid(y) * torch.tanh(y)
                x = torch.softmax(torch.relu(gate + y), -1) * y.mean(-1, keepdim=True) - gate
            return x

    program = Program(export(Deep(), (r(2, 16),)))
    took = []
    for _ in range(3):
        violations.cache_clear()
        start = time.process_time()
        coverage = check_nodes(program, HTP)
        took.append(time.process_time() - start)
    assert len(coverage.rows) == 1650 and coverage.complete
    assert min(took) < 1
