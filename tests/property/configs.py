"""Op configs for tests: valid ones from a spec's samples, near-valid ones by damage, and random ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from opdb.catalog.targets.target import Target
from opdb.core.dtypes import BY_SHORT, DTYPES
from opdb.core.op_config import ENCODINGS, MAX_DIM, OpConfig, ParamConfig, Quant, Sparse, TensorConfig
from opdb.generated import validators
from opdb.judge.samples import sparse_within
from opdb.runtime.binding import Context
from opdb.runtime.checks import Undecidable
from opdb.spec.definitions import CompiledOp, Param, Slot

#: The op definition only, and two backends on three Hexagon versions.
CPU = (Context("CPU", 2025), Context("CPU", 2047))
#: SM8635 has no floating point.
PLACES = (("SA8295", "2.25"), ("SM8550", "2.25"), ("SM8650", "2.47"), ("SM8635", "2.47"))
HTP = tuple(Target("HTP", soc, sdk).context() for soc, sdk in PLACES)
CONTEXTS = (Context(), *CPU, *HTP)
#: Backends for which there are only documents.
OTHERS = tuple(Context(b, 2025) for b in ("GPU", "DSP", "HTA", "LPAI"))
ABSENT = TensorConfig("", "f32", (), "NULL")
Infer = Callable[[OpConfig], dict[str, Any]]


def infer(config: OpConfig) -> dict[str, Any]:
    module = validators.module(config.op)
    assert module is not None
    shapes: dict[str, Any] = module.infer(config)
    return shapes


class Maker:
    """Configs of one op; everything is drawn from ``rng``."""

    def __init__(self, op: CompiledOp, rng: random.Random, infer: Infer = infer) -> None:
        self.op, self.rng, self.infer = op, rng, infer
        self.enums = {v: n for p in op.params for v, n in p.definition.enum.items()}

    # -- valid

    def valid(self) -> OpConfig:
        """A sample with its outputs inferred, randomly with the types of a row and equivalent spellings."""
        sample = self.rng.choice(self.op.definition.samples)
        row = self.row()
        inputs = [t for s in self.op.inputs for t in self.tensors(s, sample.get(s.name), row)]
        while inputs and inputs[-1] is ABSENT:
            inputs.pop()
        params = [self.param(p, sample[p.name]) for p in self.op.params if p.name in sample]
        config = OpConfig(self.op.name, tuple(inputs), tuple(params))
        made = replace(config, outputs=self.outputs(config, sample, row))
        return self.sparse(made) if self.op.reads_sparse else made

    def sparse(self, config: OpConfig) -> OpConfig:
        """Makes required tensors sparse, and others at random."""

        def fitting(t: TensorConfig, slot: Slot) -> TensorConfig:
            wanted = slot.name in self.op.sparse or self.rng.random() < 0.2
            return replace(t, sparse=Sparse(1, t.rank)) if wanted and t.rank else t

        inputs, outputs = (
            tuple(map(fitting, tensors, slots)) for tensors, slots in
            ((config.inputs, self.op.inputs), (config.outputs, self.op.outputs))
        )  # fmt: skip
        return replace(config, inputs=inputs, outputs=outputs)

    def row(self) -> dict[str, str]:
        """One combination of dtypes, mostly of a documented row."""
        rows = [r for group in self.op.type_rows.values() for r in group]
        if not rows or self.rng.random() < 0.2:
            dtype = self.rng.choice(("f32", "f16", "uq8", "i32"))
            return {s.name: dtype for s in self.op.slots}
        return {slot: self.rng.choice(cell) for slot, cell in self.rng.choice(rows).cells.items()}

    def tensors(self, slot: Slot, shapes: Any, row: dict[str, str]) -> list[TensorConfig]:
        if shapes is None:
            return [] if slot.variadic else [ABSENT]
        many = shapes if slot.variadic else [shapes]
        dtype = slot.definition.dtype[0] if slot.definition.dtype else row[slot.name]
        return [self.tensor(tuple(s), dtype, slot.definition.static) for s in many]

    def tensor(self, shape: tuple[int, ...], dtype: str, static: bool = False) -> TensorConfig:
        kind = "STATIC" if static or self.rng.random() < 0.3 else "NATIVE"
        quant = (
            self.quant(len(shape), dtype) if BY_SHORT[dtype].quantized or self.rng.random() < 0.05 else None
        )
        return TensorConfig("", dtype, shape, kind, None, quant)

    def quant(self, rank: int, dtype: str) -> Quant:
        """Randomly symmetric: real zero in the middle of the stored range, which depends on the type."""
        kind = BY_SHORT[dtype]
        middle = -(2 ** (kind.bits - 1)) if kind.quantized and kind.qnn.startswith("U") else 0
        encoding = self.rng.choice(ENCODINGS) if self.rng.random() < 0.4 else "SCALE_OFFSET"
        axis = (
            self.rng.choice((0, 1, max(rank - 1, 0))) if "AXIS" in encoding or "BLOCK" in encoding else None
        )
        scale = self.rng.choice((0.5, 0.5, 0.1))
        return Quant(encoding, (scale,), (self.rng.choice((middle, middle, 0, -3)),), axis)

    def param(self, p: Param, value: Any) -> ParamConfig:
        d = p.definition
        if d.dims:
            rows = value if len(d.dims) == 2 else [value]
            shape = (len(value), len(rows[0]) if rows else 0) if len(d.dims) == 2 else (len(value),)
            return ParamConfig(p.name, d.base, tuple(v for r in rows for v in r), shape)
        if d.enum:
            value = d.enum.get(value, value)
        if d.base.startswith(("f", "bf")):
            value = float(value)
        return ParamConfig(p.name, d.base, bool(value) if d.base == "bool8" else value)

    def outputs(
        self, config: OpConfig, sample: dict[str, Any], row: dict[str, str]
    ) -> tuple[TensorConfig, ...]:
        try:
            shapes = self.infer(config)
        except Undecidable:
            shapes = {s.name: sample.get(s.name, [[1]] if s.variadic else [1]) for s in self.op.outputs}
        out = []
        for slot in self.op.outputs:
            if slot.optional and self.rng.random() < 0.3:
                out.append(ABSENT)
                continue
            found = shapes[slot.name]
            for shape in found if slot.variadic else [found]:
                out.append(self.tensor(tuple(min(max(d, 0), MAX_DIM) for d in shape), row[slot.name]))
        return tuple(out)

    # -- random

    def random(self) -> OpConfig:
        """Random configs of the right form: numbers of tensors, shapes, parameters."""
        rng = self.rng
        inputs = [
            self.any_tensor() for _ in range(max(len(self.op.inputs) + rng.choice((-1, 0, 0, 0, 0, 1)), 0))
        ]
        outputs = [
            self.any_tensor() for _ in range(max(len(self.op.outputs) + rng.choice((-1, 0, 0, 0, 0, 1)), 0))
        ]
        params = [self.any_param(p) for p in self.op.params if p.required or rng.random() < 0.5]
        if rng.random() < 0.05:
            params.append(ParamConfig("surplus", "u32", 1))
        return OpConfig(self.op.name, tuple(inputs), tuple(params), tuple(outputs))

    def any_tensor(self) -> TensorConfig:
        if self.rng.random() < 0.1:
            return ABSENT
        rank = self.rng.choice((0, 1, 2, 2, 3, 3, 4, 4, 5, 16))
        return self.tensor(tuple(self.any_dim() for _ in range(rank)), self.any_dtype())

    def any_dim(self) -> int:
        return self.rng.choice((0, 1, 1, 2, 2, 3, 4, 5, 8, MAX_DIM))

    def any_dtype(self) -> str:
        return self.rng.choice(("f32", "f16", "uq8", "i32", self.rng.choice(DTYPES).short))

    def any_param(self, p: Param) -> ParamConfig:
        d, rng = p.definition, self.rng
        dims = [rng.choice((0, 1, 2, 2, 3, 70)) if v is None else v for v in d.dims]
        if dims:
            size = 1
            for n in dims:
                size *= n
            return ParamConfig(p.name, d.base, tuple(self.any_value(p) for _ in range(size)), tuple(dims))
        return ParamConfig(p.name, d.base, self.any_value(p))

    def any_value(self, p: Param) -> Any:
        d, rng = p.definition, self.rng
        if d.enum:
            return rng.choice([*d.enum.values(), max(d.enum.values()) + 1])
        if d.base.startswith(("f", "bf")):
            return rng.choice(
                (0.0, 1.0, -1.0, 0.1, 1e-30, 3e38, float("inf"), float("nan"), rng.uniform(-5, 5))
            )
        if d.base == "bool8":
            return rng.random() < 0.5
        top = 2**32 - 1 if d.base.startswith("u") else 2**31 - 1
        return rng.choice((0, 1, 2, 3, 4, rng.randint(0, 9), top))

    # -- damage

    def damaged(self, config: OpConfig) -> OpConfig:
        """``config`` with one thing changed."""
        forms = (
            [self._tensor_damage] * 5
            + [self._slots_damage, self._raised]
            + [self._param_damage] * (3 if self.op.params else 0)
        )
        made = self.rng.choice(forms)(config)
        inputs, outputs = (tuple(map(sparse_within, group)) for group in (made.inputs, made.outputs))
        return replace(made, inputs=inputs, outputs=outputs) if self.op.reads_sparse else made

    def _raised(self, config: OpConfig) -> OpConfig:
        """All tensors with leading dimensions of 1, which breaks only limits of ranks."""
        ones = (1,) * self.rng.randint(1, 5)

        def raised(tensors: tuple[TensorConfig, ...]) -> tuple[TensorConfig, ...]:
            return tuple(t if t.type == "NULL" else replace(t, shape=(ones + t.shape)[-16:]) for t in tensors)

        return replace(config, inputs=raised(config.inputs), outputs=raised(config.outputs))

    def _tensor_damage(self, config: OpConfig) -> OpConfig:
        group = self.rng.choice(("inputs", "outputs"))
        tensors = list(getattr(config, group))
        if not tensors:
            return config
        i = self.rng.randrange(len(tensors))
        t = tensors[i]
        tensors[i] = self.rng.choice((self._shape, self._shape, self._dtype, self._state))(t)
        return replace(config, **{group: tuple(tensors)})

    def _shape(self, t: TensorConfig) -> TensorConfig:
        shape, rng = list(t.shape), self.rng
        where = rng.randint(0, len(shape))
        action = rng.choice(("insert", "delete", "add", "set", "swap"))
        if action == "insert" or not shape:
            shape.insert(where, rng.choice((1, 1, 2, 3)))
        elif action == "delete":
            del shape[where % len(shape)]
        elif action == "add":
            shape[where % len(shape)] = max(shape[where % len(shape)] + rng.choice((-1, 1)), 0)
        elif action == "set":
            shape[where % len(shape)] = self.any_dim()
        else:
            other = rng.randrange(len(shape))
            a = where % len(shape)
            shape[a], shape[other] = shape[other], shape[a]
        return replace(t, shape=tuple(shape[:16]))

    def _dtype(self, t: TensorConfig) -> TensorConfig:
        return replace(t, dtype=self.any_dtype())

    def _state(self, t: TensorConfig) -> TensorConfig:
        changes: list[dict[str, Any]] = [
            {"type": "STATIC" if t.type != "STATIC" else "NATIVE"},
            {"quant": None},
            {"quant": self.quant(len(t.shape), t.dtype)},
            {"quant": Quant("AXIS_SCALE_OFFSET", (1.0,), (0,), self.rng.randint(0, 3))},
        ]
        return replace(t, **self.rng.choice(changes))

    def _slots_damage(self, config: OpConfig) -> OpConfig:
        group = self.rng.choice(("inputs", "outputs"))
        tensors = list(getattr(config, group))
        action = self.rng.choice(("append", "drop", "null", "many", "swap"))
        if action == "append" or not tensors:
            tensors.append(self.any_tensor())
        elif action == "many":
            tensors += [self.rng.choice(tensors)] * self.rng.choice((1, 2, 66))
        else:
            i = self.rng.randrange(len(tensors))
            if action == "drop":
                del tensors[i]
            elif action == "null":
                tensors[i] = ABSENT
            else:
                tensors[0], tensors[i] = tensors[i], tensors[0]
        return replace(config, **{group: tuple(tensors)})

    def _param_damage(self, config: OpConfig) -> OpConfig:
        params, rng = list(config.params), self.rng
        p = rng.choice(self.op.params)
        at = next((i for i, c in enumerate(params) if c.name == p.name), None)
        action = rng.choice(
            ("value", "value", "value", "element", "drop", "twice", "unknown", "dtype", "shape")
        )
        if at is None:
            params.append(self.any_param(p))
        elif action == "drop":
            del params[at]
        elif action == "twice":
            params.append(params[at])
        elif action == "unknown":
            params.append(replace(params[at], name=rng.choice((p.name + "s", "axis", "surplus"))))
        elif action == "dtype":
            params[at] = replace(params[at], dtype=rng.choice(("i32", "u32", "f32", "bool8", "u8")))
        elif action == "shape":
            params[at] = rng.choice(
                (
                    replace(params[at], shape=None, value=1),
                    ParamConfig(p.name, params[at].dtype, (1, 2), (2,)),
                )
            )
        elif action == "element" and params[at].shape is not None:
            params[at] = self._element(params[at])
        else:
            params[at] = self.any_param(p)
        return replace(config, params=tuple(params))

    def _element(self, param: ParamConfig) -> ParamConfig:
        """A one-dimensional list with one value changed, added, removed or moved."""
        values, rng = list(param.value), self.rng
        if len(param.shape or ()) != 1:
            if values:
                values[rng.randrange(len(values))] = rng.choice((0, 1, 2, 100))
            return replace(param, value=tuple(values))
        where = rng.randint(0, len(values))
        if not values or rng.random() < 0.3:
            values.insert(where, rng.choice((0, 1, 2, 3)))
        elif rng.random() < 0.3:
            del values[where % len(values)]
        else:
            values[where % len(values)] = rng.choice((0, 1, 2, 3, 4, 2**32 - 1))
        return replace(param, value=tuple(values), shape=(len(values),))

    # -- all of it

    def stream(self, count: int) -> Iterator[OpConfig]:
        """Valid, damaged once to four times, and random configs, in a fixed mixture."""
        for i in range(count):
            if i % 5 == 4 or not self.op.definition.samples:
                yield self.random()
                continue
            config = self.valid()
            for _ in range(i % 5):
                config = self.damaged(config)
            yield self.named(config) if self.rng.random() < 0.2 else config

    def named(self, config: OpConfig) -> OpConfig:
        """The config with names of slots, if there are as many tensors as slots."""
        groups = {}
        for group, slots in (("inputs", self.op.inputs), ("outputs", self.op.outputs)):
            tensors = list(getattr(config, group))
            if len(tensors) == len(slots) and not any(s.variadic for s in slots):
                tensors = [replace(t, name=s.name) for t, s in zip(tensors, slots, strict=True)]
                self.rng.shuffle(tensors)
            groups[group] = tuple(tensors)
        return replace(config, **groups)
