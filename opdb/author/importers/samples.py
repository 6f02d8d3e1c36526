"""Small valid op configs for a draft: all inputs, only the required ones, dims of size 1, several axes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from opdb.spec.model import OpDef, ParamDef

#: Sizes that satisfy the usual relations: windows fit, channels divide by 1, products of two agree.
SIZES = {"N": 2, "H": 8, "W": 8, "D": 8, "C": 4, "K": 6, "KH": 3, "KW": 3, "KD": 3}
FULL, FLAT, ONES = [2, 3, 4], [5], [1, 1]


def samples(op: OpDef) -> list[dict[str, Any]]:
    """The spec's ``samples`` as YAML data; empty if a required shape is not a list of symbols."""
    if any(t.shape in ("any", None) and not t.variadic and not t.optional for t in op.inputs.values()):
        return []
    given = [p for p, d in op.params.items() if d.default is None and not d.optional]
    plans = [(FULL, True, 1, False), (FLAT, False, 1, False), (ONES, False, 1, True)]
    if "axes" in op.params:
        plans.append((FULL, True, 2, False))
    made: list[dict[str, Any]] = []
    for rest, everything, axes, ones in plans:
        sample = _sample(op, given, rest, everything, axes, ones)
        if sample is not None and sample not in made:
            made.append(sample)
    return made


def _sample(
    op: OpDef, given: list[str], rest: list[int], everything: bool, axes: int, ones: bool
) -> dict[str, Any] | None:
    out: dict[str, Any] = {}
    values = {p: _value(op.params[p], p, rest, axes) for p in given}
    rising = {p for p in given if any(r.require == f"increasing({p})" for r in op.constraints.values())}
    values |= {p: list(range(1, rest[-1])) for p in rising}
    if axes > 1:
        values |= {p: 1.0e-5 for p in op.params if p == "epsilon"}
    for name, t in op.inputs.items():
        if t.optional and not everything:
            continue
        if t.variadic:
            out[name] = [list(rest)] * max(t.min, 2)
            continue
        shape = _shape(t.shape, rest, values, ones)
        if shape is None:
            if t.optional:
                continue
            return None
        out[name] = shape
    if any(v in (None, []) for v in values.values()):
        return None
    return out | {p: values[p] for p in op.params if p in values}


def _shape(shape: Any, rest: list[int], values: Mapping[str, Any], ones: bool) -> list[int] | None:
    if shape == "gather(S, axes)":
        return [rest[a] for a in values["axes"]] if values.get("axes") else None
    if not isinstance(shape, list):
        return None
    dims: list[int] = []
    for dim in shape:
        if dim.endswith("..."):
            dims += rest if len(shape) == 1 else rest[:1]
        elif dim.isdigit():
            dims.append(int(dim))
        elif dim.isidentifier() or re.fullmatch(r"[A-Z]\w* // group", dim):
            symbol = dim.partition(" ")[0]
            dims.append(1 if ones else SIZES.get(symbol, 3))
        else:
            return None
    return dims


def _value(p: ParamDef, name: str, rest: list[int], axes: int) -> Any:
    """A plausible value of a required parameter, or None."""
    rank = len(rest)
    if name == "axes":
        return list(range(max(rank - axes, 0), rank))
    if name == "perm":
        return list(reversed(range(rank)))
    if name == "axis":
        return rank - 1
    if p.enum:
        return next(iter(p.enum))
    if p.kind == "pads":
        return [[0, 0] for _ in range(p.dims[0] or rank)] if len(p.dims) == 2 else None
    if len(p.dims) == 1:
        return [1] * (p.dims[0] or rank)
    return {"f32": 0.5, "bool8": False}.get(p.base, 1) if not p.dims else None
