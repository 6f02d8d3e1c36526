"""Reads and checks the ``quant`` section of a spec, which determines the encodings of quantized tensors.

share: [x, y]                        the tensors of these slots have one data type and one encoding
stored: [x, y]                       the op reads and writes stored numbers of these slots as they are, whatever the encoding
y: calibrate                         the range of the values that were observed
y: {range: [0, 1]}                   these real values, whatever was observed
y: {range: [0, 1], steps: {uq16: 65536}}   the same; in this data type the scale is 1 / 65536, as the documents require
y: {when: {operation: TANH}, range: [-1, 1]}   only if the parameter has this value; else calibrated
y: [RULE, RULE, ...]                 the first whose ``when`` holds
weight: {axis: 0, symmetric: true}   zero in the middle; a static tensor has one scale per slice, if the target takes it
bias: {dtype: sq32, scale: x.scale * weight.scale, offset: 0}   this data type if the target takes it, with this scale

A slot that no rule names is calibrated.  A backend's requirement of zero in the middle is not a rule here but a constraint
of that backend (b.symmetric), which quantization obeys.  ``opdb generate`` writes these rules to
generated/python/constants/quant.py, which ``opdb.lower.quantize`` reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opdb.core.dtypes import BY_SHORT

CALIBRATE = "calibrate"
FIELDS = ("when", "range", "steps", "symmetric", "axis", "dtype", "scale", "offset")
At = tuple[str | int, ...]
Fault = Callable[[At, str], None]
QUANTIZED = tuple(short for short, d in BY_SHORT.items() if d.quantized)


@dataclass(frozen=True)
class SlotRule:
    """The rule for the encoding of one slot; without any field it is calibrated."""

    when: tuple[tuple[str, int], ...] = ()  # parameters and the values that they must have
    range: tuple[float, float] | None = None  # real values
    steps: tuple[tuple[str, int], ...] = ()  # data type -> the steps of its encoding that make 1
    symmetric: bool = False  # real zero is the middle of the stored range
    axis: int | None = None
    dtype: str | None = None
    scale: tuple[str, ...] = ()  # slots whose scales are multiplied; the offset is 0


@dataclass(frozen=True)
class QuantRules:
    """The ``quant`` section of one op."""

    shared: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()  # slots whose stored numbers the op uses as real numbers at scale 1
    slots: Mapping[str, tuple[SlotRule, ...]] = field(default_factory=dict)

    def rule(self, slot: str, params: Mapping[str, Any]) -> SlotRule:
        """The rule of ``slot`` for an op with these parameters."""
        for rule in self.slots.get(slot, ()):
            if all(params.get(name) == value for name, value in rule.when):
                return rule
        return SlotRule()


def read(
    quant: Mapping[str, Any],
    inputs: Sequence[str],
    outputs: Sequence[str],
    enums: Mapping[str, Mapping[str, int]],
    fault: Fault,
) -> QuantRules:
    """The rules in ``quant``.  ``enums``: value by name of each required enum parameter of the op.

    ``fault`` is called with the place (within the section) and the message of each fault.
    """
    known = (*inputs, *outputs)
    listed: dict[str, tuple[str, ...]] = {}
    slots: dict[str, tuple[SlotRule, ...]] = {}
    for key, value in quant.items():
        if key in ("share", "stored"):
            listed[key] = _listed(key, value, known, fault)
        elif key not in known:
            fault((key,), f"'{key}' is neither 'share' nor 'stored' nor a slot; slots: {', '.join(known)}")
        else:
            rules = value if isinstance(value, list) else [value]
            place: At = (key,)
            slots[key] = tuple(
                _rule(r, (*place, i) if isinstance(value, list) else place, key, known, enums, fault)
                for i, r in enumerate(rules)
            )
    shared = listed.get("share", ())
    for slot in set(shared) & set(slots):
        fault((slot,), f"'{slot}' has a rule of its own and shares its encoding")
    return QuantRules(shared, listed.get("stored", ()), slots)


def _listed(key: str, value: Any, known: Sequence[str], fault: Fault) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) < 2 or not set(map(str, value)) <= set(known):
        fault((key,), f"expected a list of two or more slots of {', '.join(known)}; e.g. [x, y]")
        return ()
    return tuple(value)


def _rule(
    raw: Any, at: At, slot: str, known: Sequence[str], enums: Mapping[str, Mapping[str, int]], fault: Fault
) -> SlotRule:
    if raw == CALIBRATE:
        return SlotRule()
    if not isinstance(raw, dict) or not raw or not set(raw) <= set(FIELDS):
        fault(at, f"expected 'calibrate' or a mapping of {', '.join(FIELDS)}")
        return SlotRule()
    if ("scale" in raw) != ("offset" in raw) or raw.get("offset", 0) != 0:
        fault(at, "'scale' and 'offset: 0' belong together")
    if "range" in raw and set(raw) & {"scale", "axis"}:
        fault(at, "a fixed range has neither 'scale' nor 'axis'")
    if "steps" in raw and "range" not in raw:
        fault(at, "'steps' belongs to a fixed 'range'")
    if not isinstance(raw.get("symmetric", True), bool):
        fault(at, f"'symmetric' is true or false, not {raw['symmetric']!r}")
    axis = raw.get("axis")
    if axis is not None and (type(axis) is not int or axis < 0):
        fault(at, f"'axis' is a number from 0, not {axis!r}")
    if "dtype" in raw and raw["dtype"] not in QUANTIZED:
        fault(at, f"'{raw['dtype']}' is not a quantized data type; e.g. sq32")
    return SlotRule(
        _when(raw.get("when", {}), at, enums, fault),
        _range(raw["range"], at, fault) if "range" in raw else None,
        _steps(raw.get("steps", {}), at, fault),
        raw.get("symmetric") is True,
        axis,
        raw.get("dtype"),
        _product(raw["scale"], at, [s for s in known if s != slot], fault) if "scale" in raw else (),
    )


def _when(
    raw: Any, at: At, enums: Mapping[str, Mapping[str, int]], fault: Fault
) -> tuple[tuple[str, int], ...]:
    found = []
    for name, value in raw.items() if isinstance(raw, dict) else [("", raw)]:
        if name not in enums:
            fault(at, "'when' maps required enum parameters to their values; e.g. {operation: TANH}")
        elif value not in enums[name]:
            fault(at, f"'{value}' is not a value of {name}: {', '.join(enums[name])}")
        else:
            found.append((name, enums[name][value]))
    return tuple(found)


def _range(raw: Any, at: At, fault: Fault) -> tuple[float, float] | None:
    numbers = isinstance(raw, list) and len(raw) == 2 and all(type(v) in (int, float) for v in raw)
    if not numbers or not raw[0] <= 0 <= raw[1] or raw[0] == raw[1]:
        fault(at, "'range' is [low, high] with zero between them; e.g. [0, 1]")
        return None
    return float(raw[0]), float(raw[1])


def _steps(raw: Any, at: At, fault: Fault) -> tuple[tuple[str, int], ...]:
    fits = isinstance(raw, dict) and all(d in QUANTIZED and type(n) is int and n > 0 for d, n in raw.items())
    if not fits:
        fault(at, "'steps' says for quantized data types how many steps make 1, e.g. {uq16: 65536}")
        return ()
    return tuple(sorted(raw.items()))


def _product(raw: Any, at: At, known: Sequence[str], fault: Fault) -> tuple[str, ...]:
    names = re.findall(r"(\w+)\.scale(?: \* |$)", raw) if isinstance(raw, str) else []
    if not names or " * ".join(f"{n}.scale" for n in names) != raw or not set(names) <= set(known):
        fault(at, f"'scale' is a product of scales of {', '.join(known)}; e.g. x.scale * weight.scale")
        return ()
    return tuple(names)
