"""Makes one random change of an op config, of a randomly chosen kind: types, sizes, ranks, parameters, encodings...

Tensors carry the names of their slots, so that a change can name its slot.  All randomness comes from the caller.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import MAX_RANK, OpConfig, ParamConfig, Quant, Sparse, TensorConfig, centered
from opdb.judge.samples import ABSENT, Infer, resized, slot_of, sparse_within, weights, with_outputs
from opdb.spec.definitions import CompiledOp, Param

#: Types tried in every slot, besides those of its rows.
USUAL = ("f32", "f16", "uq8", "sq8", "uq16", "sq16", "sq32", "u8", "i8", "u32", "i32", "i64", "bool8")
#: The maximum number of elements of a tensor: sweeps probe rules, not memory.
MOST = 1 << 16
Change = tuple[str, OpConfig]
Rng = random.Random
#: Functions that make a change, or None if it does not apply; with their weights in the draw.
Kinds = Mapping[Callable[[OpConfig, Rng], Change | None], int]


class Mutator:
    """All changes to configs of one op.  ``row_types``: for each slot, the types of the backend's rows."""

    def __init__(self, compiled: CompiledOp, row_types: Mapping[str, Sequence[str]], infer: Infer) -> None:
        self.compiled, self.infer = compiled, infer
        self.rows = row_types
        self.held = weights(compiled)
        self.kinds = {p.name: p.definition.kind for p in compiled.params}
        #: Changes that leave a good config good, often enough to be worth a try.
        self.gentle: Kinds = {
            self._resize: 6, self._lift: 2, self._value: 6, self._encoding: 2, self._static: 2,
            self._leave_out: 2, self._give: 2, self._input: 1,
        }  # fmt: skip
        self.rough: Kinds = {
            self._dtype: 5, self._dtypes: 3, self._dim: 4, self._resize: 3, self._rank: 3, self._lift: 3,
            self._value: 8, self._param_type: 1, self._param_shape: 2, self._leave_out: 2, self._give: 2,
            self._unknown: 1, self._encoding: 3, self._static: 2, self._input: 1, self._omit: 2, self._drop: 2,
            self._add: 2, self._swap: 1,
        }  # fmt: skip
        self.needed = sum(not s.optional for s in compiled.outputs)
        #: Optional outputs come last, and each is one tensor.
        self.spare = len(compiled.outputs) > self.needed and not any(s.variadic for s in compiled.outputs)
        if compiled.reads_sparse:
            self.rough = {**self.rough, self._sparse: 4}

    def gently(self, config: OpConfig, rng: Rng) -> Change | None:
        """A change after which the outputs are inferred from the inputs again; None if it does not apply."""
        return self._drawn(self.gentle, config, rng, follow=True)

    def roughly(self, config: OpConfig, rng: Rng) -> Change | None:
        """Any change; a draw decides whether the outputs are inferred again or stay as they are."""
        return self._drawn(self.rough, config, rng, follow=rng.random() < 0.5)

    def attribute(self, config: OpConfig, rng: Rng) -> Change | None:
        """Another encoding of a tensor, or another place of an input's data; a type row leaves both open."""
        return rng.choice((self._encoding, self._static))(config, rng)

    def _drawn(self, kinds: Kinds, config: OpConfig, rng: Rng, follow: bool) -> Change | None:
        kind = rng.choices(list(kinds), list(kinds.values()))[0]
        change = kind(config, rng)
        if change is None:
            return None
        what, made = change
        made = self._followed(made) if follow else made
        made = _mapped(made, sparse_within) if self.compiled.reads_sparse else made
        tensors = (*made.inputs, *made.outputs)
        if any(len(t.shape) > MAX_RANK or math.prod(t.shape) > MOST for t in tensors):
            return None
        return (what, made) if made != config else None

    def _followed(self, config: OpConfig) -> OpConfig:
        """The config with the outputs inferred from it; unchanged if that fails."""
        dtypes = {s.name: "f32" for s in self.compiled.outputs}
        dtypes |= {slot_of(t): t.dtype for t in config.outputs}
        try:
            made = with_outputs(config, self.compiled, dtypes, self.infer)
        except (OverflowError, ValueError):
            return config
        if made is not None and self.spare:
            made = replace(made, outputs=made.outputs[: max(self.needed, len(config.outputs))])
        return config if made is None else made

    # -- tensors

    def _dtype(self, config: OpConfig, rng: Rng) -> Change | None:
        i = _drawn_tensor(config, rng)
        if i is None:
            return None
        old = _tensors(config)[i]
        dtype = rng.choice((*self.rows.get(slot_of(old), ()), *USUAL))
        return f"{old.name}: {dtype}", _with(config, i, retyped(old, dtype))

    def _dtypes(self, config: OpConfig, rng: Rng) -> Change | None:
        """Changes all tensors of one type."""
        i = _drawn_tensor(config, rng)
        if i is None:
            return None
        slot, old = slot_of(_tensors(config)[i]), _tensors(config)[i].dtype
        new = rng.choice((*self.rows.get(slot, ()), *USUAL))

        def change(t: TensorConfig) -> TensorConfig:
            return retyped(t, new) if t.dtype == old and t.type != ABSENT else t

        return f"types {old} become {new}", _mapped(config, change)

    def _dim(self, config: OpConfig, rng: Rng) -> Change | None:
        i = _drawn_tensor(config, rng)
        if i is None or not _tensors(config)[i].shape:
            return None
        t = _tensors(config)[i]
        axis = rng.randrange(t.rank)
        new = _near(t.shape[axis], rng)
        shape = (*t.shape[:axis], new, *t.shape[axis + 1 :])
        return f"{t.name}.shape[{axis}] = {new}", _with(config, i, reshaped(t, shape))

    def _resize(self, config: OpConfig, rng: Rng) -> Change | None:
        """Changes every dimension of one size, which usually is one symbol in a good config."""
        sizes = sorted({d for t in config.inputs for d in t.shape})
        if not sizes:
            return None
        old = rng.choice(sizes)
        new = _near(old, rng)

        def change(t: TensorConfig) -> TensorConfig:
            return reshaped(t, tuple(new if d == old else d for d in t.shape))

        return f"size {old} becomes {new}", _mapped(config, change)

    def _rank(self, config: OpConfig, rng: Rng) -> Change | None:
        i = _drawn_tensor(config, rng)
        if i is None:
            return None
        t = _tensors(config)[i]
        shape = rng.choice(((1, *t.shape), (*t.shape, rng.choice((1, 2))), t.shape[1:], t.shape[:-1]))
        return f"{t.name}: {list(shape)}", _with(config, i, reshaped(t, shape))

    def _lift(self, config: OpConfig, rng: Rng) -> Change | None:
        """Adds or removes a leading dimension in all inputs but weights; axes are shifted accordingly."""
        plain = [t for t in config.inputs if t.type != ABSENT and slot_of(t) not in self.held]
        if not plain or any(t.rank == 0 for t in plain):
            return None
        up = rng.random() < 0.5
        extra = rng.choice((1, 2))

        def change(t: TensorConfig) -> TensorConfig:
            return reshaped(t, (extra, *t.shape) if up else t.shape[1:])

        inputs = tuple(change(t) if t in plain else t for t in config.inputs)
        outputs = tuple(change(t) if t.shape else t for t in config.outputs)
        params = tuple(self._moved(p, 1 if up else -1) for p in config.params)
        return f"rank {'+' if up else '-'}1", replace(config, inputs=inputs, params=params, outputs=outputs)

    def _moved(self, p: ParamConfig, by: int) -> ParamConfig:
        kind = self.kinds.get(p.name)
        if kind == "axis" and p.shape is None and p.value + by >= 0:
            return replace(p, value=p.value + by)
        if kind in ("axes", "perm") and p.shape is not None:
            value = tuple(v + by for v in p.value if v + by >= 0)
            value = (0, *value) if kind == "perm" and by > 0 else value
            return replace(p, value=value, shape=(len(value),))
        return p

    def _encoding(self, config: OpConfig, rng: Rng) -> Change | None:
        tensors = _tensors(config)
        some = [i for i, t in enumerate(tensors) if BY_SHORT[t.dtype].quantized and t.type != ABSENT]
        if not some:
            return None
        i = rng.choice(some)
        quant = _drawn_encoding(tensors[i], rng)
        shown = "no encoding" if quant is None else quant.encoding
        return f"{tensors[i].name}: {shown}", _with(config, i, replace(tensors[i], quant=quant))

    def _static(self, config: OpConfig, rng: Rng) -> Change | None:
        some = [i for i, t in enumerate(config.inputs) if t.type != ABSENT]
        if not some:
            return None
        i = rng.choice(some)
        kind = "NATIVE" if config.inputs[i].type == "STATIC" else "STATIC"
        return f"{config.inputs[i].name} is {kind}", _with(config, i, replace(config.inputs[i], type=kind))

    def _sparse(self, config: OpConfig, rng: Rng) -> Change | None:
        """Makes a sparse tensor dense, or a dense one sparse."""
        tensors = _tensors(config)
        some = [i for i, t in enumerate(tensors) if t.rank and t.type != ABSENT]
        if not some:
            return None
        i = rng.choice(some)
        old = tensors[i]
        made = None if old.sparse else Sparse(rng.choice((1, 2, 5)), rng.randrange(old.rank) + 1)
        return f"{old.name} is {'sparse' if made else 'dense'}", _with(config, i, replace(old, sparse=made))

    # -- optional inputs and missing tensors

    def _input(self, config: OpConfig, rng: Rng) -> Change | None:
        """Adds a missing optional input, with the shape of another input or along an axis of one."""
        given = {slot_of(t) for t in config.inputs if t.type != ABSENT}
        free = [s for s in self.compiled.inputs if s.optional and not s.variadic and s.name not in given]
        if not free or not config.inputs:
            return None
        slot = rng.choice(free)
        like = rng.choice(config.inputs)
        shape = like.shape[rng.randrange(like.rank) :][:1] if like.rank and rng.random() < 0.7 else like.shape
        dtype = rng.choice(self.rows.get(slot.name) or USUAL)
        made = TensorConfig(slot.name, dtype, shape, "STATIC", quant=centered(dtype))
        order = {s.name: i for i, s in enumerate(self.compiled.inputs)}
        if any(s.variadic for s in self.compiled.inputs):
            return None  # positions are not slots
        kept = {
            order[slot_of(t)]: t for t in config.inputs if slot_of(t) in order and slot_of(t) != slot.name
        }
        last = max(order[slot.name], *kept) if kept else order[slot.name]
        absent = [TensorConfig(s.name, "f32", (), ABSENT) for s in self.compiled.inputs]
        inputs = [made if i == order[slot.name] else kept.get(i, absent[i]) for i in range(last + 1)]
        return f"{slot.name}: {dtype} {list(shape)}", replace(config, inputs=tuple(inputs))

    def _omit(self, config: OpConfig, rng: Rng) -> Change | None:
        """Replaces an input by a NULL tensor."""
        some = [i for i, t in enumerate(config.inputs) if t.type != ABSENT]
        if not some:
            return None
        i = rng.choice(some)
        gone = replace(config.inputs[i], type=ABSENT, shape=(), quant=None, data=None)
        return f"{gone.name} is omitted", _with(config, i, gone)

    def _drop(self, config: OpConfig, rng: Rng) -> Change | None:
        tensors = _tensors(config)
        if not tensors:
            return None
        i = rng.randrange(len(tensors))
        n = len(config.inputs)
        left = tensors[:i] + tensors[i + 1 :]
        n -= i < n
        made = replace(config, inputs=tuple(left[:n]), outputs=tuple(left[n:]))
        return f"{tensors[i].name} is taken away", made

    def _add(self, config: OpConfig, rng: Rng) -> Change | None:
        i = _drawn_tensor(config, rng)
        if i is None:
            return None
        t = replace(_tensors(config)[i], name="extra")
        if i < len(config.inputs):
            return "an input too many", replace(config, inputs=(*config.inputs, t))
        return "an output too many", replace(config, outputs=(*config.outputs, t))

    def _swap(self, config: OpConfig, rng: Rng) -> Change | None:
        if len(config.inputs) < 2:
            return None
        i, j = sorted(rng.sample(range(len(config.inputs)), 2))
        made = list(config.inputs)
        made[i], made[j] = made[j], made[i]
        return f"inputs {i} and {j} change places", replace(config, inputs=tuple(made))

    # -- parameters

    def _value(self, config: OpConfig, rng: Rng) -> Change | None:
        given = {p.name: p for p in config.params}
        some = [p for p in self.compiled.params if p.name in given]
        if not some:
            return None
        param = rng.choice(some)
        old = given[param.name]
        if old.shape is None:
            new = replace(old, value=_fitting(_drawn_value(param, old.value, config, rng), old, param))
            shown = new.value
        else:
            values = list(old.value)
            if not values:
                return None
            i = rng.randrange(len(values))
            if len(values) > 1 and rng.random() < 0.2:
                j = rng.randrange(len(values))
                values[i], values[j] = values[j], values[i]
            else:
                values[i] = _fitting(_drawn_value(param, values[i], config, rng), old, param)
            new = replace(old, value=tuple(values))
            shown = values
        return f"{param.name} = {shown}"[:60], _with_param(config, new)

    def _param_type(self, config: OpConfig, rng: Rng) -> Change | None:
        some = [p for p in config.params if p.dtype != "str"]
        if not some:
            return None
        p = rng.choice(some)
        dtype = rng.choice([d for d in ("i32", "u32", "f32", "bool8") if d != p.dtype])
        flat = (p.value,) if p.shape is None else p.value
        values = tuple(_converted(v, dtype) for v in flat)
        new = replace(p, dtype=dtype, value=values[0] if p.shape is None else values)
        return f"{p.name}: {dtype}", _with_param(config, new)

    def _param_shape(self, config: OpConfig, rng: Rng) -> Change | None:
        """Gives a tensor parameter another number of elements, or another rank; a scalar becomes a tensor."""
        some = [p for p in config.params if p.dtype != "str"]
        if not some:
            return None
        p = rng.choice(some)
        if p.shape is None:
            return f"{p.name}: a tensor", _with_param(config, replace(p, value=(p.value,), shape=(1,)))
        if len(p.shape) == 2 and rng.random() < 0.5:
            new = replace(p, shape=(len(p.value),))
        elif len(p.shape) == 2:
            row = p.value[: p.shape[1]]
            new = replace(p, value=(*p.value, *row), shape=(p.shape[0] + 1, p.shape[1]))
        elif rng.random() < 0.5 and p.value:
            new = replace(p, value=p.value[:-1], shape=(len(p.value) - 1,))
        elif p.value and rng.random() < 0.7:
            new = replace(
                p, value=(*p.value, rng.choice((p.value[-1], p.value[0], 0))), shape=(len(p.value) + 1,)
            )
        else:
            new = replace(p, shape=(1, len(p.value)))
        return f"{p.name}.shape = {list(new.shape or ())}", _with_param(config, new)

    def _leave_out(self, config: OpConfig, rng: Rng) -> Change | None:
        if not config.params:
            return None
        p = rng.choice(config.params)
        rest = tuple(q for q in config.params if q.name != p.name)
        return f"{p.name} is left out", replace(config, params=rest)

    def _give(self, config: OpConfig, rng: Rng) -> Change | None:
        """Adds a missing scalar parameter."""
        given = {p.name for p in config.params}
        free = [p for p in self.compiled.params if p.name not in given and not p.definition.dims]
        if not free:
            return None
        param = rng.choice(free)
        value = _drawn_value(param, None, config, rng)
        new = ParamConfig(param.name, param.definition.base, value)
        return f"{param.name} = {value}", replace(config, params=(*config.params, new))

    def _unknown(self, config: OpConfig, rng: Rng) -> Change | None:
        new = ParamConfig("no_such_parameter", "u32", rng.randrange(2))
        return "an unknown parameter", replace(config, params=(*config.params, new))


