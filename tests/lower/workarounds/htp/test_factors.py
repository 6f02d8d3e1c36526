"""Products of floats and constants near 5-D tensors; HTP's library finalizes no graph of their plain form."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from htp_module import Htp
from obeying import Place, obeying
from torch import Tensor
from torch.nn import functional as f

from opdb.core.op_config import Quant
from opdb.runtime.forms import LoweredOp, lowered_op, scalar
from opdb.runtime.tensors import TensorRef, full

VOLUME = (2, 2, 8, 6, 4)
ROW = torch.tensor([0.5, 1.0, 1.5, 2.0])
#: name -> function, shape of its input
CHAINS: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "seen in five dimensions": (
        lambda x: (x * 1.25).reshape(2, 2, 2, 5, 4).permute(0, 1, 3, 2, 4),
        (1, 8, 20),
    ),
    "a row, seen in five": (lambda x: (x * ROW).reshape(2, 2, 2, 5, 4) + 0.5, (1, 40, 4)),
    "five, seen in two": (lambda x: (x * 1.25).flatten(1), VOLUME),
    "five, permuted": (lambda x: (x * 1.25).permute(0, 3, 1, 4, 2) + 0.5, (1, 2, 8, 6, 4)),
    "and a sum": (lambda x: x * 1.25 + 0.5, (9, 2, 2, 1, 10)),
    "repeated into five": (lambda x: (x * 1.25).repeat(2, 1, 1, 1, 1), (2, 8, 6, 4)),
    "a BatchNorm3d": (lambda x: f.batch_norm(x * 1.25, torch.zeros(2), torch.ones(2)), VOLUME),
    "a MaxPool3d": (lambda x: f.max_pool3d(x * 1.25, 2), VOLUME),
}


@pytest.mark.vendor
@pytest.mark.parametrize("name", CHAINS)
def test_a_product_near_a_5d_tensor_is_right(name: str, htp: Htp) -> None:
    call, shape = CHAINS[name]
    torch.manual_seed(0)
    assert htp.run(call, (torch.randn(shape),)).error <= 1e-2


def product(
    x: TensorRef, factor: TensorRef, op: str = "ElementWiseMultiply", operation: int = 13
) -> LoweredOp:
    params = [] if op == "ElementWiseMultiply" else [scalar("operation", "u32", operation)]
    return lowered_op(op, inputs={"a": x, "b": factor}, params=params, outputs={"y": x})


def tensor(quant: Quant | None = None) -> TensorRef:
    return TensorRef((2, 3), "uq8" if quant else "f32", key="x", quant=quant, base_shape=(2, 3))


@pytest.mark.parametrize(("op", "operation"), [("ElementWiseMultiply", 13), ("ElementWiseBinary", 13)])
def test_the_constant_comes_first(op: str, operation: int) -> None:
    given = product(tensor(), full([1], 1.25, tensor()), op, operation)
    (new,) = obeying(given, around=Place(ranks={2, 5}))
    assert new.inputs == (given.inputs[1], given.inputs[0])
    assert (new.op, new.params, new.outputs) == (given.op, given.params, given.outputs)


def test_other_ops_are_unchanged() -> None:
    quantized = tensor(Quant("SCALE_OFFSET", (0.1,), (0,)))
    number = full([1], 1.25, tensor())
    ops = (
        product(tensor(), tensor()),
        product(number, tensor()),
        product(quantized, full([1], 1.25, quantized)),
        product(tensor(), number, "ElementWiseBinary", 0),
    )
    assert obeying(*ops, around=Place(ranks={5})) == ops
    beside = product(tensor(), number)
    assert obeying(beside, around=Place(ranks={3, 4})) == (beside,)
