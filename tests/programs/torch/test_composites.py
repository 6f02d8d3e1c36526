"""Reading programs: PyTorch composites that no spec maps, and calls that mutate their arguments."""

import pytest

torch = pytest.importorskip("torch")

from torch.export import ExportedProgram  # noqa: E402

from opdb.catalog.targets.target import Target  # noqa: E402
from opdb.checks.verdicts import check_program  # noqa: E402
from opdb.programs.torch.composites import plain  # noqa: E402

pytestmark = pytest.mark.torch


class Less(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.less(x.relu_(), 1.0)


def targets(program: ExportedProgram) -> set[str]:
    return {str(n.target) for n in program.graph.nodes if n.op == "call_function"}


def test_an_unmapped_composite_is_decomposed_by_pytorch() -> None:
    program = torch.export.export(Less(), (torch.randn(2, 3),))
    assert "aten.less.Scalar" in targets(program)
    assert {"aten.lt.Scalar", "aten.relu.default"} <= targets(plain(program, ()))
    assert "aten.less.Scalar" in targets(plain(program, {"aten.less.Scalar"}))


def test_a_failing_decomposition_keeps_the_composite(monkeypatch: pytest.MonkeyPatch) -> None:
    program = torch.export.export(Less(), (torch.randn(2, 3),))
    stock = ExportedProgram.run_decompositions

    def run(self: ExportedProgram, table: dict[object, object]) -> ExportedProgram:
        if table:
            raise RuntimeError("not here")
        return stock(self, table)

    monkeypatch.setattr(ExportedProgram, "run_decompositions", run)
    assert {"aten.less.Scalar", "aten.relu.default"} <= targets(plain(program, ()))


class Product(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.einsum("ij,kj->ik", x, y)


def test_moves_of_dimensions_of_size_1_become_one_view() -> None:
    """The matrix of einsum is multiplied directly, the other one is transposed once; PyTorch has ten moves."""
    inputs = torch.randn(4, 3), torch.randn(5, 3)
    program = plain(torch.export.export(Product(), inputs), ())
    called = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert sorted(called) == sorted(["aten.view.default"] * 4 + ["aten.permute.default", "aten.bmm.default"])
    torch.testing.assert_close(program.module()(*inputs), inputs[0] @ inputs[1].t())


def test_unsafe_split_is_read_as_split() -> None:
    """torch.nn.GRUCell calls unsafe_split, which is split except for PyTorch's autograd."""
    program = torch.export.export(torch.nn.GRUCell(8, 16).eval(), (torch.randn(1, 8), torch.randn(1, 16)))
    made = targets(plain(program, ()))
    assert "aten.split.Tensor" in made and "aten.unsafe_split.Tensor" not in made


def test_a_condition_on_data_is_a_row_with_a_fix() -> None:
    class Either(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, torch.relu, torch.neg, (x,))

    rows = check_program(torch.export.export(Either(), (torch.randn(2, 8),)), Target("HTP", "SM8650")).rows
    (row,) = [r for r in rows if r.verdict == "host"]
    assert row.target == "cond"
    assert "compute both branches and choose with torch.where" in row.reasons[0]["message"]
