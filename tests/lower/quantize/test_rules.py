"""The ``quant`` section of specs: valid and invalid forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import opdb.lower.quantize
from opdb.core.quant_rules import QuantRules, SlotRule, read
from opdb.generated import validators
from opdb.generated.constants.quant import RULES

INPUTS, OUTPUTS, ENUMS = ["x", "w", "b"], ["y"], {"mode": {"SOFT": 3, "HARD": 4}}


def rules(quant: dict[str, Any]) -> tuple[QuantRules, list[str]]:
    faults: list[str] = []
    found = read(
        quant,
        INPUTS,
        OUTPUTS,
        ENUMS,
        lambda at, message: faults.append(f"{'.'.join(map(str, at))}: {message}"),
    )
    return found, faults


def test_every_form_of_rule_is_read() -> None:
    found, faults = rules(
        {
            "w": {"axis": 2, "symmetric": True},
            "b": {"dtype": "sq32", "scale": "x.scale * w.scale", "offset": 0},
            "y": [{"when": {"mode": "SOFT"}, "range": [-1, 1]}, "calibrate"],
        }
    )
    assert faults == []
    assert found.slots["w"] == (SlotRule(symmetric=True, axis=2),)
    assert found.slots["b"] == (SlotRule(dtype="sq32", scale=("x", "w")),)
    assert found.rule("y", {"mode": 3}).range == (-1.0, 1.0)
    assert found.rule("y", {"mode": 4}) == found.rule("x", {}) == SlotRule()
    fixed = rules({"y": {"range": [0, 1], "steps": {"uq16": 65536}}})[0].rule("y", {})
    assert fixed == SlotRule(range=(0.0, 1.0), steps=(("uq16", 65536),))
    assert rules({"share": ["x", "y"]})[0].shared == ("x", "y")


@pytest.mark.parametrize(
    ("quant", "message"),
    [
        ({"z": "calibrate"}, "z: 'z' is neither 'share' nor 'stored' nor a slot; slots: x, w, b, y"),
        ({"share": ["x"]}, "share: expected a list of two or more slots"),
        ({"share": ["x", "z"]}, "share: expected a list of two or more slots of x, w, b, y"),
        ({"share": ["x", "y"], "y": "calibrate"}, "y: 'y' has a rule of its own and shares its encoding"),
        ({"y": "guess"}, "y: expected 'calibrate' or a mapping of when, range, steps, symmetric"),
        ({"y": {"scal": 1}}, "y: expected 'calibrate' or a mapping"),
        ({"y": ["calibrate", {}]}, "y.1: expected 'calibrate' or a mapping"),
        ({"y": {"range": [1, 2]}}, "y: 'range' is [low, high] with zero between them"),
        ({"y": {"range": [0, 0]}}, "y: 'range' is [low, high] with zero between them"),
        ({"y": {"range": [0, 1], "axis": 0}}, "y: a fixed range has neither 'scale' nor 'axis'"),
        ({"y": {"steps": {"uq16": 65536}}}, "y: 'steps' belongs to a fixed 'range'"),
        ({"y": {"range": [0, 1], "steps": {"f32": 2}}}, "y: 'steps' says for quantized data types how many"),
        (
            {"y": {"range": [0, 1], "steps": {"uq16": 0.5}}},
            "y: 'steps' says for quantized data types how many",
        ),
        ({"y": {"when": {"other": "SOFT"}, "range": [0, 1]}}, "y: 'when' maps required enum parameters"),
        ({"y": {"when": {"mode": "LOUD"}, "range": [0, 1]}}, "y: 'LOUD' is not a value of mode: SOFT, HARD"),
        ({"w": {"axis": -1}}, "w: 'axis' is a number from 0, not -1"),
        ({"w": {"symmetric": ["uq8"]}}, "w: 'symmetric' is true or false, not ['uq8']"),
        ({"b": {"dtype": "i32"}}, "b: 'i32' is not a quantized data type; e.g. sq32"),
        ({"b": {"scale": "x.scale"}}, "b: 'scale' and 'offset: 0' belong together"),
        ({"b": {"scale": "x.scale * b.scale", "offset": 0}}, "b: 'scale' is a product of scales of x, w, y"),
        ({"b": {"scale": "x.scale + w.scale", "offset": 0}}, "b: 'scale' is a product of scales of x, w, y"),
        ({"b": {"scale": 2, "offset": 0}}, "b: 'scale' is a product of scales"),
    ],
)
def test_malformed_rules_are_rejected(quant: dict[str, Any], message: str) -> None:
    _, faults = rules(quant)
    assert any(f.startswith(message) for f in faults), faults


def test_every_op_has_rules_and_the_engine_names_no_op() -> None:
    assert set(RULES) == set(validators.MODULES)
    folder = Path(opdb.lower.quantize.__file__).parent
    apart = {
        "default_ranges.py",  # ops that are never negative
        "clamps.py", "linears.py", "neighbors.py", "repeats.py", "taps.py",  # with faults that errata record
    }  # fmt: skip
    texts = {p.name: p.read_text() for p in folder.glob("*.py") if p.name not in apart}
    named = {op for op in RULES for text in texts.values() if f'"{op}"' in text}
    between = {"Convert", "Quantize", "Dequantize"}  # ops inserted between two types
    table = {"Reshape", "Cast", "Gather", "ElementWiseSubtract", "ElementWiseMultiply", "ElementWiseAdd"}
    assert named == between | table | {"Softmax", "ElementWiseAdd"}  # masks of attention
