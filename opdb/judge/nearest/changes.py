"""The differences between two configs of one op, in the terms of the op config's JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import OpConfig, ParamConfig, TensorConfig, param_json, quant_json, tensor_json
from opdb.runtime.binding import Signature, Slot, slot_names
from opdb.runtime.checks import shown


@dataclass(frozen=True)
class Change:
    """One field of the op config's JSON.  ``before`` or ``after`` is None if the field is absent."""

    path: str  # e.g. outputs[0].dtype, params.axes.data
    name: str  # of the slot or parameter; e.g. y, xs[1]
    before: Any
    after: Any
    text: str  # e.g. y f16 instead of f32

    def json(self) -> dict[str, Any]:
        return {"path": self.path, "slot": self.name, "from": self.before, "to": self.after}


def other_data(found: Sequence[Change]) -> int:
    """The number of changes to the data itself: inputs of another shape, and omitted ones."""
    inputs = [c for c in found if c.path.startswith("inputs[") and c.name]
    return sum(c.path.endswith((".shape", "]")) and c.before is not None for c in inputs)


def changes(old: OpConfig, new: OpConfig, signature: Signature) -> tuple[Change, ...]:
    """The fields that differ in ``new``, and the tensors that only one of the two has."""
    return (
        *_tensors("inputs", old.inputs, new.inputs, signature.inputs),
        *_params(old, new, signature),
        *_tensors("outputs", old.outputs, new.outputs, signature.outputs),
    )


def _tensors(
    group: str, old: Sequence[TensorConfig], new: Sequence[TensorConfig], slots: Sequence[Slot]
) -> Iterator[Change]:
    places = {name: i for i, name in enumerate(slot_names(new, slots)) if new[i].type != "NULL"}
    for i, (name, a) in enumerate(zip(slot_names(old, slots), old, strict=True)):
        where = f"{group}[{i}]"
        if a.type == "NULL":
            if i >= len(new) and i >= len(slots):
                yield Change(where, name, tensor_json(a), None, f"{where} left out")
            continue
        if name not in places:
            yield Change(where, name, tensor_json(a), None, f"{name or where} omitted")
            continue
        b = new[places.pop(name)]
        if a.dtype != b.dtype:
            pair = BY_SHORT[a.dtype].qnn, BY_SHORT[b.dtype].qnn
            yield Change(f"{where}.dtype", name, *pair, f"{name} {b.dtype} instead of {a.dtype}")
        if a.shape != b.shape:
            text = f"{name} of shape {shown(list(b.shape))} instead of {shown(list(a.shape))}"
            if len(a.shape) != len(b.shape) and prod(a.shape) == prod(b.shape):
                text = f"{name} reshaped to rank {len(b.shape)}, e.g. {shown(list(b.shape))}"
            yield Change(f"{where}.shape", name, list(a.shape), list(b.shape), text)
        if a.type != b.type:
            yield Change(f"{where}.type", name, a.type, b.type, f"{name} {b.type} instead of {a.type}")
        if a.quant != b.quant:
            before = None if a.quant is None else quant_json(a.quant)
            after = None if b.quant is None else quant_json(b.quant)
            yield Change(f"{where}.quant", name, before, after, f"{name} {_encoding(before, after)}")
        if a.sparse != b.sparse:
            was, now = (None if s is None else dict(vars(s)) for s in (a.sparse, b.sparse))
            yield Change(f"{where}.sparse", name, was, now, f"{name} {'sparse' if b.sparse else 'dense'}")
    for name, i in places.items():
        text = f"{name} {new[i].dtype} {shown(list(new[i].shape))} given"
        yield Change(f"{group}[{i}]", name, None, tensor_json(new[i]), text)


def _encoding(before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    """The differences between two encodings, in words; long lists are cut."""
    if after is None:
        return "without encoding"
    if before is None:
        return "with " + ", ".join(f"{k} {_cut(v)}" for k, v in after.items())
    keys = [k for k in after | before if after.get(k) != before.get(k)]
    return ", ".join(f"{k} {_cut(after.get(k))} instead of {_cut(before.get(k))}" for k in keys)


def _cut(value: Any) -> str:
    if not isinstance(value, list):
        return "none" if value is None else shown(value)
    if len(value) == 1:
        return shown(value[0])
    return shown(value) if len(value) <= 4 else f"[{', '.join(map(shown, value[:3]))}, ... {len(value)}]"


def _params(old: OpConfig, new: OpConfig, signature: Signature) -> Iterator[Change]:
    known = {p.name: p for p in signature.params}
    after = {p.name: p for p in new.params}
    kept = {p.name: p for p in reversed(old.params)}
    for name in dict.fromkeys(p.name for p in (*old.params, *new.params)):
        a, b = kept.get(name), after.get(name)
        if (count := sum(p.name == name for p in old.params)) > 1:
            yield Change(f"params.{name}", name, count, 1, f"{name} given once instead of {count} times")
        if a == b:
            continue
        enum = known[name].enum if name in known else {}
        path = f"params.{name}"
        if a is None or b is None:
            whole = [None if p is None else param_json(p) for p in (a, b)]
            text = f"{name} {_value(b, enum)} given" if b is not None else f"{name} omitted"
            yield Change(path, name, whole[0], whole[1], text)
            continue
        same = a.dtype == b.dtype and a.shape == b.shape
        field = "value" if a.shape is None else "data"
        pair = (param_json(a), param_json(b))
        if same:
            path, pair = f"{path}.{field}", (pair[0][field], pair[1][field])
        kind = "" if a.dtype == b.dtype else f" {b.dtype}"
        was = _value(a, enum) if a.dtype == b.dtype else f"{a.dtype} {_value(a, enum)}"
        yield Change(path, name, *pair, f"{name}{kind} {_value(b, enum)} instead of {was}")


def _value(p: ParamConfig, enum: dict[int, str]) -> str:
    if p.shape is None:
        return enum.get(p.value, shown(p.value)) if enum else shown(p.value)
    if len(p.shape) == 2:
        rows, width = p.shape
        return shown([list(p.value[r * width : (r + 1) * width]) for r in range(rows)])
    return shown(list(p.value))
