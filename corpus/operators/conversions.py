"""One module for each way to create, copy, convert and reorder elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from indexing import MASK, NUMBERS
from modules import IMAGE, Case, X, aten, f
from torch.nn import functional

#: Half precision has neither 2049 nor 70000; the fractions cut off are not small.
WIDE = torch.tensor([-2.7, -0.5, 0.0, 0.3, 1.9, 2047.7, 2049.7, 70000.5])
TRUE = torch.tensor([[-2.5, 0.0, 0.25], [1e-3, -0.0, 1.0]])
KINDS = torch.tensor([[0, 3, 1], [2, 2, 0]])


def case(
    name: str, call: Callable[..., Any], *shapes: object, backends: tuple[str, ...] = ("CPU", "HTP")
) -> Case:
    return Case(name, f(call), shapes, backends)


CONSTANTS = (
    case("full", lambda x: x + torch.full((3, 4), 2.5), X),
    case("zeros_ones", lambda x: torch.cat([x, torch.zeros(2, 1, 4), torch.ones(2, 1, 4)], 1), X),
    case("full_like", lambda x: torch.cat([x, torch.full_like(x, -1.5)], 1), X),
    case("ones_like", lambda x: torch.cat([torch.ones_like(x), x + torch.zeros_like(x)]), X),
    case("new_full", lambda x: x * x.new_full((4,), 3.0) + x.new_ones(3, 1) + x.new_zeros(()), X),
    case("arange", lambda x: x * torch.arange(4.0) + torch.arange(0.5, 8, 2.0), X),
    case("arange_numbers", lambda x: x * torch.arange(1, 9, 2), NUMBERS),
    case("eye", lambda x: x + torch.eye(3, 4), X),
    case("scalar_tensor", lambda x: x * torch.scalar_tensor(2.0) + torch.tensor(0.5), X),
    case("linspace", lambda x: x + torch.linspace(0, 1, 4), X),
    case("filled", lambda x: x.clone().fill_(2.0) + x + torch.relu(x).zero_(), X),
    case("empty_and_copied", lambda x: torch.empty(2, 3, 4).copy_(x) + 1, X),
    case(
        "causal",
        lambda x: x.masked_fill(torch.tril(torch.ones(4, 4)) == 0, -torch.inf).softmax(-1),
        (2, 4, 4),
    ),
)
CASTS = (
    case("to_integers", lambda x: x.int(), WIDE),
    case("to_long", lambda x: x.long(), WIDE),
    case("to_integers_and_back", lambda x: x.long().float(), WIDE),
    case(
        "to_integers_and_back_core",
        lambda x: aten._to_copy.default(aten._to_copy.default(x, dtype=torch.int32), dtype=torch.float32),
        WIDE,
    ),
    case("fraction", lambda x: x - x.to(torch.int32).float(), X),
    case("to_floats", lambda x: x.float() * 0.5, NUMBERS),
    case("to_floats_and_back", lambda x: x.float().int(), NUMBERS),
    case("to_truth", lambda x: x.bool(), TRUE),
    case("to_truth_and_back", lambda x: x.bool().float(), TRUE),
    case("to_truth_core", lambda x: aten._to_copy.default(x, dtype=torch.bool), TRUE),
    case("truth_of_integers", lambda x: x.bool().int(), NUMBERS * 256),
    case("truth_to_floats", lambda m: m.float() + 1, MASK),
    case("truth_to_integers", lambda m: m.int() * 3, MASK),
    case("to_integers_rank_5", lambda x: x.long(), (2, 1, 3, 2, 2)),
    case("to_truth_rank_5", lambda x: x.bool(), NUMBERS.reshape(2, 1, 3, 2, 2)),
    case("long_to_int", lambda x: x.int() + 1, KINDS),
    case("long_to_int_core", lambda x: aten._to_copy.default(x, dtype=torch.int32) + 1, KINDS),
    case("to_half_and_back", lambda x: x.half().float(), X),
    case("to_the_same", lambda x: torch.relu(x.to(torch.float32)), X),
    case("to_device", lambda x: aten.to.device(x, "cpu", torch.float32) + 1, NUMBERS),
    case(
        "to_layout", lambda x: aten.to.dtype_layout(x, dtype=torch.float32, layout=torch.strided) + 1, NUMBERS
    ),
    case("to_other", lambda x, y: aten.to.other(x, y) + y, NUMBERS, X),
    case("type_as", lambda x, y: x.type_as(y) + y, NUMBERS, X),
    case("bytes_to_integers", lambda x: x.int() * 3, NUMBERS.abs().to(torch.uint8)),
    case("bytes_to_floats", lambda x: x.float() * 0.5, NUMBERS.abs().to(torch.uint8)),
    case("to_bytes", lambda x: x.to(torch.uint8), NUMBERS, backends=()),
    case("to_double", lambda x: x.double(), X, backends=()),
)
COPIES = (
    case("copy", lambda x, y: aten.copy.default(x * 2, y), X, X),
    case("copy_repeated", lambda x, y: aten.copy.default(x * 2, y), X, (3, 1)),
    case("copy_converted", lambda x, y: aten.copy.default(x * 2, y), X, NUMBERS, backends=()),
    case("copy_of_an_input", lambda x, y: aten.copy.default(x, y), X, X),
    case("input_that_nothing_reads", lambda x, y, z: torch.relu(x), X, NUMBERS, MASK),
    case("clone", lambda x: torch.relu(x.clone().detach().contiguous()), X),
    case("expand_copy", lambda x: aten.expand_copy.default(x, [5, -1, 3]), (2, 1)),
    case("expand_as", lambda x, y: x.expand_as(y) + y, (3, 1), X),
    case("expand_numbers", lambda x: x.expand(3, 2, 3, 4), NUMBERS),
    case("broadcast_to", lambda x: torch.broadcast_to(x, (5, 2, 3)), (2, 1)),
    case("tile", lambda x: torch.tile(x, (2, 1, 1, 3)), X),
    case("tile_less", lambda x: torch.tile(x, (2,)), X),
    case("repeat_interleave", lambda x: x.repeat_interleave(3, 1), X),
    case("repeat_interleave_last", lambda x: x.repeat_interleave(2, -1), NUMBERS),
    case("repeat_interleave_of_all", lambda x: x.repeat_interleave(2), X),
    case("one_hot", lambda i: functional.one_hot(i, 5), KINDS),
)
ORDERS = (
    case("unflatten", lambda x: x.unflatten(-1, (2, 2)), X),
    case("ravel", torch.ravel, X),
    case("squeeze_all", torch.squeeze, (1, 3, 1, 4)),
    case("view_as", lambda x, y: aten.view_as.default(x, y) + y, X, (6, 4)),
    case("reshape_as", lambda x, y: aten.reshape_as.default(x, y) + y, X, (6, 4)),
    case("numpy_T", lambda x: x[0].T, X),
    case("mT", lambda x: x.mT, X),
    case("swapaxes", lambda x: x.swapaxes(0, -1), X),
    case("swapdims", lambda x: x.swapdims(0, 1), X),
    case("movedim", lambda x: x.movedim(0, 2), X),
    case("moveaxis", lambda x: x.moveaxis(-1, 0), (2, 3, 4, 5)),
    case("narrow", lambda x: x.narrow(1, -2, 2), X),
    case("chunk", lambda x: torch.chunk(x, 3, -1), (2, 7)),
    case("tensor_split", lambda x: torch.tensor_split(x, 3, 1), (2, 8)),
    case("roll", lambda x: torch.roll(x, -1, 1), X),
    case("roll_far", lambda x: torch.roll(x, 9, -1), NUMBERS),
    case("roll_rank_5", lambda x: torch.roll(x, 1, 0), (3, 2, 1, 2, 2)),
    case("roll_pair", lambda x: torch.roll(x, (1, -2), (1, 2)), X),
    case("roll_of_all", lambda x: torch.roll(x, 5), X),
    case("rot90", lambda x: torch.rot90(x, 1, (1, 2)), X),
    case("rot90_back", lambda x: torch.rot90(x, -1, (0, 2)), X),
    case("diagonal", torch.diagonal, X),
    case("diagonal_above", lambda x: x.diagonal(2, 1, -1), X),
    case("diagonal_below", lambda x: x.diagonal(-1, -1, 0), NUMBERS),
    case("unfold", lambda x: x.unfold(-1, 3, 1), X),
    case("unfold_one", lambda x: x.unfold(-3, 1, 2), (3, 1, 3, 4)),
    case("unfold_first", lambda x: x.unfold(0, 2, 2), (5, 3)),
    case("stack_of_integers", lambda x, y: torch.stack([x, y, x], -1), NUMBERS, NUMBERS + 1),
    case("stack_of_truth", lambda m: torch.stack([m, ~m], 1), MASK),
    case("stack_of_numbers", lambda x: torch.stack([x[0, 0, 0], x[1, 2, 3]]), X),
    case("unbind_of_integers", lambda x: x.unbind(-2), NUMBERS),
    case("unbind_of_line", lambda x: [y * 2 for y in x.unbind(0)], (3,)),
    case("pixel_unshuffle", lambda x: functional.pixel_unshuffle(x, 2), (2, 3, 4, 6)),
    case("channel_shuffle", lambda x: functional.channel_shuffle(x, 2), IMAGE),
    case("select_of_line", lambda x: x[-2] * 2, (5,)),
    case("select_to_one", lambda x: x[1, 0, -1], X),
)
MORE_CASES = (*CONSTANTS, *CASTS, *COPIES, *ORDERS)
