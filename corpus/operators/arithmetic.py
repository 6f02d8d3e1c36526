"""Cases of reductions, comparisons, and chains of elementary functions."""

from __future__ import annotations

import torch
from modules import IMAGE, Case, X, aten, f
from torch import nn
from torch.nn import functional

NUMBERS = torch.tensor([[7, -7, 3, 0], [2, 5, -9, 4]])
SPARSE = torch.tensor([[0.0, 0.0, 0.0], [0.0, -0.5, 2.0], [1.0, 3.0, -4.0]])
FLAGS = SPARSE != 0
TIES = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 1.0]])


def less_and_clip(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Aliases of lt, clamp and mul, which PyTorch exports under the names called."""
    return torch.where(torch.less(x, y), torch.clip(x, 0, 1), torch.multiply(x, y))


class Lstm(nn.Module):
    """An LSTM.  No spec maps lstm.input: it is exported whole and read after PyTorch's decomposition."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 6, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.lstm(x)[0]
        return found


REDUCTIONS = (
    Case("var", f(lambda x: x.var((0, -1))), (IMAGE,)),
    Case("var_of_all", f(lambda x: torch.var(x)), (X,)),
    Case("var_correction", f(lambda x: torch.var(x, 1, correction=0, keepdim=True)), (X,)),
    Case("var_correction_of_two", f(lambda x: torch.var(x, (1, 2), correction=2)), (X,)),
    Case("var_of_one", f(lambda x: torch.var(x, 1)), ((3, 1),), ()),
    Case("var_unbiased", f(lambda x: aten.var.dim(x, [1], True, True)), (X,)),
    Case("var_biased", f(lambda x: aten.var.dim(x, [-1, 0], False)), (X,)),
    Case("var_default", f(lambda x: aten.var.default(x, False)), (X,)),
    Case("std", f(lambda x: x.std(-1)), (X,)),
    Case("std_of_all", f(lambda x: aten.std.correction(x)), (X,)),
    Case("std_dim", f(lambda x: aten.std.dim(x, [0, 1], True, True)), (X,)),
    Case("std_default", f(lambda x: aten.std.default(x)), (X,)),
    Case("var_mean", f(lambda x: aten.var_mean.correction(x, [1], correction=0.5, keepdim=True)), (X,)),
    Case("var_mean_dim", f(lambda x: aten.var_mean.dim(x, [2], False)), (X,)),
    Case("var_mean_default", f(lambda x: aten.var_mean.default(x)), (X,)),
    Case("std_mean", f(lambda x: aten.std_mean.correction(x, None)), (X,)),
    Case("std_mean_dim", f(lambda x: aten.std_mean.dim(x, [-2])), (X,)),
    Case("std_mean_default", f(lambda x: aten.std_mean.default(x, False)), (X,)),
    Case("max_value", f(lambda x: torch.max(x, -2)[0]), (X,)),
    Case("max_and_place", f(lambda x: torch.max(x, 1)), (X,)),
    Case("max_and_place_kept", f(lambda x: torch.max(x, 0, keepdim=True)), (X,)),
    Case("max_of_equal", f(lambda x: torch.max(x, 1)), (TIES,)),
    Case("min_value", f(lambda x: torch.min(x, 0, keepdim=True)[0]), (X,)),
    Case("min_and_place", f(lambda x: torch.min(x, -1)), (X,)),
    Case("min_of_equal", f(lambda x: torch.min(x, 0)), (TIES,)),
    Case("max_of_all", f(torch.max), (X,)),
    Case("min_of_all", f(torch.min), (X,)),
    *(
        Case(f"{name}_{of}{how}", f(lambda x, call=call: call(x)), (x,))
        for name, at in (("any", torch.any), ("all", torch.all))
        for of, x in (("numbers", SPARSE), ("whole_numbers", SPARSE.int()), ("truths", FLAGS))
        for how, call in (
            ("", at),
            ("_dim", lambda x, at=at: at(x, 1)),
            ("_dim_kept", lambda x, at=at: at(x, -2, keepdim=True)),
            ("_dims", lambda x, at=at: at(x, (0, 1))),
            ("_no_dims", lambda x, at=at: getattr(aten, at.__name__).dims(x, None, True)),
        )
    ),
    Case("sum_default", f(torch.sum), (X,)),
    Case("sum_no_dims", f(lambda x: x.sum([])), (X,)),
    Case("sum_as_it_is", f(lambda x: x.sum(0, dtype=torch.float32)), (X,)),
    Case("sum_converted", f(lambda x: x.sum(0, dtype=torch.float16)), (X,), ()),
    Case("sum_of_dims_backwards", f(lambda x: x.sum((2, 1))), (torch.randn(2, 3, 4),)),
    Case(
        "norm_of_dims_backwards", f(lambda x: torch.linalg.vector_norm(x, dim=(1, 0))), (torch.randn(3, 4),)
    ),
    Case(
        "product_by_einsum",
        f(lambda x, y: torch.einsum("ij,kj->ik", x, y)),
        (torch.randn(4, 3), torch.randn(5, 3)),
    ),
    Case("sum_of_ints", f(lambda x: x.sum(1)), (NUMBERS,)),
    Case("sum_of_truths", f(lambda x: x.sum()), (FLAGS,)),
    Case("sum_of_truths_dim", f(lambda x: x.sum(-1, keepdim=True)), (FLAGS,)),
    Case("mean_as_it_is", f(lambda x: x.mean(1, dtype=torch.float32)), (X,)),
    Case("logsumexp", f(lambda x: torch.logsumexp(x, 1)), (X,)),
    Case("logsumexp_kept", f(lambda x: torch.logsumexp(x * 9 - 4, (0, -1), keepdim=True)), (X,)),
    Case(
        "logsumexp_of_nothing", f(lambda x: torch.logsumexp(x.masked_fill(x <= 0, -torch.inf), 1)), (SPARSE,)
    ),
    Case("argmax_first", f(lambda x: torch.argmax(x, 0)), (X,)),
    Case("argmin_middle", f(lambda x: torch.argmin(x, 2, keepdim=True)), (IMAGE,)),
    Case("argmax_of_equal", f(lambda x: torch.argmax(x, 1)), (TIES,)),
    Case("argmax_of_ints", f(lambda x: torch.argmax(x, 1)), (NUMBERS,)),
    Case("amax_of_ints", f(lambda x: torch.amax(x, 1)), (NUMBERS,), ()),
    Case("cumsum_first", f(lambda x: torch.cumsum(x, 0)), (NUMBERS,)),
    Case("norm_2", f(lambda x: torch.linalg.vector_norm(x)), (X,)),
    Case("norm_2_dim", f(lambda x: torch.linalg.vector_norm(x, dim=1, keepdim=True)), (X,)),
    Case("norm_1", f(lambda x: torch.linalg.vector_norm(x, 1, dim=(0, 2))), (X,)),
    Case("norm_largest", f(lambda x: torch.linalg.vector_norm(x, torch.inf, dim=-1)), (X,)),
    Case("norm_3", f(lambda x: torch.linalg.vector_norm(x, 3)), (X,), ()),
    Case("norm_of_dim", f(lambda x: aten.norm.ScalarOpt_dim(x, None, [1])), (X,)),
    Case("norm_1_of_dim", f(lambda x: aten.norm.ScalarOpt_dim(x, 1, [1], True)), (X,)),
    Case("norm_largest_of_dim", f(lambda x: aten.norm.ScalarOpt_dim(x, torch.inf, [])), (X,)),
    Case("norm_of_all", f(lambda x: aten.norm.Scalar(x, 2)), (X,)),
    Case("normalize", f(lambda x: torch.nn.functional.normalize(x, dim=1)), (X,)),
)

A = torch.tensor([[7.0, -7.0, 5.5, -5.5], [6.0, -6.0, 0.0, 1.0]])
B = torch.tensor([[2.0, 2.0, -2.0, -2.0], [3.0, -3.0, 4.0, -0.5]])
DIVIDENDS = torch.tensor([[7, -7, 7, -7, 6], [-6, 0, 1, 100, -99]])
DIVISORS = torch.tensor([[2, 2, -2, -2, 3], [3, 5, -4, 7, 10]])
INSIDE = torch.tensor([[0.03, 0.25, 0.5], [0.6, 0.9, 0.97]])
CORNERS = (
    torch.tensor([[0.0, 0.0, 1.0, -1.0, 2.0, -3.0], [1e-3, 5.0, -4.0, 2.0, -2.0, 0.5]]),
    torch.tensor([[0.0, -1.0, 0.0, 0.0, 2.0, -1.0], [-3.0, 0.1, -0.2, -2.0, 2.0, 0.0]]),
)
WIDE = torch.linspace(-6, 6, 49).reshape(7, 7)
ROWS = (2, 3, 5, 8)
FIVE = (2, 2, 3, 6, 4)


def pair(name: str, *inputs: object, backends: tuple[str, ...] = ("CPU", "HTP")) -> Case:
    """A case that calls a torch function by name."""
    return Case(f"{name}_of_{len(inputs)}", f(getattr(torch, name)), inputs, backends)


def rounded(name: str, mode: str | None, a: object, b: object, *backends: str) -> Case:
    return Case(name, f(lambda x, y: torch.div(x, y, rounding_mode=mode)), (a, b), backends or ("CPU", "HTP"))


def by_number(name: str, mode: str | None, number: float, a: object, *backends: str) -> Case:
    call = f(lambda x: aten.div.Scalar_mode(x, number, rounding_mode=mode))
    return Case(name, call, (a,), backends or ("CPU", "HTP"))


NUMBERS_AND_TENSORS = (
    Case("rsub", f(lambda x: 1 - x), (X,)),
    Case("rsub_scaled", f(lambda x: torch.rsub(x, 2.5, alpha=3)), (X,)),
    Case("rsub_tensor", f(lambda x, y: aten.rsub.Tensor(x, y)), (X, (4,))),
    Case("rsub_tensor_scaled", f(lambda x, y: aten.rsub.Tensor(x, y, alpha=0.5)), (X, (4,))),
    Case("add_scaled", f(lambda x, y: torch.add(x, y, alpha=-2.5)), (X, (4,))),
    Case("add_scaled_ints", f(lambda x, y: torch.add(x, y, alpha=3)), (NUMBERS, NUMBERS[:1])),
    Case("sub_scaled", f(lambda x, y: torch.sub(x, y, alpha=0.5)), (X, (3, 1))),
    *(
        Case(f"{t}_int", f(lambda x, t=t: getattr(aten, t).Scalar(x, 3)), (NUMBERS,))
        for t in ("add", "sub", "mul", "rsub", "eq", "ne", "gt", "ge", "lt", "le")
    ),
    *(
        Case(f"{t}_ints", f(lambda x, y, t=t: getattr(torch, t)(x, y)), (NUMBERS, NUMBERS[:1] - 1))
        for t in ("add", "sub", "mul", "eq", "ne", "gt", "ge", "lt", "le")
    ),
    Case("eq_fraction", f(lambda x: aten.gt.Scalar(x, 2.5)), (NUMBERS,)),
    Case("mul_fraction", f(lambda x: aten.mul.Scalar(x, 2.5)), (NUMBERS,)),
    Case("div_ints", f(torch.div), (DIVIDENDS, DIVISORS)),
    *(
        Case(f"{t}_{i}", f(lambda x, t=t: getattr(aten, t).Scalar(x, True)), (FLAGS,))
        for i, t in enumerate(("bitwise_and", "bitwise_or", "bitwise_xor"))
    ),
    Case("bitwise_and_number", f(lambda x: x & 6), (NUMBERS,), ()),
    Case("bitwise_not_ints", f(torch.bitwise_not), (NUMBERS,)),
    *(pair(t, SPARSE, SPARSE.T.contiguous()) for t in ("logical_and", "logical_or", "logical_xor")),
    pair("logical_not", SPARSE),
    Case("logical_not_ints", f(torch.logical_not), (NUMBERS,)),
    Case("truth_product", f(lambda x, y: x * y), (FLAGS, FLAGS.T.contiguous())),
    Case("isfinite", f(torch.isfinite), (X,)),
    Case("less_and_clip", f(less_and_clip), (X, X)),
    Case("lstm_steps", Lstm, ((1, 5, 8),)),
    Case("logical_and_mixed", f(torch.logical_and), (SPARSE, FLAGS), ()),
    rounded("div_plain", None, A, B),
    rounded("div_floor_exact", "floor", A, B),
    rounded("div_floor_row", "floor", A, B[:1]),
    rounded("div_trunc", "trunc", A, B),
    Case("floor_divide_number", f(lambda x: x // 2.0), (A,)),
    rounded("div_floor_ints", "floor", DIVIDENDS, DIVISORS),
    rounded("div_trunc_ints", "trunc", DIVIDENDS, DIVISORS),
    by_number("div_number_plain", None, 2.0, A),
    by_number("div_number_floor", "floor", 2.0, A),
    by_number("div_number_trunc", "trunc", 2.0, A),
    by_number("div_number_floor_ints", "floor", -3, DIVIDENDS),
    by_number("div_number_trunc_ints", "trunc", -3, DIVIDENDS),
    Case("floor_divide_ints", f(torch.floor_divide), (DIVIDENDS, DIVISORS)),
    Case("fmod_exact", f(torch.fmod), (A, B), ("CPU",)),
    Case("fmod_number", f(lambda x: aten.fmod.Scalar(x, 1.5)), (X,), ("CPU",)),
    Case("fmod_ints", f(torch.fmod), (DIVIDENDS, DIVISORS)),
    Case("fmod_ints_number", f(lambda x: aten.fmod.Scalar(x, -3)), (DIVIDENDS,)),
    Case("remainder_exact", f(torch.remainder), (A, B), ("CPU",)),
    Case("remainder_number", f(lambda x: aten.remainder.Scalar(x, 0.75)), (X,), ("CPU",)),
    Case("remainder_ints_number", f(lambda x: aten.remainder.Scalar(x, -3)), (DIVIDENDS,)),
    Case("clamp_low", f(lambda x: x.clamp(min=-0.25)), (X,)),
    Case("clamp_high", f(lambda x: x.clamp(max=0.5)), (X,)),
    Case("clamp_crossed", f(lambda x: x.clamp(0.5, -0.5)), (X,)),
    Case("clamp_ints", f(lambda x: x.clamp(-3, 4)), (NUMBERS,)),
    Case("clamp_fractions", f(lambda x: x.clamp(-3, 4.5)), (NUMBERS,)),
    Case("clamp_min", f(lambda x: aten.clamp_min.default(x, 0.1)), (X,)),
    Case("clamp_max", f(lambda x: aten.clamp_max.default(x, 0.1)), (X,)),
    Case("clamp_min_tensor", f(lambda x, y: aten.clamp_min.Tensor(x, y)), (X, (4,))),
    Case("clamp_max_tensor", f(lambda x, y: aten.clamp_max.Tensor(x, y)), (X, (3, 1))),
    Case("clamp_low_tensor", f(lambda x, y: torch.clamp(x, min=y)), (X, (4,))),
    Case("clamp_high_tensor", f(lambda x, y: torch.clamp(x, max=y)), (X, (4,))),
    Case("where_other", f(lambda c, x: aten.where.ScalarOther(c, x, 0.5)), (FLAGS, (3, 3))),
    Case("where_self", f(lambda c, x: aten.where.ScalarSelf(c, -1.5, x)), (FLAGS, (3, 3))),
    Case("where_two_numbers", f(lambda c: aten.where.Scalar(c, 1.5, -2.0)), (FLAGS,)),
    Case("where_whole_numbers", f(lambda c: aten.where.Scalar(c, 1, -2)), (FLAGS,)),
    Case("where_ints", f(lambda c, x: torch.where(c, x, 7)), (FLAGS[:2, :1], NUMBERS)),
    Case("where_other_ints", f(lambda c, x: torch.where(c, x, 7)), (NUMBERS > 2, NUMBERS)),
    Case("where_rows", f(torch.where), (FLAGS[:2, :1], NUMBERS, NUMBERS[:1] * 3)),
    Case("masked_fill_ints", f(lambda x, c: x.masked_fill(c, -8)), (NUMBERS, NUMBERS > 2)),
    Case("masked_fill_row", f(lambda x, c: x.masked_fill(c, -8.0)), ((2, 3, 3), FLAGS)),
    Case(
        "masked_fill_row_tensor", f(lambda x, c, v: x.masked_fill(c, v)), ((3, 3), FLAGS, torch.tensor(0.5))
    ),
)
ELEMENTARY = (
    Case("square", f(torch.square), (X,)),
    Case("exp2", f(torch.exp2), (X,)),
    Case("round_no_decimals", f(lambda x: torch.round(x, decimals=0)), (WIDE,)),
    Case("round_decimals", f(lambda x: torch.round(x, decimals=1)), (WIDE,), ()),
    Case("frac", f(torch.frac), (WIDE,)),
    Case("silu", nn.SiLU, (WIDE,)),
    Case("log_sigmoid", nn.LogSigmoid, (WIDE * 3,)),
    Case("gelu_tanh", lambda: nn.GELU("tanh"), (WIDE,), apart=5e-4),
    Case("softplus_wide", nn.Softplus, (WIDE,)),
    Case(
        "softplus_of_many_rows", f(lambda x: functional.softplus(x.clamp(-5, 5), 0.7, 1.0)), ((2, 17, 3, 2),)
    ),
    Case("mish", nn.Mish, (WIDE,)),
    Case("elu_scaled", f(lambda x: aten.elu.default(x, 1.5, 0.7, 0.5)), (WIDE,)),
    Case("selu", nn.SELU, (WIDE,)),
    Case("celu", lambda: nn.CELU(0.7), (WIDE,)),
    Case("softshrink", lambda: nn.Softshrink(0.7), (WIDE,)),
    Case("hardshrink", lambda: nn.Hardshrink(0.75), (WIDE,)),
    Case("threshold", lambda: nn.Threshold(0.25, -3.0), (WIDE,)),
    Case("threshold_ints", f(lambda x: functional.threshold(x, 2, -1)), (NUMBERS,)),
    Case("glu", lambda: nn.GLU(1), ((2, 6, 5),)),
    Case("glu_last", lambda: nn.GLU(), ((2, 6),)),
    Case("prelu", lambda: nn.PReLU(4), (IMAGE,)),
    Case("prelu_one", nn.PReLU, (X,)),
    Case("prelu_line", nn.PReLU, ((7,),)),
    Case("prelu_kernel", f(lambda x, w: aten._prelu_kernel.default(x, w)), ((2, 3), (1, 3))),
    Case("logit", f(torch.logit), (INSIDE,)),
    Case("logit_limited", f(lambda x: torch.logit(x, 0.1)), (INSIDE,)),
    Case("xlogy", f(torch.xlogy), (SPARSE[1:], INSIDE)),
    Case("xlogy_of_zero", f(torch.xlogy), (SPARSE[:2], torch.tensor([0.0, 2.0, 0.5]))),
    Case("sinc", f(torch.sinc), (WIDE,)),
    Case("hypot", f(torch.hypot), CORNERS),
    Case("atan2", f(torch.atan2), CORNERS),
    Case("erf", f(torch.erf), (WIDE,)),
)
PRODUCTS = (
    Case("addcmul", f(lambda x, a, b: torch.addcmul(x, a, b, value=0.5)), (X, (3, 4), (2, 1, 4))),
    Case("addcdiv", f(lambda x, a, b: torch.addcdiv(x, a, b, value=-2)), (X, X, torch.rand(3, 4) + 0.5)),
    Case("lerp", f(lambda x, y: torch.lerp(x, y, 0.3)), (X, X)),
    Case("lerp_shares", f(torch.lerp), (X, X, torch.rand(4))),
    Case(
        "addmm_scaled", f(lambda b, x, w: torch.addmm(b, x, w, beta=0.5, alpha=2)), ((3, 5), (3, 4), (4, 5))
    ),
    Case("addmm_matrix", f(torch.addmm), ((3, 5), (3, 4), (4, 5))),
    Case("addmm_row", f(lambda b, x, w: torch.addmm(b, x, w, beta=3)), ((5,), (3, 4), (4, 5))),
    Case("addmm_unread", f(lambda b, x, w: torch.addmm(b, x, w, beta=0)), ((5,), (3, 4), (4, 5)), ()),
    Case(
        "baddbmm",
        f(lambda b, x, w: torch.baddbmm(b, x, w, alpha=0.25)),
        ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
    ),
    Case("mv", f(torch.mv), ((3, 4), (4,))),
    Case("dot", f(torch.dot), ((6,), (6,))),
    Case("outer", f(torch.outer), ((3,), (4,))),
    Case("matmul_vector", f(torch.matmul), ((2, 3, 4), (4,))),
    Case("matmul_of_vector", f(torch.matmul), ((3,), (2, 3, 4))),
    Case("matmul_five_by_matrix", f(torch.matmul), (FIVE, (4, 3))),
    Case("matmul_five_by_three", f(torch.matmul), (FIVE, (3, 4, 5))),
    Case("matmul_by_five", f(torch.matmul), ((5, 6), FIVE)),
    Case("matmul_five_of_one", f(torch.matmul), (FIVE, (1, 1, 3, 4, 5))),
    Case("matmul_five_joined", f(torch.matmul), (FIVE, (1, 2, 3, 4, 5))),
    Case("matmul_five_alike", f(torch.matmul), (FIVE, (2, 1, 3, 4, 5))),
    Case("cdist", f(torch.cdist), ((2, 3, 4), (2, 5, 4))),
    Case("cdist_1", f(lambda x, y: torch.cdist(x, y, 1.0)), ((3, 4), (5, 4))),
    Case("cdist_forward", f(lambda x, y: aten._cdist_forward.default(x, y, 2.0, None)), ((3, 4), (5, 4))),
    Case("cdist_3", f(lambda x, y: torch.cdist(x, y, 3.0)), ((3, 4), (5, 4)), ()),
    Case("attention_plain", f(functional.scaled_dot_product_attention), (ROWS, ROWS, ROWS)),
    Case(
        "attention_scaled",
        f(lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, scale=0.5)),
        ((2, 4, 8), (2, 6, 8), (2, 6, 3)),
    ),
    Case(
        "attention_causal",
        f(lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True)),
        (ROWS, ROWS, ROWS),
    ),
    Case(
        "attention_causal_oblong",
        f(lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True)),
        ((2, 4, 8), (2, 6, 8), (2, 6, 8)),
    ),
    Case(
        "attention_biased",
        f(functional.scaled_dot_product_attention),
        (ROWS, ROWS, ROWS, (1, 1, 5, 5)),
    ),
    Case(
        "attention_masked",
        f(functional.scaled_dot_product_attention),
        (
            ROWS,
            ROWS,
            ROWS,
            torch.tensor([[False] * 5, [True] * 5, [False, True] * 2 + [False]]).repeat(2, 1)[:5],
        ),
    ),
    Case(
        "attention_grouped",
        f(lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)),
        ((2, 4, 5, 8), (2, 2, 5, 8), (2, 2, 5, 8)),
        (),
    ),
)
ARITHMETIC_CASES = (*REDUCTIONS, *NUMBERS_AND_TENSORS, *ELEMENTARY, *PRODUCTS)