def retyped(tensor: TensorConfig, dtype: str) -> TensorConfig:
    """The tensor in another type, with its usual encoding; an encoding of another form stays on a quantized type."""
    old, new = tensor.quant, centered(dtype)
    keep = old is not None and new is not None and old.encoding != "SCALE_OFFSET"
    return replace(tensor, dtype=dtype, quant=old if keep else new, data=None)


def reshaped(tensor: TensorConfig, shape: tuple[int, ...]) -> TensorConfig:
    """The tensor in another shape, without its data."""
    return replace(resized(tensor, shape), data=None)


def _tensors(config: OpConfig) -> tuple[TensorConfig, ...]:
    return (*config.inputs, *config.outputs)


def _drawn_tensor(config: OpConfig, rng: Rng) -> int | None:
    """The index, among inputs and then outputs, of a random tensor that is present."""
    some = [i for i, t in enumerate(_tensors(config)) if t.type != ABSENT]
    return rng.choice(some) if some else None


def _with(config: OpConfig, i: int, tensor: TensorConfig) -> OpConfig:
    n = len(config.inputs)
    if i < n:
        return replace(config, inputs=(*config.inputs[:i], tensor, *config.inputs[i + 1 :]))
    return replace(config, outputs=(*config.outputs[: i - n], tensor, *config.outputs[i - n + 1 :]))


