"""One module for each way to pick, write, create and convert elements."""

from __future__ import annotations

import torch
from modules import Case, X, aten, f
from torch import Tensor

NUMBERS = torch.arange(24, dtype=torch.int32).reshape(2, 3, 4) * 3 - 17
PAIR, PAIR_TOO, PAIR_MORE, PAIR_LAST = (torch.tensor(p) for p in ([1, -2], [-1, 0], [0, -1], [1, -1]))
LAST = torch.tensor([-1, 0, 2, -3])
TABLE = torch.tensor([[0, -1, 2], [1, 1, -3]])
MASK = torch.tensor([[True, False, True, False], [False, False, True, True], [True, True, False, True]])


def constant(call: object, *tensors: Tensor) -> object:
    """A module whose indices are buffers."""

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for i, t in enumerate(tensors):
                self.register_buffer(f"b{i}", t)

        def forward(self, *args: Tensor) -> Tensor:
            return call(*args, *(getattr(self, f"b{i}") for i in range(len(tensors))))

    return Module


CHOOSING = (
    Case("index_first", f(lambda x, i: x[i]), (X, PAIR)),
    Case("index_middle", f(lambda x, i: x[:, i]), (X, TABLE)),
    Case("index_last", f(lambda x, i: x[..., i]), (X, LAST)),
    Case("index_constant", constant(lambda x, i: x[:, i], TABLE), (X,)),
    Case("index_numbers", f(lambda x, i: x[:, i]), (NUMBERS, TABLE)),
    Case("index_of_no_rank", f(lambda x, i: aten.index.Tensor(x, [None, i])), (X, torch.tensor(-1))),
    Case("index_last_but_one", f(lambda x, i: x[:, i]), (X, PAIR)),
    Case("index_select_last_but_one", f(lambda x, i: torch.index_select(x, 1, i)), (X, PAIR.abs())),
    Case("index_select_rank_4", f(lambda x, i: torch.index_select(x, 2, i)), ((2, 3, 4, 5), LAST.abs())),
    Case("index_select_rank_5", f(lambda x, i: torch.index_select(x, 0, i)), ((4, 3, 2, 4, 2), LAST.abs())),
    Case("index_rank_5", f(lambda x, i: x[i]), ((3, 1, 3, 4), TABLE)),
    Case("index_line", f(lambda x, i: x[i]), (torch.randn(5), LAST)),
    Case("index_unsafe", f(lambda x, i: aten._unsafe_index.Tensor(x, [None, i])), (X, TABLE)),
    Case("index_pair", f(lambda x, i, j: x[i, j]), (X, PAIR, torch.tensor([2, -1]))),
    Case("index_pair_last", f(lambda x, i, j: x[:, i, j]), (X, torch.tensor([2, -1]), torch.tensor([-4, 3]))),
    Case("index_pair_grid", f(lambda x, i, j: x[:, i[:, None], j]), (X, PAIR, LAST)),
    Case("index_pair_apart", f(lambda x, i, j: x[i, :, j]), (X, PAIR, PAIR_TOO)),
    Case("index_pair_apart_grid", f(lambda x, i, j: x[i[:, None], :, j]), (X, PAIR, LAST)),
    Case("index_pair_constant", constant(lambda x, i, j: x[:, i[:, None], j], PAIR, LAST), (X,)),
    Case("index_pair_mixed", constant(lambda x, i, j: x[:, i, j], torch.tensor([[1], [-1]])), (X, LAST)),
    Case("index_pair_numbers", f(lambda x, i, j: x[i, :, j]), (NUMBERS, PAIR, PAIR_TOO)),
    Case("index_pair_unsafe", f(lambda x, i, j: aten._unsafe_index.Tensor(x, [i, j])), (X, PAIR, PAIR_TOO)),
    Case("index_triple", f(lambda x, i, j, k: x[i, j[:, None], k]), (X, PAIR, PAIR_TOO, PAIR_MORE)),
    Case(
        "index_triple_apart", f(lambda x, i, j, k: x[i, j, :, k]), ((2, 3, 2, 4), PAIR, PAIR_TOO, PAIR_MORE)
    ),
    Case(
        "index_four",
        f(lambda x, i, j, k, m: x[i, j, k, m]),
        ((2, 3, 2, 4), PAIR, PAIR_TOO, PAIR_MORE, PAIR_LAST),
        (),
    ),
    Case("index_mask", f(lambda x, m: x[m][:, 0].sum()), ((3, 4, 2), MASK), ()),
)
PUTTING = (
    Case("put_first", f(lambda x, i, v: aten.index_put.default(x, [i], v)), ((5, 3), LAST[:2], (2, 3))),
    Case("put_middle", f(lambda x, i, v: aten.index_put.default(x, [None, i], v)), (X, PAIR, (2, 2, 4))),
    Case("put_broadcast", f(lambda x, i, v: aten.index_put.default(x, [None, i], v)), (X, PAIR, (4,))),
    Case("put_number", f(lambda x, i: aten.index_put.default(x, [i], torch.tensor(2.5))), (X, PAIR)),
    Case(
        "put_constant",
        constant(lambda x, v, i: aten.index_put.default(x, [None, i], v), PAIR),
        (X, (2, 2, 4)),
    ),
    Case(
        "put_numbers",
        f(lambda x, i, v: aten.index_put.default(x, [i], v)),
        (NUMBERS, PAIR[:1], NUMBERS[:1] + 1),
    ),
    Case(
        "put_added",
        f(lambda x, i, v: aten.index_put.default(x, [None, i], v, True)),
        (X, torch.tensor([0, -1, 2]), (2, 3, 4)),
    ),
    Case(
        "put_added_numbers",
        f(lambda x, i, v: aten.index_put.default(x, [None, i], v, True)),
        (NUMBERS, torch.tensor([0, -1, 2]), NUMBERS + 1),
    ),
    Case(
        "put_table",
        f(lambda x, i, v: aten.index_put.default(x, [None, i], v)),
        ((2, 7, 4), TABLE.abs() + torch.tensor([[0], [3]]), (2, 2, 3, 4)),
    ),
    Case("put_pair", f(lambda x, i, j, v: aten.index_put.default(x, [i, j], v)), (X, PAIR, PAIR_TOO, (2, 4))),
    Case(
        "put_pair_last",
        f(lambda x, i, j, v: aten.index_put.default(x, [None, i, j], v)),
        (X, PAIR, PAIR_TOO, (2, 2)),
    ),
    Case(
        "put_pair_apart",
        f(lambda x, i, j, v: aten.index_put.default(x, [i, None, j], v)),
        (X, PAIR, PAIR_TOO, (2, 3)),
    ),
    Case(
        "put_pair_grid",
        f(lambda x, i, j, v: aten.index_put.default(x, [None, i[:, None], j], v)),
        (X, PAIR, LAST[:3], (2, 2, 3)),
    ),
    Case(
        "put_pair_added",
        f(lambda x, i, j, v: aten.index_put.default(x, [i, j], v, True)),
        (X, torch.tensor([0, 0, -1]), torch.tensor([1, -2, 0]), (4,)),
    ),
    Case(
        "put_triple",
        f(lambda x, i, j, k, v: aten.index_put.default(x, [i, j, k], v)),
        (X, PAIR, PAIR_TOO, PAIR_MORE, (2,)),
    ),
    Case("put_mask", f(lambda x, m: aten.index_put.default(x, [m], torch.tensor(-2.5))), ((3, 4, 2), MASK)),
    Case(
        "put_mask_inside",
        f(lambda x, m, v: aten.index_put.default(x, [None, m], v)),
        ((2, 3, 4), MASK, (1,)),
    ),
    Case("put_mask_numbers", f(lambda x, m, v: aten.index_put.default(x, [m], v)), ((3, 4), MASK, (7,)), ()),
)
#: Places along dimension 1 of a tensor of the shape X: some smaller than it in other dimensions, some twice.
SOME = torch.tensor([[[2, 0, 1], [0, 1, 0]]])
OFTEN = torch.tensor([[[2, 0, 1, 1], [2, 1, 0, 1]], [[0, 0, 1, 1], [0, 2, 2, 2]]])
ROWS = torch.tensor([2, 0])


