"""Cases of PyTorch modules: each function returns (module, inputs)."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812  as everybody calls it
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))  # for `opdb check corpus/field/field_pytorch.py:ones_like`

from field_case import case

Made = tuple[nn.Module, tuple[Tensor, ...]]
PTE = {"form": ".pte"}
LEFT = {"form": ".pte", "exit": 1}


def made(function: object, *inputs: Tensor) -> Made:
    class Of(nn.Module):
        def forward(self, *given: Tensor) -> Tensor:
            return function(*given)  # type: ignore[operator]

    return Of().eval(), inputs


def random(*shape: int, scale: float = 1.0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)) * scale


# P1: an input that is read for its shape alone.


@case("P1", **PTE)
def ones_like() -> Made:
    return made(lambda y, x: torch.ones_like(y) + x * 2, random(2, 8) + 10, random(2, 8))


@case("P1")
def zeros_like() -> Made:
    return made(lambda y, x: torch.cat([torch.zeros_like(y), x * 2], -1), random(2, 3), random(2, 8))


@case("P1")
def full_like_of_integers() -> Made:
    return made(lambda n, x: torch.full_like(n, 3.0, dtype=torch.float32) * x, torch.arange(8), random(2, 8))


@case("P1")
def shape_for_a_view() -> Made:
    return made(lambda y, x: torch.relu(x).view(y.shape[0], y.shape[1], -1), random(2, 4), random(8, 5))


@case("P1")
def first_input_unused() -> Made:
    return made(lambda y, x, z: torch.sigmoid(x) - z, random(3), random(2, 8), random(8))


@case("P1", **LEFT)
def read_in_a_later_graph() -> Made:
    """masked_scatter runs on the CPU, and the second graph reads only the shape of ``y``."""
    return made(
        lambda y, x: torch.ones_like(y) + F.gelu(torch.masked_scatter(x * 2, x > 0, -x.abs())),
        random(2, 8) + 10,
        random(2, 8),
    )


@case("P1")
def new_zeros() -> Made:
    return made(lambda y, x: y.new_zeros(2, 8) + torch.tanh(x), random(4), random(2, 8))


# P2: squares beyond 65504 in fp16.


def outliers() -> Tensor:
    x = random(1, 12, 64, scale=60)
    x[:, ::3, 7] = 800.0
    return x


@case("P2", said="overflow fp16", results=False)
def length() -> Made:
    return made(lambda x: x.norm(dim=-1), outliers())


@case("P2", said="overflow fp16", results=False)
def variance() -> Made:
    return made(lambda x: x.var(-1, unbiased=False), outliers())


@case("P2", said="overflow fp16", results=False)
def energy() -> Made:
    return made(lambda x: (x * x).sum(-1), outliers())


@case("P2", said="overflow fp16", results=False)
def distance() -> Made:
    return made(lambda x: (x[:, 1:] - x[:, :-1]).pow(2).mean(-1).sqrt(), outliers())


@case("P2")
def normalize() -> Made:
    return made(lambda x: F.normalize(x, dim=-1), outliers())


@case("P2")
def layer_norm_in_pieces() -> Made:
    def function(x: Tensor) -> Tensor:
        d = x - x.mean(-1, keepdim=True)
        return d / torch.sqrt(d.pow(2).mean(-1, keepdim=True) + 1e-5)

    return made(function, outliers())


@case("P2", execution="device")
def rms_norm_in_pieces() -> Made:
    return made(lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), outliers())


# P3: results of a graph that is cut by nodes on the CPU.  masked_scatter is the node that runs there.


def on_the_cpu(x: Tensor) -> Tensor:
    return torch.masked_scatter(x, x > 0, x.abs() + 1)


class Cut(nn.Module):
    """A module with a constant mask, which rounding cannot change: the values that it takes are in order."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mask", torch.arange(size) % 2 == 0)

    def forward(self, x: Tensor) -> Tensor:
        return torch.masked_scatter(x, self.mask, x.abs() + 1)


