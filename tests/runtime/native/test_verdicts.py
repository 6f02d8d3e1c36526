"""The C validators report a broken rule's severity and reason like the Python ones."""

from __future__ import annotations

from typing import Any

import pytest

from opdb.core.op_config import from_json
from opdb.judge.validate import Target, check
from opdb.runtime import native

pytestmark = pytest.mark.native

F32 = {"dtype": "FLOAT_32", "shape": [2, 3]}
GATHER: dict[str, Any] = {
    "op": "Gather",
    "inputs": [{"dtype": "UFIXED_POINT_8", "shape": [40, 8]}, {"dtype": "INT_32", "shape": [40]}],
    "params": {"axis": {"dtype": "INT_32", "value": 0}},
    "outputs": [{"dtype": "UFIXED_POINT_8", "shape": [40, 8]}],
}
#: A static index that is negative: Gather.H9 says why.
NEGATIVE = {**GATHER, "inputs": [GATHER["inputs"][0], {"dtype": "INT_32", "shape": [2], "type": "STATIC", "data": [0, -1]}],
            "outputs": [{"dtype": "UFIXED_POINT_8", "shape": [2, 8]}]}  # fmt: skip


@pytest.mark.native
@pytest.mark.parametrize(
    ("config", "soc", "rule", "strength"),
    [
        (NEGATIVE, "SM8650", "Gather.H9", "require"),
        ({"op": "Relu", "inputs": [F32], "outputs": [F32], "params": {"slope": {"dtype": "FLOAT_32", "value": 1}}},
         "SM8650", "Relu.UNKNOWN_PARAMS", "require"),
        ({"op": "Gelu", "inputs": [F32], "outputs": [F32]}, "SM8350", "HTP-0042", "erratum"),
        ({"op": "FullyConnected",
          "inputs": [{"dtype": "UFIXED_POINT_8", "shape": [3, 4]},
                     {"dtype": "SFIXED_POINT_8", "shape": [2, 4],
                      "quant": {"encoding": "AXIS_SCALE_OFFSET", "scale": [0.1, 0.2], "offset": [0, 0], "axis": 0}}],
          "outputs": [{"dtype": "UFIXED_POINT_8", "shape": [3, 2]}]}, "SM8650", "FullyConnected.H4", "expect"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else "",
)  # fmt: skip
def test_c_reports_strength_and_reason(config: dict[str, Any], soc: str, rule: str, strength: str) -> None:
    given, target = from_json(config), Target("HTP", soc)
    python = {v.rule: v for v in check(given, target).violations}
    c = {v.rule: v for v in native.validate(given, target.context())}
    assert list(c) == list(python)
    assert c[rule].strength == python[rule].strength == strength
    assert [v.why for v in c.values()] == [v.why for v in python.values()]
    assert any(v.why for v in c.values()) or config is not NEGATIVE
    assert c[rule].message == python[rule].message
