"""Products of floats between views, on HTP: how often its compiler gives wrong results, or does not finalize.

HTP's compiler moves Reshapes across a product.  Each chain here is a view, a product in one of several spellings, a view,
and perhaps a relu or a permutation; random small shapes.  Results are compared with PyTorch's, as in corpus/operators.

    python benchmarks/htp_views.py [--chains N] [--seed N] [--soc SM8650] [--rows-stay] [--columns-stay] [--heads]
                                    [--ignore-erratum ID] [SPELLING]...
"""

from __future__ import annotations

import argparse
import math
import random
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
from _on_htp import kind_of, verdict
from torch import Tensor
from torch.nn import functional as f

import opdb.programs.torch_ops  # noqa: F401  (the operators torch.ops.qnn)
from opdb.execute.libraries.client import VendorWorker

Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def _rows(x: Tensor, weight: Tensor) -> Tensor:
    return x.reshape(-1, weight.shape[1])


def _conv2d(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The rows are the height of an image of width 1."""
    image, taps = _rows(x, weight)[None, :, None], weight.t()[None, None].contiguous()
    return torch.ops.qnn.Conv2d(image, taps, bias, stride=[1, 1], pad_amount=[0, 0, 0, 0])


def _each_row(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Computes a product for each row; HTP's emulation takes 14 times as long for it (1024 rows of 384, 256 columns)."""
    return torch.ops.qnn.MatMul(_rows(x, weight)[:, None], weight.t()[None].contiguous(), bias)


#: Each takes x [..., K], weight [N, K] and bias [N]; the weight of a name with "_of_input" is an input of the graph.
SPELLINGS: dict[str, Product] = {
    "linear": f.linear,
    "mm": lambda x, w, b: torch.ops.qnn.MatMul(_rows(x, w), w.t().contiguous(), b),
    "mm_transposed": lambda x, w, b: torch.ops.qnn.MatMul(_rows(x, w), w, b, transpose_in1=True),
    "each_row": _each_row,
    "conv2d": _conv2d,
}
SPELLINGS |= {f"{name}_of_input": SPELLINGS[name] for name in ("linear", "mm", "mm_transposed", "each_row")}


@dataclass(frozen=True)
class Chain:
    given: tuple[int, ...]
    rows: tuple[int, ...]  # the product's leading dimensions
    k: int
    n: int
    taken: tuple[int, ...]
    then: tuple[int, ...] | str  # a permutation, "relu" or ""


class Between(torch.nn.Module):
    def __init__(self, chain: Chain, product: Product, bias: Tensor | None, weight: Tensor | None) -> None:
        super().__init__()
        self.chain, self.product, self.bias, self.weight = chain, product, bias, weight

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        chain, w = self.chain, self.weight if weight is None else weight
        assert w is not None
        y = self.product(x.reshape(*chain.rows, chain.k), w, self.bias).reshape(chain.taken)
        if isinstance(chain.then, tuple):
            return y.permute(chain.then)
        return y.relu() if chain.then else y


def split(size: int, rank: int, choose: random.Random) -> tuple[int, ...]:
    """A random shape of this rank with ``size`` elements."""
    shape = [1] * rank
    for p in range(2, size + 1):
        while size % p == 0:
            shape[choose.randrange(rank)] *= p
            size //= p
    return tuple(shape)


def random_chain(choose: random.Random, rows_stay: bool, columns_stay: bool) -> Chain:
    """``rows_stay``: the last dimension of the given tensor is K; ``columns_stay``: that of the result is N."""
    rows = tuple(choose.choice((1, 1, 2, 3, 4)) for _ in range(choose.choice((1, 2, 3))))
    k, n, lead = choose.choice((1, 2, 3, 4, 6)), choose.choice((1, 3, 5, 8)), math.prod(rows)
    if choose.random() < 0.5:  # the rows' last dimensions lie in one with the columns
        at = choose.randrange(len(rows))
        given, taken = ((*rows[:at], math.prod(rows[at:]) * width) for width in (k, n))
    else:
        given, taken = (split(lead * width, choose.choice((2, 3, 4)), choose) for width in (k, n))
    if rows_stay:
        given = (*split(lead, choose.choice((1, 2, 3)), choose), k)
    if columns_stay:
        taken = (*split(lead, choose.choice((1, 2, 3)), choose), n)
    order = list(range(len(taken)))
    choose.shuffle(order)
    return Chain(given, rows, k, n, taken, choose.choice(("", "", "relu", tuple(order))))


def chain_of_heads(choose: random.Random) -> Chain:
    """A chain with one row dimension that the views keep; one view splits or joins the columns, the other keeps them."""
    lead = choose.choice((2, 3, 4, 5, 6, 8))
    k, n = (
        choose.choice((2, 3, 4, 6, 8, 9, 12, 16, 24, 36)),
        choose.choice((1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 24, 36)),
    )
    before, after = (k,), (n,)
    if choose.random() < 0.5:
        before = split(k, choose.choice((2, 2, 3)), choose)
    else:
        after = split(n, choose.choice((2, 2, 3)), choose)
    given, rows, taken = ((1,) * choose.choice((0, 0, 1, 1, 2)) + (lead,) for _ in range(3))
    taken += after
    order = list(range(len(taken)))
    choose.shuffle(order)
    return Chain((*given, *before), rows, k, n, taken, choose.choice(("", "relu", tuple(order))))


def said_of(
    chain: Chain, name: str, bias: bool, worker: VendorWorker, soc: str, ignored: frozenset[str]
) -> str:
    x, weight, b = (
        torch.randn(chain.given) * 3,
        torch.randn(chain.n, chain.k),
        torch.randn(chain.n) if bias else None,
    )
    inputs = (x, weight) if name.endswith("_of_input") else (x,)
    module = Between(chain, SPELLINGS[name], b, None if len(inputs) > 1 else weight).eval()
    return verdict(module, inputs, worker, soc, ignored)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chains", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--soc", default="SM8650")
    parser.add_argument("--rows-stay", action="store_true")
    parser.add_argument("--columns-stay", action="store_true")
    parser.add_argument("--heads", action="store_true", help="chains that HTP-0390 leaves alone")
    parser.add_argument("--ignore-erratum", action="append", default=[], metavar="ID", help="is not avoided")
    parser.add_argument("spellings", nargs="*", metavar="SPELLING", help=", ".join(SPELLINGS))
    asked = parser.parse_args()
    if unknown := set(asked.spellings) - set(SPELLINGS):
        parser.error(f"no spelling {', '.join(sorted(unknown))}; there are {', '.join(SPELLINGS)}")
    warnings.simplefilter("ignore")
    choose = random.Random(asked.seed)
    torch.manual_seed(asked.seed)
    counts: dict[str, Counter[str]] = {name: Counter() for name in asked.spellings or SPELLINGS}
    with VendorWorker("HTP", asked.soc, log_level="error") as worker:
        for _ in range(asked.chains):
            chain = (
                chain_of_heads(choose)
                if asked.heads
                else random_chain(choose, asked.rows_stay, asked.columns_stay)
            )
            bias = choose.random() < 0.5
            for name, count in counts.items():
                said = said_of(chain, name, bias, worker, asked.soc, frozenset(asked.ignore_erratum))
                kind = kind_of(said)
                count[kind] += 1
                if kind not in ("right", "refused"):
                    print(f"{name}: {chain}: {said[:90]}", flush=True)
    for name, count in counts.items():
        print(f"{name}: {', '.join(f'{n} {kind}' for kind, n in count.most_common())}")


if __name__ == "__main__":
    main()
