"""ONNX's own operator tests: the PyTorch module gives the expected numbers, or is refused with a reason."""

from __future__ import annotations

import inspect
import warnings
from collections import Counter

import pytest
import torch
from onnx import defs
from onnx_cases import OTHERS_NUMBERS, cases, difference, read

from opdb.core.errors import OpdbError
from opdb.programs.onnx import node
from opdb.programs.onnx.graph import NEWEST
from opdb.programs.onnx.node import array
from opdb.programs.onnx.operators import OPERATORS, WITHOUT_SCHEMA, products, windows

pytestmark = [pytest.mark.torch, pytest.mark.slow]
#: Cases with ties: PyTorch's topk may pick any of equal numbers, ONNX's picks the first.
TIES = {"test_top_k_same_values", "test_top_k_same_values_2d", "test_top_k_same_values_largest"}


#: Attributes that no function needs: the inputs imply them, or they concern training, strings, or 8-bit types.
NOT_NEEDED = {
    "consumed_inputs", "hidden_size", "kernel_shape", "momentum", "precision", "qk_matmul_output_mode", "round_mode",
    "saturate", "seed", "stash_type",
}  # fmt: skip
#: Operators that no module is made of.
REFUSED = {"ConstantOfShape", "NonZero", "Range", "Unique"}
#: With these attention is read as ONNX's function.
WINDOWS = {"left_window_size", "right_window_size"}


def test_every_case_is_right_or_has_a_reason() -> None:
    wrong, reasons, right = {}, {}, Counter[str]()
    for case in cases():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                module, given = read(case)
                with torch.no_grad():
                    made = module(*given)
            except OpdbError as error:
                reasons[case.name] = str(error)
                continue
            results = made if isinstance(made, tuple) else (made,)
            text = difference([array(r) for r in results if r is not None], case)
        if text:
            wrong[case.name] = text
        else:
            right[case.model.graph.node[0].op_type] += 1
    assert set(wrong) == OTHERS_NUMBERS | TIES, wrong
    assert all(reasons.values())
    # PyTorch's own words tell of a type that it does not compute with; anything else would be a fault here.
    strange = {
        k: r for k, r in reasons.items() if "cannot be computed" in r and "not implemented for" not in r
    }
    assert set(strange) == {
        "test_reduce_max_empty_set", "test_reduce_max_empty_set_bool", "test_reduce_min_empty_set"
    }, strange  # fmt: skip
    assert right.total() >= 1480 and len(right) >= 160, (right.total(), len(right))


def test_every_attribute_of_every_operator_is_read() -> None:
    """Looks for each name in the source of the operator's module, or of its helpers."""
    used = "".join(map(inspect.getsource, (node, products, windows)))
    for name in set(OPERATORS) - REFUSED - WITHOUT_SCHEMA:
        room = inspect.getmodule(OPERATORS[name].function)
        assert room is not None
        wanted = set(defs.get_schema(name, NEWEST).attributes) - NOT_NEEDED
        missing = {a for a in wanted if f'"{a}"' not in inspect.getsource(room) + used}
        assert missing == WINDOWS if name == "Attention" else not missing, (name, missing)