def _mapped(config: OpConfig, change: Callable[[TensorConfig], TensorConfig]) -> OpConfig:
    inputs, outputs = map(change, config.inputs), map(change, config.outputs)
    return replace(config, inputs=tuple(inputs), outputs=tuple(outputs))


def _with_param(config: OpConfig, param: ParamConfig) -> OpConfig:
    params = tuple(param if p.name == param.name else p for p in config.params)
    return replace(config, params=params)


def _near(size: int, rng: Rng) -> int:
    return rng.choice((size + 1, max(size - 1, 1), 2 * size, max(size // 2, 1), 1, rng.randrange(1, 9)))


def _drawn_encoding(t: TensorConfig, rng: Rng) -> Quant | None:
    usual = centered(t.dtype)
    assert usual is not None
    scale, middle = usual.scale[0], usual.offset[0]
    offset = rng.choice((middle, middle, middle - 7, 0, -1))
    form = rng.randrange(10)
    if form < 4 or not t.shape:
        return Quant("SCALE_OFFSET", (rng.choice((scale, 2 * scale, 0.1)),), (offset,))
    axis = rng.randrange(t.rank)
    many, bits = t.shape[axis], min(4, BY_SHORT[t.dtype].bits)
    if form < 7:
        return Quant("AXIS_SCALE_OFFSET", (scale,) * many, (offset,) * many, axis)
    if form == 7:
        return Quant("BW_SCALE_OFFSET", (scale,), (offset,), bits=bits)
    if form == 8:
        return Quant("BW_AXIS_SCALE_OFFSET", (scale,) * many, (offset,) * many, axis, bits)
    return None


def _drawn_value(param: Param, old: Any, config: OpConfig, rng: Rng) -> Any:
    """A value near the present one, at the edges of what ranks and sizes allow, sometimes far away."""
    d = param.definition
    if d.enum:
        known = sorted(d.enum.values())
        return rng.choice((*known, *known, known[-1] + 1))
    if d.base == "bool8":
        return rng.random() < 0.5 if old is None else not old
    if d.base == "str":
        return rng.choice(("", "a"))
    if BY_SHORT[d.base].qnn.startswith(("FLOAT", "BFLOAT")):
        return rng.choice((0.0, 1.0, -1.0, 0.5, 2.0, 1e-6, 6.0))
    rank = max((t.rank for t in config.inputs), default=0)
    sizes = [s for t in config.inputs for s in t.shape] or [1]
    near = 0 if old is None else int(old)
    value = rng.choice((near + 1, near - 1, 0, 1, 2, 3, rank - 1, rank, rng.choice(sizes), -1, near * 2))
    signed = not BY_SHORT[d.base].qnn.startswith("U")
    return _clipped(value, BY_SHORT[d.base].bits, signed)


def _clipped(value: int, bits: int, signed: bool) -> int:
    half = 1 << (bits - 1)
    low, high = (-half, half - 1) if signed else (0, 2 * half - 1)
    return min(max(value, low), high)


def _fitting(value: Any, given: ParamConfig, param: Param) -> Any:
    """A drawn value, converted if the parameter has another type."""
    return value if given.dtype == param.definition.base else _converted(value, given.dtype)


def _converted(value: Any, dtype: str) -> Any:
    if dtype == "bool8":
        return bool(value)
    if dtype == "f32":
        return float(value)
    return _clipped(int(value), 32, dtype == "i32")