def _scan(u: Tensor, c: object) -> Tensor:
    z, x, d = torch.split(u * 1.5, [4, 12, 4], -1)
    p, b, e = torch.split(torch.sigmoid(x), [4, 4, 4], -1)
    a = torch.relu(d)
    return torch.relu(c(a) + c(torch.exp(a)) * c(b) + c(e) * c(z) + p * 2)  # type: ignore[operator]


@case("P3", **LEFT, said="CumulativeSum")
def selective_scan() -> Made:
    return made(lambda u: _scan(u, lambda t: torch.cumsum(t, -1)), random(1, 2, 2, 3, 20, scale=0.3))


@case("P3", **LEFT, said="QNN has no op for aten.masked_scatter.default")
def scan_with_six_cuts() -> Made:
    return made(lambda u: _scan(u, on_the_cpu), random(2, 3, 20, scale=0.3))


@case("P3", **LEFT, said="QNN has no op for aten.masked_scatter.default")
def results_in_another_order() -> Made:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        a = torch.relu(x)
        b = on_the_cpu(a)
        return b * 2, torch.exp(-a), b, a

    return made(function, random(4, 8))


@case("P3", **LEFT, said="QNN has no op for aten.masked_scatter.default")
def two_branches_that_meet() -> Made:
    return made(
        lambda x, y: on_the_cpu(x * 2) + torch.tanh(on_the_cpu(y - 1)) * x, random(4, 8), random(4, 8) * 2
    )


@case("P3", **LEFT, said="QNN has no op for aten.masked_scatter.default")
def a_branch_around_the_cut() -> Made:
    def function(x: Tensor) -> Tensor:
        left, right = torch.sigmoid(x).chunk(2, -1)
        return torch.cat([right * 2, on_the_cpu(left) + right], -1).relu()

    return made(function, random(4, 8))


@case("P3", **LEFT, said="QNN has no op for aten.masked_scatter.default")
def a_cut_at_the_end() -> Made:
    def function(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        y = x @ w
        return on_the_cpu(y), y.softmax(-1)

    return made(function, random(4, 8), random(8, 8))


# P4: a quantized program with nodes on the CPU runs.

QUANTIZED = ("--quantize", "8a8w", "--data", "example")
WIDE = ("--quantize", "16a8w", "--data", "example")


class Block(nn.Module):
    """A BERT encoder block."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)
        self.one, self.two = nn.LayerNorm(64), nn.LayerNorm(64)
        self.inner = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))

    def forward(self, x: Tensor) -> Tensor:
        x = self.one(x + self.attention(x, x, x, need_weights=False)[0])
        return self.two(x + self.inner(x))


@case("P4", form=".pte", options=("--soc", "SA8295"), compile_options=WIDE, exit=1, within=0.03)
def bert_block_on_v68() -> Made:
    torch.manual_seed(0)
    return Block().eval(), (random(1, 16, 64),)


@case("P4", **LEFT, compile_options=QUANTIZED, within=0.05)
def a_cut_of_8_bits() -> Made:
    return made(lambda x: torch.sigmoid(on_the_cpu(x * 2)), random(4, 8))


@case("P4", **LEFT, compile_options=WIDE, within=0.01)
def a_cut_of_16_bits() -> Made:
    return made(lambda x: torch.sigmoid(on_the_cpu(x * 2)), random(4, 8))


@case("P4", **LEFT, compile_options=QUANTIZED, within=0.08)
def a_cut_between_linear_layers() -> Made:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), Cut(32), nn.Linear(32, 8)).eval(), (random(4, 16),)


@case("P4", **LEFT, compile_options=QUANTIZED, within=0.08)
def a_cut_between_convolutions() -> Made:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), Cut(10), nn.Conv2d(8, 4, 1)).eval(), (random(1, 3, 12, 12),)


@case("P4", **LEFT, compile_options=QUANTIZED, within=0.05)
def a_cut_of_an_input() -> Made:
    return made(lambda x, y: torch.relu(on_the_cpu(x) + y), random(4, 8), random(4, 8))


# P5: programs that are exported already (`.pt2`).


@case("P5", form=".pt2.pte")
def linear() -> Made:
    torch.manual_seed(0)
    return nn.Linear(8, 4).eval(), (random(2, 8),)


@case("P5", form=".pt2.bin")
def convolution_and_batch_norm() -> Made:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval(), (random(1, 3, 8, 8),)


@case("P5", form=".pt2.bin", within=0.02)
def dropout() -> Made:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.GELU()).eval(), (random(2, 8),)


@case("P5", form=".pt2.pte", compile_options=QUANTIZED, within=0.03)
def quantized_by_compile() -> Made:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval(), (random(2, 8),)


@case("P5", form=".pt2.bin")
def two_results() -> Made:
    return made(lambda x: (x.softmax(-1), x.mean(0)), random(2, 8))


@case("P5", form=".pt2.bin", within=0.02)
def lstm() -> Made:
    torch.manual_seed(0)

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(8, 16, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.lstm(x)[0][:, -1]

    return Last().eval(), (random(1, 5, 8),)


# P6: buffers that forward changes, and control flow.


class Keeps(nn.Module):
    """Keeps a cache: ``step(cache, *inputs)`` returns the result and the cache's next value."""

    def __init__(self, step: object, cache: Tensor) -> None:
        super().__init__()
        self.step = step
        self.register_buffer("cache", cache)

    def forward(self, *given: Tensor) -> Tensor:
        result, cache = self.step(self.cache, *given)  # type: ignore[operator]
        self.cache.copy_(cache)
        return result


class Cache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(1, 2, 8, 4))

    def forward(self, key: Tensor, position: Tensor) -> Tensor:
        self.cache.index_copy_(2, position, key)
        return self.cache.sum(2)


