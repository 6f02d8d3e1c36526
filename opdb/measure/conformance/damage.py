"""Makes one-step changes of a good op config: every small change of a type, size, encoding, parameter, presence or SoC.

The outputs are inferred again if possible, so that a change breaks as few rules as possible.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from opdb.codegen.rules import all_rules, rule_nodes
from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import (
    INTEGER,
    MAX_DIM,
    MAX_RANK,
    OpConfig,
    ParamConfig,
    Quant,
    Sparse,
    TensorConfig,
    centered,
)
from opdb.judge.samples import ABSENT, resized, slot_of, sparse_within, with_outputs
from opdb.spec.definitions import CompiledOp, Param
from opdb.spec.lang.analyze import free_names
from opdb.spec.lang.nodes import walk

#: Types that no row of any op has: they only break rules on types.
FOREIGN = ("f64", "i64", "bf16")


@dataclass(frozen=True)
class Damage:
    """A changed config, judged for ``soc``; ``what`` describes the change; e.g. axes[0] = 3."""

    what: str
    config: OpConfig
    soc: str
    kind: str  # what was changed: attribute, presence, dtype, shape, param, output, soc


class Damages:
    """All damages to configs of one op.  ``socs`` are the chips to try if a verdict depends on one."""

    def __init__(self, compiled: CompiledOp, socs: tuple[str, ...]) -> None:
        self.compiled, self.socs = compiled, socs
        self.kinds = {p.name: p.definition.kind for p in compiled.params}
        self.pool = _dtype_pool(compiled)
        self.groups = _groups(compiled)
        parts = [n for top in rule_nodes(all_rules(compiled)) for n in walk(top)]
        self.read = {n.value for n in parts if n.kind == "attr"}

    def of(self, config: OpConfig, soc: str, names: frozenset[str] | None = None) -> Iterator[Damage]:
        """Yields every one-step damage, in a fixed order, without repetition; with ``names`` only damages to these targets."""
        seen = {config}
        kinds = {"attribute": self.attributes, "presence": self._presence, "dtype": self._dtypes,
                 "shape": self._shapes, "param": self._params, "output": self._outputs}  # fmt: skip
        for kind, each in kinds.items():
            for what, changed in each(config):
                if names is not None and damaged(what) not in names:
                    continue
                changed = self._completed(changed) if kind in ("dtype", "shape", "param") else changed
                changed = _sayable(changed) if self.compiled.reads_sparse else changed
                if changed not in seen:
                    seen.add(changed)
                    yield Damage(what, changed, soc, kind)
        for other in self.socs if soc else ():
            if other != soc and (names is None or "SoC" in names):
                yield Damage(f"SoC {other}", config, other, "soc")

    def attributes(self, config: OpConfig) -> Iterator[tuple[str, OpConfig]]:
        """Changes an input's encoding or the place of its data, which a type row leaves open."""
        for i, tensor in enumerate(config.inputs):
            if tensor.type == ABSENT:
                continue
            for other in ("NATIVE", "STATIC", *(["APP_WRITE"] if "type" in self.read else [])):
                if other != tensor.type:
                    yield f"{tensor.name} is {other}", _input(config, i, replace(tensor, type=other))
            for data in _data(tensor) if "values" in self.read else ():
                held = replace(tensor, type="STATIC", data=data)
                yield f"{tensor.name} holds {_short(data)}", _input(config, i, held)
            if self.compiled.reads_sparse and tensor.rank:
                turned = None if tensor.sparse else Sparse(1, tensor.rank)
                yield (
                    f"{tensor.name} turns sparse or dense",
                    _input(config, i, replace(tensor, sparse=turned)),
                )
            if BY_SHORT[tensor.dtype].quantized:
                for quant in _encodings(tensor):
                    yield f"{tensor.name}: {_shown(quant)}", _input(config, i, replace(tensor, quant=quant))

    def _completed(self, config: OpConfig) -> OpConfig:
        """The config with inferred outputs; unchanged if inference fails."""
        dtypes = {s.name: "f32" for s in self.compiled.outputs} | {
            slot_of(t): t.dtype for t in config.outputs
        }
        try:
            made = with_outputs(config, self.compiled, dtypes)
        except (OverflowError, ValueError):
            made = None
        fits = made is not None and all(
            len(t.shape) <= MAX_RANK and all(d <= MAX_DIM for d in t.shape) for t in made.outputs
        )
        return made if made is not None and fits else config

    # -- tensors

    def _dtypes(self, config: OpConfig) -> Iterator[tuple[str, OpConfig]]:
        """Changes one tensor's type, then the type of all tensors with the same type."""
        for i, tensor in enumerate(config.inputs):
            if tensor.type != ABSENT:
                for dtype in self.pool.get(slot_of(tensor), ()):
                    yield f"{tensor.name}: {dtype}", _input(config, i, _typed(tensor, dtype))
        for old in dict.fromkeys(t.dtype for t in (*config.inputs, *config.outputs)):
            for new in dict.fromkeys(d for pool in self.pool.values() for d in pool):
                inputs = tuple(_typed(t, new) if t.dtype == old else t for t in config.inputs)
                outputs = tuple(_typed(t, new) if t.dtype == old else t for t in config.outputs)
                yield f"types {old} become {new}", replace(config, inputs=inputs, outputs=outputs)

    def _shapes(self, config: OpConfig) -> Iterator[tuple[str, OpConfig]]:
        for i, tensor in enumerate(config.inputs):
            if tensor.type != ABSENT:
                for shape in _shapes(tensor.shape):
                    yield f"{tensor.name}: {list(shape)}", _input(config, i, resized(tensor, shape))
        sizes = dict.fromkeys(d for t in config.inputs for d in t.shape)
        for old in sizes:
            for new in (old - 1, old + 1, 2 * old):
                yield f"size {old} becomes {new}", _resized(config, old, new)
        for rank in (5, 6):
            yield f"rank {rank}", self._lifted(config, rank)

        for param in self.compiled.params:
            if param.definition.base == "bool8":
                yield from self._turned(config, param)

    def _turned(self, config: OpConfig, param: Param) -> Iterator[tuple[str, OpConfig]]:
        """Flips a flag, and swaps an input's last two dimensions with it; e.g. transpose_in1 of MatMul."""
        flag = any(p.name == param.name and p.value for p in config.params)
        rest = tuple(p for p in config.params if p.name != param.name)
        made = (*rest, ParamConfig(param.name, "bool8", not flag))
        for i, t in enumerate(config.inputs):
            if t.rank >= 2:
                shape, last = (*t.shape[:-2], t.shape[-1], t.shape[-2]), (t.rank - 2, t.rank - 1)
                quant = t.quant
                if quant is not None and quant.axis in last:
                    quant = replace(quant, axis=sum(last) - quant.axis)
                turned = replace(_input(config, i, replace(t, shape=shape, quant=quant)), params=made)
                yield f"{param.name} = {not flag}, {t.name} turned", turned

    def _lifted(self, config: OpConfig, rank: int) -> OpConfig:
        """All inputs but weights with leading ones up to ``rank``; axes are shifted accordingly."""
        plain = [t for t in config.inputs if t.type == "NATIVE"]
        by = max(0, rank - max((t.rank for t in plain), default=rank))
        if by == 0:
            return config
        inputs = tuple(replace(t, shape=(1,) * by + t.shape) if t in plain else t for t in config.inputs)
        outputs = tuple(replace(t, shape=(1,) * by + t.shape) for t in config.outputs)
        params = []
        for p in config.params:
            kind = self.kinds.get(p.name)
            if kind == "axis" and p.shape is None:
                p = replace(p, value=p.value + by)
            elif kind in ("axes", "perm") and p.shape is not None:
                head = tuple(range(by)) if kind == "perm" else ()
                value = head + tuple(v + by for v in p.value)
                p = replace(p, value=value, shape=(len(value),))
            params.append(p)
        return replace(config, inputs=inputs, outputs=outputs, params=tuple(params))

    def _presence(self, config: OpConfig) -> Iterator[tuple[str, OpConfig]]:
        given = {slot_of(t): i for i, t in enumerate(config.inputs) if t.type != ABSENT}
        for i, tensor in enumerate(config.inputs):
            if tensor.type != ABSENT:
                gone = replace(tensor, type=ABSENT, quant=None, shape=())
                yield f"{tensor.name} is omitted", _input(config, i, gone)
                rest = config.inputs[:i] + config.inputs[i + 1 :]
                yield f"{tensor.name} is taken away", replace(config, inputs=rest)
        for slot in self.compiled.inputs:
            if slot.optional and slot.name not in given:
                for dtype in self.pool[slot.name]:
                    for n in dict.fromkeys(d for t in config.outputs for d in (*t.shape[-1:], t.rank)):
                        tensor = TensorConfig(slot.name, dtype, (n,), "STATIC", quant=centered(dtype))
                        kept = tuple(t for t in config.inputs if slot_of(t) != slot.name)
                        yield f"{slot.name}: {dtype} [{n}]", replace(config, inputs=(*kept, tensor))
        if not config.inputs:
            return
        yield from self._coupled(config, given)
        first = config.inputs[0]
        extra = tuple(replace(first, name=f"extra{i}") for i in range(len(self.compiled.inputs)))
        yield "inputs too many", replace(config, inputs=config.inputs + extra)

    def _coupled(self, config: OpConfig, given: Mapping[str, int]) -> Iterator[tuple[str, OpConfig]]:
        """Adds all omitted inputs that a rule reads together, in the types of a row."""
        rows = [r for rows in self.compiled.type_rows.values() for r in rows]
        tensors = [t for t in (*config.inputs, *config.outputs) if t.type != ABSENT]
        fits = [r for r in rows if all(t.dtype in r.cells.get(slot_of(t), ()) for t in tensors)][:1]
        for group in self.groups:
            missing = [n for n in group if n not in given]
            if len(missing) < 2:
                continue
            dtypes = {n: (*(r.cells[n][0] for r in fits if r.cells[n]), *self.pool[n])[0] for n in missing}
            kept = tuple(t for t in config.inputs if slot_of(t) not in missing)
            for n in dict.fromkeys(d for t in config.outputs for d in t.shape[-1:]):
                made = tuple(
                    TensorConfig(m, dtypes[m], (n,), "STATIC", quant=centered(dtypes[m])) for m in missing
                )
                yield f"presence of {', '.join(missing)}: [{n}]", replace(config, inputs=(*kept, *made))

    def _outputs(self, config: OpConfig) -> Iterator[tuple[str, OpConfig]]:
        outputs = config.outputs
        if not outputs:
            like = config.inputs[:1] or (TensorConfig("extra", "f32", (1,)),)
            yield "an output too many", replace(config, outputs=(replace(like[0], name="extra"),))
            return
        if self.compiled.reads_sparse:
            for i, t in enumerate(outputs):
                turned = replace(t, sparse=None if t.sparse else Sparse(1, t.rank))
                made = (*outputs[:i], turned, *outputs[i + 1 :])
                yield f"{t.name} turns sparse or dense", replace(config, outputs=made)
        yield "no outputs", replace(config, outputs=())
        yield "an output too many", replace(config, outputs=(*outputs, replace(outputs[0], name="extra")))
        if len(outputs) > 1:
            yield "an output too few", replace(config, outputs=outputs[:-1])
        again = replace(outputs[-1], name=f"{slot_of(outputs[-1])}[{len(outputs)}]")
        yield "an output twice", replace(config, outputs=(*outputs, again))
        for i, tensor in enumerate(outputs):
            changed = [(f"{tensor.name}: {d}", _typed(tensor, d)) for d in self.pool.get(slot_of(tensor), ())]
            changed += [
                (f"{tensor.name}: {list(s)}", replace(tensor, shape=s)) for s in _shapes(tensor.shape)
            ]
            if BY_SHORT[tensor.dtype].quantized:
                changed += [
                    (f"{tensor.name}: {_shown(q)}", replace(tensor, quant=q)) for q in _encodings(tensor)
                ]
            if "type" in self.read:
                changed += [(f"{tensor.name} is APP_WRITE", replace(tensor, type="APP_WRITE"))]
            for what, t in changed:
                yield what, replace(config, outputs=(*outputs[:i], t, *outputs[i + 1 :]))
            if BY_SHORT[tensor.dtype].quantized:
                yield from self._encoded_alike(config, tensor)

    def _encoded_alike(self, config: OpConfig, output: TensorConfig) -> Iterator[tuple[str, OpConfig]]:
        """Changes the encoding of all tensors of an output's type together, as ops that only move data require."""
        tensors = (*config.inputs, *config.outputs)
        rank = min(t.rank for t in tensors if t.dtype == output.dtype and t.type != ABSENT)
        for quant in _encodings(output):
            if quant.axis is not None and quant.axis >= rank:
                continue
            inputs = tuple(_like(t, output.dtype, quant) for t in config.inputs)
            outputs = tuple(_like(t, output.dtype, quant) for t in config.outputs)
            yield f"encodings: {_shown(quant)}", replace(config, inputs=inputs, outputs=outputs)
            if len(outputs) > 1:
                yield f"encodings: {_shown(quant)} of outputs", replace(config, outputs=outputs)

    # -- parameters

    def _params(self, config: OpConfig) -> Iterator[tuple[str, OpConfig]]:
        given = {p.name: p for p in config.params}
        for param in self.compiled.params:
            p = given.get(param.name)
            rest = tuple(q for q in config.params if q.name != param.name)
            if p is not None:
                yield f"{param.name} is left out", replace(config, params=rest)
                other = "i32" if p.dtype != "i32" else "u32"
                wrong = ParamConfig(p.name, other, 0 if p.shape is None else (0,) * len(p.value), p.shape)
                yield f"{p.name}: {other}", replace(config, params=(*rest, wrong))
            for value in _values(param, p, config):
                made = _param(param, value)
                yield f"{param.name} = {_short(value)}", replace(config, params=(*rest, made))
        unknown = ParamConfig("no_such_parameter", "u32", 0)
        yield "unknown parameter", replace(config, params=(*config.params, unknown))


