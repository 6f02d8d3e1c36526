"""The cheapest candidate that fits a node is taken; of equally cheap ones, the first."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from opdb.lower.candidates import cheapest
from opdb.lower.cost import BYTES, MACS, Modeled, cost_of, macs, total
from opdb.runtime.forms import Lowered, LoweredOp, Reason, lowered_op, scalar
from opdb.runtime.tensors import TensorRef, permute


def tensor(*shape: int, static: bool = False, dtype: str = "f32") -> TensorRef:
    return TensorRef(shape, dtype, static, key=(str(shape), 0), base_shape=shape)


def op(name: str, inputs: list[TensorRef], *output: int) -> LoweredOp:
    slots = {f"in{i}": t for i, t in enumerate(inputs)}
    return lowered_op(name, inputs=slots, outputs={"y": tensor(*output)})


@pytest.mark.parametrize(
    ("made", "products"),
    [
        (op("Conv2d", [tensor(1, 8, 8, 4), tensor(3, 3, 4, 16, static=True)], 1, 6, 6, 16), 36 * 16 * 36),
        (op("DepthWiseConv2d", [tensor(1, 8, 8, 4), tensor(3, 3, 1, 4, static=True)], 1, 6, 6, 4), 36 * 4 * 9),
        (op("TransposeConv2d", [tensor(1, 4, 4, 8), tensor(2, 2, 8, 3, static=True)], 1, 8, 8, 3), 16 * 8 * 4 * 3),
        (op("MatMul", [tensor(2, 5, 7), tensor(2, 7, 3)], 2, 5, 3), 2 * 5 * 3 * 7),
        (op("FullyConnected", [tensor(5, 7), tensor(3, 7, static=True)], 5, 3), 5 * 3 * 7),
        (op("Relu", [tensor(5, 7)], 5, 7), 0),
    ],
)  # fmt: skip
def test_multiply_accumulates_of_ops_are_counted(made: LoweredOp, products: int) -> None:
    assert macs(made) == products


def test_products_of_a_transposed_operand_are_counted() -> None:
    swapped = lowered_op(
        "MatMul",
        inputs={"a": tensor(7, 5), "b": tensor(7, 3)},
        outputs={"y": tensor(5, 3)},
        params=[scalar("transpose_in0", "bool8", True)],
    )
    assert macs(swapped) == 5 * 3 * 7


def test_a_layout_change_costs_bytes_but_no_op() -> None:
    image = tensor(1, 4, 8, 8)
    plain = op("Relu", [image], 1, 4, 8, 8)
    turned = op("Relu", [permute(image, (0, 3, 2, 1))], 1, 8, 8, 4)
    last = op("Relu", [permute(image, (0, 2, 3, 1))], 1, 8, 8, 4)
    size = 4 * 8 * 8 * 4
    assert (cost_of(plain).bytes, cost_of(plain).layout_bytes) == (2 * size, 0)
    assert (cost_of(turned).bytes, cost_of(turned).layout_bytes) == (2 * size, 2 * size)
    assert cost_of(turned).ops == 1 and cost_of(last).layout_bytes == 0
    assert total(Lowered("both", (plain, turned))).bytes == 4 * size


def test_the_price_counts_ops_bytes_and_products() -> None:
    model, made = Modeled(), op("MatMul", [tensor(1, 1), tensor(1, 1)], 1, 1)
    cost = cost_of(made)
    assert model.price(made, cost) == 1 + cost.bytes / BYTES + 1 / MACS


@dataclass(frozen=True)
class Choice:
    name: str
    ops: tuple[str, ...]
    count: int  # how many ops it makes
    fits: bool = True


def taken(*choices: Choice) -> tuple[str, list[str], list[str]]:
    tried: list[str] = []

    def attempt(choice: Choice) -> tuple[Lowered | None, list[Reason]]:
        tried.append(choice.name)
        made = Lowered(choice.name, (op("Relu", [tensor(2, 2)], 2, 2),) * choice.count)
        return made if choice.fits else None, [Reason(choice.name, "rule", "text")]

    found, reasons = cheapest(choices, attempt)
    return found.form if found else "", [r.form for r in reasons], tried


def test_the_cheapest_or_first_candidate_wins() -> None:
    long, short, same = (
        Choice("long", ("Relu",), 3),
        Choice("short", ("Relu",), 1),
        Choice("same", ("Relu",), 1),
    )
    assert taken(long, short, same)[0] == "short"
    assert taken(long, short, same)[1] == ["long", "short"]  # the reasons collected up to and including it


def test_candidates_with_too_many_ops_are_not_tried() -> None:
    one, chain = Choice("one", ("Relu",), 1), Choice("chain", ("Relu", "Tanh", "Exp"), 3)
    assert taken(one, chain)[2] == ["one"]
    assert taken(chain, one)[2] == ["chain", "one"]


def test_all_reasons_are_given_if_no_candidate_fits() -> None:
    first, second = Choice("first", ("Relu",), 1, fits=False), Choice("second", ("Relu",), 1, fits=False)
    assert taken(first, second) == ("", ["first", "second"], ["first", "second"])


def test_custom_prices_replace_the_model() -> None:
    class Dear:
        """Relu costs more than any three other ops."""

        def saves(self, new: Lowered, old: Lowered) -> bool:
            return any(op.op == "Relu" for op in old.ops) and all(op.op != "Relu" for op in new.ops)

        def beyond(self, form: str, ops: tuple[str, ...], old: Lowered) -> bool:
            return "Relu" in ops

    relu = Lowered("relu", (op("Relu", [tensor(2, 2)], 2, 2),))
    three = Lowered("three", (op("Tanh", [tensor(2, 2)], 2, 2),) * 3)
    made = {"relu": relu, "three": three}
    choices = (Choice("relu", ("Relu",), 1), Choice("three", ("Tanh",), 3))
    assert cheapest(choices, lambda c: (made[c.name], []), Dear())[0] == three
    assert cheapest(choices, lambda c: (made[c.name], []))[0] == relu
