"""`opdb check` warns of values that do not fit fp16, exactly where HTP's results are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  as everybody calls it
from torch import Tensor

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Coverage
from opdb.checks.verdicts import check_program
from opdb.execute.compile.model import lowered
from opdb.programs.torch.export import export
from opdb.runtime.qnn.backend import Backend

#: The target that `opdb compile` uses: a device.
HTP = Target("HTP", "SM8650")
#: Bound relative to the largest result; fp16 rounds to 5e-4, and an op or two lose some more.
BOUND = 1e-2
Function = Callable[[Tensor], Tensor]


class Of(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def outliers() -> Tensor:
    """Activations like a transformer's: a few of 800 among many of 60."""
    x = torch.randn(1, 12, 64, generator=torch.Generator().manual_seed(0)) * 60
    x[:, ::3, 7] = 800.0
    return x


def rms(x: Tensor) -> Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)


def rms_by_root(x: Tensor) -> Tensor:
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def layer_norm(x: Tensor) -> Tensor:
    d = x - x.mean(-1, keepdim=True)
    return d / torch.sqrt((d**2).mean(-1, keepdim=True) + 1e-5)


def layer_norm_by_var(x: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)


#: Right on HTP, without a warning: one op is made of them, or no number is out of reach.
RIGHT: dict[str, Function] = {
    "rms": rms,
    "rms_by_root": rms_by_root,
    "layer_norm": layer_norm,
    "layer_norm_by_var": layer_norm_by_var,
    "F.layer_norm": lambda x: F.layer_norm(x, (64,)),
    "F.normalize": lambda x: F.normalize(x, dim=-1),
    "F.local_response_norm": lambda x: F.local_response_norm(x, 5, 1e-4),
    "clamped_length": lambda x: x / x.norm(dim=-1, keepdim=True).clamp(min=1e-3),
    "squares_of_a_bounded_value": lambda x: torch.sigmoid(x) ** 2 + torch.clamp(x, -100, 100) ** 2,
    "epsilon_of_1e-3": lambda x: 1 / torch.sqrt(torch.relu(x) + 1e-3),
}
#: Wrong on HTP, each with the rule of the warning and a piece of it.
WRONG: dict[str, tuple[Function, str, str]] = {
    "norm": (lambda x: x.norm(dim=-1), "FP16.SQUARES", "layer_norm, rms_norm or normalize whole"),
    "var": (lambda x: x.var(-1, unbiased=False), "FP16.SQUARES", "overflow fp16 (65504) where |x| > 255"),
    "squares": (lambda x: x**2 + 1, "FP16.SQUARES", "divide before, and multiply after"),
    "large_factor": (lambda x: x * 1e5 + x, "FP16.OVERFLOW", "the constant 100000 is infinite in fp16"),
    "large_weight": (
        lambda x: x * torch.tensor([2.0, 1e5] * 32),
        "FP16.OVERFLOW",
        "holds 100000, which is infinite",
    ),
    "lost_epsilon": (
        lambda x: 1 / torch.sqrt(torch.relu(x) + 1e-9),
        "FP16.VANISHES",
        "1e-09 is 0 in fp16, whose least number is 6e-8",
    ),
    "rounded_epsilon": (
        lambda x: 1 / (torch.relu(x) + 1e-6),
        "FP16.VANISHES",
        "1e-06 is 1.01e-06 in fp16, 1.3% off",
    ),
}


def checked(function: Function, x: Tensor, target: Target = HTP, data: bool = False) -> Coverage:
    return check_program(export(Of(function), (x,)), target, samples=[(x.numpy(),)] if data else ())


def rules(coverage: Coverage) -> list[str]:
    return [
        w["rule"] for row in coverage.rows for w in row.warnings if w["rule"].startswith(("FP16", "INT32"))
    ]


@pytest.fixture(scope="module")
def htp(libraries: object) -> Iterator[Backend]:
    with Backend.open("HTP", HTP.soc) as backend:
        yield backend


def off(function: Function, x: Tensor, htp: Backend) -> float:
    """The largest error on HTP relative to the largest result."""
    graph = lowered(export(Of(function), (x,)), HTP, "graph")[1]
    assert graph is not None
    with htp.prepare(graph, "fp16") as prepared:
        (made,) = prepared.execute({graph.inputs[0].name: x.numpy()}).values()
    wanted = function(x)
    error = (torch.from_numpy(made).reshape(wanted.shape) - wanted).abs().max() / wanted.abs().max()
    return float(error.nan_to_num(torch.inf))


@pytest.mark.vendor
@pytest.mark.parametrize("name", RIGHT)
def test_no_warning_where_htp_is_right(name: str, htp: Backend) -> None:
    x = outliers()
    assert rules(checked(RIGHT[name], x)) == []
    assert off(RIGHT[name], x, htp) < BOUND


@pytest.mark.vendor
@pytest.mark.parametrize("name", WRONG)
def test_a_warning_where_htp_is_wrong(name: str, htp: Backend) -> None:
    function, rule, text = WRONG[name]
    x = outliers()
    coverage = checked(function, x)
    told = [w for row in coverage.rows for w in row.warnings if w["rule"] == rule]
    assert len(told) == 1 and text in told[0]["message"]
    assert coverage.complete and coverage.warnings == 1
    assert off(function, x, htp) > BOUND


def test_local_response_norm_with_an_even_window_is_warned_of() -> None:
    """Lrn has odd windows only, so the squares remain in fp16."""
    assert rules(checked(lambda x: F.local_response_norm(x, 4, 1e-4), outliers())) == ["FP16.SQUARES"]


def test_data_decide_if_bounds_are_inconclusive() -> None:
    small, large = outliers() / 100, outliers()
    assert rules(checked(lambda x: x.norm(dim=-1), small)) == ["FP16.SQUARES"]
    assert rules(checked(lambda x: x.norm(dim=-1), small, data=True)) == []
    (warning,) = [w for r in checked(lambda x: x.norm(dim=-1), large, data=True).rows for w in r.warnings]
    assert "x reaches 800 in the data" in warning["message"]
    grown = checked(lambda x: (x + 1) * (x - 1), large, data=True)
    assert rules(grown) == ["FP16.OVERFLOW"] and "reaches 6.4e+05 in the data" in str(grown.rows[-1].warnings)


def test_a_mask_does_not_count_as_overflow() -> None:
    def masked(x: Tensor) -> Tensor:
        mask = torch.full((12, 64), torch.finfo(torch.float32).min).triu(1)
        return torch.softmax(x + mask, -1)

    assert rules(checked(masked, outliers())) == []


def test_integers_beyond_32_bits_are_warned_of() -> None:
    x = torch.full((1, 8), 5000)
    (warning,) = [
        w for r in checked(lambda x: x * 2**20, x).rows for w in r.warnings if w["rule"] == "INT32.OVERFLOW"
    ]
    assert "numbers from 2048 on pass 2**31" in warning["message"]
    assert rules(checked(lambda x: x * 8 + 3, x)) == []


def test_a_float32_backend_has_no_range_warnings() -> None:
    assert rules(checked(lambda x: x**2 * 1e5, outliers(), Target("CPU"))) == []