def damaged(what: str) -> str:
    """The target of a damage: a slot, a parameter, SoC...; e.g. xs of "xs[1]: u8"."""
    return what.split(" ")[0].rstrip(":").partition("[")[0]


def _groups(compiled: CompiledOp) -> tuple[tuple[str, ...], ...]:
    """The optional inputs that rules read together."""
    rules = (*compiled.rules, *(r for own in compiled.backend_rules.values() for r in own))
    optional = [s.name for s in compiled.inputs if s.optional and not s.variadic]
    read = [{n for node in (r.require, r.when) if node is not None for n in free_names(node)} for r in rules]
    found = [tuple(n for n in optional if n in names) for names in read]
    return tuple(dict.fromkeys(g for g in found if len(g) > 1))


def _dtype_pool(compiled: CompiledOp) -> Mapping[str, tuple[str, ...]]:
    """The types that rows of any backend, or the definition, allow for each slot; plus foreign ones."""
    rows = [r for rows in compiled.type_rows.values() for r in rows]
    return {
        s.name: tuple(
            dict.fromkeys([*s.definition.dtype, *(d for r in rows for d in r.cells[s.name]), *FOREIGN])
        )
        for s in compiled.slots
    }


def _input(config: OpConfig, i: int, tensor: TensorConfig) -> OpConfig:
    return replace(config, inputs=(*config.inputs[:i], tensor, *config.inputs[i + 1 :]))