def reduce(
    kind: str, index: Tensor, *, anew: bool = False, backends: tuple[str, ...] = ("CPU", "HTP")
) -> Case:
    call = f(lambda x, i, s: aten.scatter_reduce.two(x, 1, i, s, kind, include_self=not anew))
    return Case(f"reduce_{kind}_{anew}_{len(index)}", call, (X, index, tuple(index.shape)), backends)


WRITING = (
    Case("scatter_some", f(lambda x, i, s: aten.scatter.src(x, 1, i, s)), (X, SOME, (1, 2, 3))),
    Case("scatter_some_last", f(lambda x, i, s: aten.scatter.src(x, -1, i, s)), (X, SOME, (1, 2, 3))),
    Case(
        "scatter_smaller_than_src", f(lambda x, i, s: aten.scatter.src(x, 1, i, s)), (X, SOME, (2, 3, 3)), ()
    ),
    Case("scatter_value", f(lambda x, i: aten.scatter.value(x, 1, i, 2.5)), (X, OFTEN)),
    Case("scatter_value_numbers", f(lambda x, i: aten.scatter.value(x, 1, i, -7)), (NUMBERS, OFTEN)),
    Case("scatter_add", f(lambda x, i, s: aten.scatter_add.default(x, 1, i, s)), (X, OFTEN, (2, 2, 4))),
    Case(
        "scatter_add_first",
        f(lambda x, i, s: aten.scatter_add.default(x, 0, i, s)),
        (X, OFTEN % 2, (2, 2, 4)),
    ),
    Case(
        "scatter_add_numbers",
        f(lambda x, i, s: aten.scatter_add.default(x, 1, i, s)),
        (NUMBERS, OFTEN, NUMBERS[:, 1:] + 1),
    ),
    reduce("sum", OFTEN),
    reduce("prod", OFTEN),
    reduce("sum", OFTEN, anew=True),
    reduce("prod", SOME, anew=True),
    reduce("amax", OFTEN, backends=("CPU",)),
    reduce("amin", SOME, backends=("CPU",)),
    reduce("mean", OFTEN, backends=()),
    reduce("amin", OFTEN, anew=True, backends=()),
    Case(
        "reduce_amax_numbers",
        f(lambda x, i, s: aten.scatter_reduce.two(x, 1, i, s, "amax")),
        (NUMBERS, OFTEN, NUMBERS[:, 1:] * 2 - 5),
    ),
    Case(
        "reduce_amin_numbers",
        f(lambda x, i, s: aten.scatter_reduce.two(x, -1, i, s, "amin")),
        (NUMBERS, OFTEN, NUMBERS[:, 1:] * 2 - 5),
        ("CPU",),
    ),
    Case("index_copy", f(lambda x, i, s: aten.index_copy.default(x, 1, i, s)), (X, ROWS, (2, 2, 4))),
    Case(
        "index_copy_first", f(lambda x, i, s: aten.index_copy.default(x, 0, i, s)), (X, ROWS[1:], (1, 3, 4))
    ),
    Case(
        "index_copy_last",
        f(lambda x, i, s: aten.index_copy.default(x, -1, i, s)),
        (NUMBERS, ROWS, NUMBERS[..., :2] + 1),
    ),
    Case(
        "index_add",
        f(lambda x, i, s: aten.index_add.default(x, 1, i, s)),
        (X, torch.tensor([1, 1, 0]), (2, 3, 4)),
    ),
    Case(
        "index_add_alpha",
        f(lambda x, i, s: aten.index_add.default(x, -1, i, s, alpha=0.5)),
        (X, torch.tensor([1, 1, 0]), (2, 3, 3)),
    ),
    Case("index_fill", f(lambda x, i: aten.index_fill.int_Scalar(x, 1, i, -1.5)), (X, ROWS)),
    Case("select_scatter", f(lambda x, s: aten.select_scatter.default(x, s, 1, -1)), (X, (2, 4))),
    Case(
        "select_scatter_first",
        f(lambda x, s: aten.select_scatter.default(x, s, 0, 1)),
        (NUMBERS, NUMBERS[1] + 1),
    ),
    Case(
        "select_scatter_line",
        f(lambda x, s: aten.select_scatter.default(x, s, 0, 3)),
        ((5,), torch.tensor(2.5)),
    ),
    Case("slice_scatter", f(lambda x, s: aten.slice_scatter.default(x, s, 1, 1)), (X, (2, 2, 4))),
    Case(
        "slice_scatter_steps", f(lambda x, s: aten.slice_scatter.default(x, s, -1, -3, 9, 2)), (X, (2, 3, 2))
    ),
    Case(
        "slice_scatter_first",
        f(lambda x, s: aten.slice_scatter.default(x, s, 0, -9, 1)),
        (NUMBERS, NUMBERS[:1] + 1),
    ),
    Case("take", f(torch.take), (X, torch.tensor([[3, -1], [-24, 11]]))),
)
MASKING = (
    Case("cat_of_empty", f(lambda x, y: torch.cat([torch.zeros(0), x, y], -1)), (X, X)),
    Case("cat_of_one", f(lambda x: torch.cat([torch.zeros(0), x], -1)), (X,)),
    Case("masked_fill", f(lambda x, m: x.masked_fill(m, -5.5)), (X, MASK)),
    Case("masked_fill_numbers", f(lambda x, m: x.masked_fill(m, 3)), (NUMBERS, MASK)),
    Case("masked_fill_infinite", f(lambda x, m: torch.softmax(x.masked_fill(m, -torch.inf), -1)), (X, MASK)),
    Case("masked_fill_tensor", f(lambda x, m, v: x.masked_fill(m, v)), (X, MASK, torch.tensor(2.5))),
    Case("masked_fill_wider", f(lambda x, m: x.masked_fill(m, -5.5)), ((4,), MASK)),
    Case("where_other_number", f(lambda x: torch.where(x > 0, x, 0.5)), (X,)),
    Case("where_number", f(lambda x: torch.where(x > 0, -1.5, x)), (X,)),
    Case("where_one_number_of_integers", f(torch.where), (MASK, NUMBERS[0], NUMBERS[0, :1, :1])),
    Case("where_numbers", f(lambda c, x: torch.where(c, x, 9)), (MASK, NUMBERS[0])),
    Case(
        "masked_fill_number_of_integers",
        f(lambda x, m, v: x.masked_fill(m, v)),
        (NUMBERS, MASK, NUMBERS[0, 0, 0]),
    ),
    Case(
        "put_mask_number_of_integers",
        f(lambda x, m, v: aten.index_put.default(x, [m], v)),
        (NUMBERS, MASK[:2, :3], NUMBERS[0, 0, :1]),
    ),
    Case("tril", f(torch.tril), (X,)),
    Case("tril_above", f(lambda x: torch.tril(x, 1)), ((4, 3),)),
    Case("triu", f(lambda x: torch.triu(x, -1)), (NUMBERS,)),
    Case("triu_above", f(lambda x: torch.triu(x, 2)), (X,)),
)
INDEX_CASES = (*CHOOSING, *PUTTING, *WRITING, *MASKING)