@case("P6", steps=4)
def key_cache() -> Made:
    return Cache().eval(), (random(1, 2, 1, 4), torch.tensor([3]))


@case("P6", steps=4)
def ring_buffer() -> Made:
    def step(cache: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        cache = torch.cat([cache[:, 1:], x], 1)
        return cache.mean(1), cache

    return Keeps(step, torch.zeros(1, 4, 8)).eval(), (random(1, 1, 8),)


@case("P6", steps=4, within=0.02)
def hidden_state() -> Made:
    torch.manual_seed(0)
    cell = nn.GRUCell(8, 16)

    def step(cache: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        cache = cell(x, cache)
        return cache * 2, cache

    made = Keeps(step, torch.zeros(1, 16))
    made.cell = cell
    return made.eval(), (random(1, 8),)


@case("P6", steps=4)
def moving_average() -> Made:
    return Keeps(lambda m, x: (x - m, m * 0.9 + x * 0.1), torch.ones(4)).eval(), (random(4),)


@case("P6", steps=4)
def counter() -> Made:
    return Keeps(lambda n, x: (x + n, n + 1), torch.zeros(1)).eval(), (random(4),)


@case("P6", steps=4)
def rows_by_number() -> Made:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("rows", torch.zeros(8, 4))

        def forward(self, x: Tensor, number: Tensor) -> Tensor:
            self.rows[number] = x
            return self.rows * 2

    return Rows().eval(), (random(2, 4), torch.tensor([5, 2]))


@case("P6", exit=1, said="torch.where", results=False)
def condition() -> Made:
    return made(lambda x: torch.cond(x.sum() > 0, torch.relu, torch.neg, (x,)), random(2, 8))


@case("P6", exit=1, said="torch.where", results=False)
def condition_in_the_middle() -> Made:
    return made(
        lambda x: torch.tanh(torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t - 1, (x.exp(),))),
        random(2, 8),
    )


@case("P6", exit=1, said="while_loop", results=False)
def loop() -> Made:
    from torch._higher_order_ops.while_loop import while_loop

    return made(
        lambda x: while_loop(lambda t: t.sum() < 100, lambda t: (t * 2,), (x.abs() + 1,))[0], random(2, 8)
    )


# P7: int64 in, int64 out.


@case("P7", **PTE)
def returned() -> Made:
    return made(lambda n, x: (n, x + 1), torch.arange(8), random(8))


@case("P7", **PTE)
def computed() -> Made:
    return made(lambda n: n * 3 + 1, torch.arange(-4, 4))


@case("P7", **PTE)
def largest_place() -> Made:
    return made(lambda x: (x.argmax(-1), x.relu()), random(4, 8))


@case("P7", **PTE)
def joined() -> Made:
    return made(lambda n, m: torch.cat([n, m.view(2, 4)], 0), torch.arange(4).view(1, 4), torch.arange(8))


@case("P7", **PTE)
def chosen_and_returned() -> Made:
    return made(lambda x, n: (x[n], n), random(8, 3), torch.tensor([1, 6]))


@case("P7", **PTE)
def of_int32() -> Made:
    return made(lambda n: (n + 1, n.to(torch.int64)), torch.arange(8, dtype=torch.int32))


# P8: advice that a person can take, where an op has too many dimensions.


@case("P8", exit=1, said="x reshaped to rank 4, e.g. [2, 2, 3, 5], axis 3", results=False)
def cumsum_of_five_dimensions() -> Made:
    return made(lambda x: torch.cumsum(x, -1), random(1, 2, 2, 3, 5))


@case("P8", exit=1, said="x reshaped to rank 5, e.g. [4, 2, 2, 2, 2], axes [1]", results=False)
def reduce_of_seven_dimensions() -> Made:
    return made(lambda x: x.view(1, 2, 2, 2, 2, 2, 2).sum(3), random(2, 32))


@case("P8", exit=1, said="merge dimensions", results=False)
def flip_of_seven_dimensions() -> Made:
    return made(lambda x: x.flip(1, 3, 5), random(2, 2, 2, 2, 2, 2, 2))


@case("P8", exit=1, said="x reshaped to rank 5, e.g. [4, 2, 2, 2, 4], axis 4", results=False)
def softmax_of_six_dimensions() -> Made:
    return made(lambda x: x.softmax(-1), random(2, 2, 2, 2, 2, 4))


@case("P8", exit=1, said="b reshaped to rank 5, e.g. [2, 1, 2, 4, 4]", results=False)
def add_of_six_dimensions() -> Made:
    return made(lambda x, y: x + y, random(2, 2, 1, 2, 2, 4), random(2, 1, 2, 2, 2, 4))


@case("P8", exit=1, said="ReduceProd", results=False)
def product_of_floats() -> Made:
    return made(lambda x: x.prod(-1), random(2, 4))


# P9: one encoding for two ranges.


def head(join: object, **more: float) -> Made:
    def function(x: Tensor) -> Tensor:
        boxes, scores = torch.relu(x[:, :4]) * 116, torch.sigmoid(x[:, 4:])
        return join(boxes, scores)  # type: ignore[operator]

    return made(function, random(1, 8, 20))


CROWDED = {"compile_options": QUANTIZED, "said": "in one encoding, which leaves", "results": False}


@case("P9", **CROWDED)
def boxes_and_scores() -> Made:
    return head(lambda b, s: torch.cat([b, s], 1))


@case("P9", **CROWDED)
def scores_first() -> Made:
    return head(lambda b, s: torch.cat([s, b], 1))


@case("P9", **CROWDED)
def by_the_last_axis() -> Made:
    return head(lambda b, s: torch.cat([b, s], 2))


@case("P9", **CROWDED)
def stacked() -> Made:
    return head(lambda b, s: torch.stack([b, s], 1))


@case("P9", **CROWDED)
def three_parts() -> Made:
    return head(lambda b, s: torch.cat([b, s * 100, s], 1))


@case("P9", compile_options=QUANTIZED, within=0.03)
def apart() -> Made:
    return head(lambda b, s: (b, s))


@case("P9", compile_options=WIDE, within=0.01)
def in_16_bits() -> Made:
    return head(lambda b, s: torch.cat([b, s], 1))