def _typed(tensor: TensorConfig, dtype: str) -> TensorConfig:
    """The tensor in another type; an encoding other than the usual one stays."""
    old, new = tensor.quant, centered(dtype)
    unusual = old is not None and new is not None and old.encoding != "SCALE_OFFSET"
    return replace(tensor, dtype=dtype, quant=old if unusual else new)


def _shapes(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for i, d in enumerate(shape):
        for new in dict.fromkeys((d + 1, d - 1, 2 * d, 1, 0)):
            if new != d and new >= 0:
                yield (*shape[:i], new, *shape[i + 1 :])
    yield (1, *shape)
    yield (*shape, 1)
    if shape:
        yield shape[1:]
        yield shape[:-1]
        yield ()


def _resized(config: OpConfig, old: int, new: int) -> OpConfig:
    """Changes every size ``old`` to ``new``, in inputs and outputs."""

    def change(t: TensorConfig) -> TensorConfig:
        return resized(t, tuple(max(new, 0) if d == old else d for d in t.shape)) if old in t.shape else t

    return replace(
        config, inputs=tuple(map(change, config.inputs)), outputs=tuple(map(change, config.outputs))
    )


def _sayable(config: OpConfig) -> OpConfig:
    inputs, outputs = (tuple(map(sparse_within, group)) for group in (config.inputs, config.outputs))
    return replace(config, inputs=inputs, outputs=outputs)


def _data(tensor: TensorConfig) -> Iterator[tuple[int, ...]]:
    """Yields values that an integer tensor may hold: zeros, ascending, one below zero, one that is large."""
    count = math.prod(tensor.shape)
    if INTEGER.fullmatch(tensor.dtype) and 0 < count <= 64:
        ascending = tuple(range(count))
        yield (0,) * count
        yield ascending
        yield (*ascending[:-1], 99)
        if tensor.dtype.startswith("i"):
            yield (*ascending[:-1], -1)


def _encodings(tensor: TensorConfig) -> Iterator[Quant]:
    """Yields encodings: symmetric and not; along each axis; with fewer bits; in blocks."""
    plain, kind = centered(tensor.dtype), BY_SHORT[tensor.dtype]
    assert plain is not None
    scale, middle = plain.scale[0], plain.offset[0]
    yield Quant("SCALE_OFFSET", (scale,), (middle,))
    yield Quant("SCALE_OFFSET", (scale,), (middle - 7,))
    yield Quant("SCALE_OFFSET", (3.5,), (middle,))
    yield Quant("SCALE_OFFSET", (2.0**-kind.bits,), (0,))  # [0, 1) of an unsigned type
    yield Quant("SCALE_OFFSET", (2.0 ** (1 - kind.bits),), (middle,))  # [-1, 1)
    bits = min(4, kind.bits)
    yield Quant("BW_SCALE_OFFSET", (scale,), (middle,), bits=bits)
    for axis, size in enumerate(tensor.shape):
        for offset in (middle, middle - 7):
            yield Quant("AXIS_SCALE_OFFSET", (scale,) * size, (offset,) * size, axis)
        yield Quant("BW_AXIS_SCALE_OFFSET", (scale,) * size, (middle,) * size, axis, bits)
        yield Quant("BLOCKWISE_EXPANSION", (scale,) * size, (middle,) * size, axis)
    yield Quant("BLOCK", (scale,), (middle,), block_size=tensor.shape or (1,))


def _like(tensor: TensorConfig, dtype: str, quant: Quant) -> TensorConfig:
    """The tensor with this encoding, if it has the type; along an axis with a scale for each index."""
    if tensor.dtype != dtype or tensor.type == ABSENT:
        return tensor
    return resized(replace(tensor, quant=quant), tensor.shape)


def _shown(quant: Quant) -> str:
    axis = "" if quant.axis is None else f" along axis {quant.axis}"
    scale, offset = quant.scale[0] if quant.scale else 0.0, quant.offset[0] if quant.offset else 0
    return f"{quant.encoding}{axis}, scale {scale:g}, offset {offset}"


def _values(param: Param, given: ParamConfig | None, config: OpConfig) -> Iterator[Any]:
    """Yields values to try: around the present one, at the edges of what ranks and sizes allow, absurd ones."""
    d = param.definition
    if d.enum:
        yield from (*sorted(d.enum.values()), max(d.enum.values()) + 1)
    elif d.dims:
        if given is not None and given.shape is not None:
            yield from _lists(given, len(d.dims))
        elif given is None and len(d.dims) == 1 and d.base.startswith(("u", "i")):
            yield [0] * (d.dims[0] or 1)
    elif d.base == "bool8":
        yield from (True, False)
    elif d.base.startswith(("f", "bf")):
        yield from (-1.0, 0.0, 0.5, 2.0)
    else:
        rank = max((t.rank for t in config.inputs), default=0)
        yield from dict.fromkeys((0, 1, 2, 3, 4, 5, 7, rank, 2**31))


def _lists(given: ParamConfig, rank: int) -> Iterator[Any]:
    assert given.shape is not None
    values = list(given.value)
    width = given.shape[1] if rank == 2 else 1

    def nested(flat: list[Any]) -> Any:
        return flat if rank == 1 else [flat[i : i + width] for i in range(0, len(flat), max(width, 1))]

    for i, v in enumerate(values):
        for new in dict.fromkeys((0, 1, 2, 3, 5, 6, 7, v + 1, v + 4)):
            if new != v:
                yield nested([*values[:i], new, *values[i + 1 :]])
    if len(values) > 1:
        yield nested(values[::-1])
        yield nested([values[0]] * len(values))
    if rank == 1:
        yield values[:-1]
        yield []
        yield [*values, *values[-1:]]
        yield [*values, *[v + 1 for v in values[-1:]]]
        yield [*values[:-1], *[v - 1 for v in values[-1:] if v > 0]]
    else:
        yield [*nested(values), values[:width]]


def _param(param: Param, value: Any) -> ParamConfig:
    d = param.definition
    if not d.dims:
        return ParamConfig(param.name, d.base, value)
    if len(d.dims) == 1:
        return ParamConfig(param.name, d.base, tuple(value), (len(value),))
    width = len(value[0]) if value else 0
    return ParamConfig(param.name, d.base, tuple(v for row in value for v in row), (len(value), width))


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."
