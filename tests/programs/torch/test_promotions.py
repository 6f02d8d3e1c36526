"""PyTorch's implicit promotions become explicit conversions, and QNN computes PyTorch's numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from opdb.catalog.targets.target import Target
from opdb.checks.verdicts import check_program
from opdb.execute.compile.model import lowered
from opdb.execute.libraries.client import VendorWorker
from opdb.programs.torch.composites import plain
from opdb.programs.torch.export import export
from opdb.programs.torch.targets import READ_WITHOUT_SPEC

pytestmark = pytest.mark.torch
HTP = Target("HTP", "SM8650", execution="emulator")
Function = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
#: x: floats; n: int32; m: truth values; u: uint8.
MIXED: dict[str, Function] = {
    "mul": lambda x, n, m, u: x * n,
    "mul of a mask": lambda x, n, m, u: x * m + m * n,
    "mul of a fraction": lambda x, n, m, u: n * 0.5 + x,
    "mul of truths and a number": lambda x, n, m, u: m * 3 + n,
    "add with a factor": lambda x, n, m, u: x.add(n, alpha=2),
    "add of a whole number": lambda x, n, m, u: (x + torch.tensor(3)) * torch.tensor(2),
    "sub": lambda x, n, m, u: 2 * m - x,
    "div of whole numbers": lambda x, n, m, u: n / 4 + u / 255.0,
    "div, cut": lambda x, n, m, u: x.div(n + 1, rounding_mode="floor"),
    "pow": lambda x, n, m, u: torch.pow(x.abs(), n.clamp(0, 2)),
    "maximum": lambda x, n, m, u: torch.maximum(x, n),
    "clamp": lambda x, n, m, u: x.clamp(min=n) - n.clamp(0.5),
    "where": lambda x, n, m, u: torch.where(m, x, n),
    "where, of numbers": lambda x, n, m, u: torch.where(m, n, 0.5) + torch.where(m, 1.5, n),
    "where a mask is both": lambda x, n, m, u: torch.where(m, m, x),
    "cat": lambda x, n, m, u: torch.cat([x, n.expand(2, 16), m, u]),
    "stack": lambda x, n, m, u: torch.stack([m, x, n.expand(2, 16)]),
    "gt": lambda x, n, m, u: x > n,
    "gt a fraction": lambda x, n, m, u: n > 2.5,
    "eq": lambda x, n, m, u: x == n,
    "eq of truths": lambda x, n, m, u: m == (n > 3).to(torch.int32),
    "lt of uint8": lambda x, n, m, u: u < 100,
    "sqrt": lambda x, n, m, u: torch.sqrt(n) + torch.exp(m),
    "addcmul": lambda x, n, m, u: torch.addcmul(x, n, n),
}


def given() -> tuple[Tensor, ...]:
    """Integers and halves of integers, which are exact in fp16."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(-9, 9, (2, 16), generator=draw) / 2
    n = torch.arange(16, dtype=torch.int32)[None]
    return (
        x,
        n,
        torch.rand(2, 16, generator=draw) > 0.5,
        torch.randint(0, 256, (2, 16), generator=draw).to(torch.uint8),
    )


class Of(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, n: Tensor, m: Tensor, u: Tensor) -> Tensor:
        return self.function(x, n, m, u)


@pytest.fixture(scope="module")
def vendor() -> Iterator[VendorWorker]:
    with VendorWorker("HTP", HTP.soc) as worker:
        yield worker


@pytest.mark.vendor
@pytest.mark.parametrize("what", MIXED)
def test_promotions_on_htp_match_pytorch(what: str, vendor: VendorWorker) -> None:
    model, inputs = Of(MIXED[what]), given()
    expected = model(*inputs)
    coverage, graph = lowered(export(model, inputs), HTP, "graph")
    assert graph is not None, coverage.rows
    given_as = dict(zip("xnmu", inputs, strict=True))
    result = vendor.run(graph, {t.name: given_as[t.name].numpy() for t in graph.inputs})
    assert result.stage == "done", (result.node, result.log[-5:])
    (end,) = graph.outputs
    found = torch.from_numpy(result.outputs[end.name].copy()).to(expected.dtype)
    torch.testing.assert_close(found, expected, rtol=5e-3, atol=2e-3)


@pytest.mark.parametrize("what", MIXED)
def test_the_rewritten_program_matches_the_model(what: str) -> None:
    model, inputs = Of(MIXED[what]), given()
    program = export(model, inputs)
    names = [n.name for n in program.graph.nodes]
    found = plain(program, READ_WITHOUT_SPEC).module()(*inputs)
    assert [n.name for n in program.graph.nodes] == names  # the given program is unchanged
    assert found.dtype == model(*inputs).dtype
    torch.testing.assert_close(found, model(*inputs), rtol=0, atol=0)


def test_a_conversion_is_shared_and_has_the_line_of_its_reader() -> None:
    program = export(Of(lambda x, n, m, u: (x * n) * (x > n)), given())
    rows = check_program(program, HTP).rows
    assert [(r.node, r.form) for r in rows][:2] == [("n_as_float32", "Cast"), ("mul", "ElementWiseBinary")]
    assert [r.node for r in rows[2:]] == ["gt", "gt_as_float32", "mul_1"]
    assert rows[0].line.startswith("test_promotions.py:")


def test_int32_and_int64_count_as_one_type() -> None:
    program = export(Of(lambda x, n, m, u: n * torch.arange(16)), given())
    assert [r.node for r in check_program(program, HTP).rows] == ["mul"]
