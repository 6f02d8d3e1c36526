"""Builds an accepted config from a sample of the spec, if a refused one is too far off to be repaired.

Parts of the refused config replace the sample's, one after the other, as long as the validator accepts the result:
first all inputs and all parameters together, then each group alone, then each single tensor and parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from opdb.catalog.targets.target import Target
from opdb.core.op_config import OpConfig, ParamConfig, TensorConfig, centered
from opdb.judge.errata.policy import excludes
from opdb.judge.nearest.changes import changes, other_data
from opdb.judge.nearest.rows import far
from opdb.runtime.binding import Param, Signature, Slot, slot_names
from opdb.runtime.checks import Undecidable

#: The most type rows that are tried with one sample.
ROWS = 12
ABSENT = "NULL"
#: Tensors by the names of their slots, ``xs[1]`` in a variadic one.
Tensors = Mapping[str, TensorConfig]


def rebuilt(module: Any, target: Target, config: OpConfig, finalized: bool) -> OpConfig | None:
    """The accepted config with the fewest changes that can be built from the samples; None if the target takes no sample."""
    builder = _Builder(module, target, config, finalized)
    found = [made for sample in module.SAMPLES if (made := builder.from_sample(sample)) is not None]
    best = min(found, key=lambda made: _weight(config, made, module.SIGNATURE), default=None)
    return None if best is None else _as_given(best, config, module.SIGNATURE)


def _weight(old: OpConfig, new: OpConfig, signature: Signature) -> tuple[int, int]:
    """The distance of ``new``: changes of the data count most, then the number of changes."""
    found = changes(old, new, signature)
    return other_data(found), len(found)


class _Builder:
    def __init__(self, module: Any, target: Target, config: OpConfig, finalized: bool) -> None:
        self.module, self.target, self.config, self.finalized = module, target, config, finalized
        self.context = target.context()
        self.signature = module.SIGNATURE
        self.inputs = _by_name(config.inputs, self.signature.inputs)
        self.outputs = _by_name(config.outputs, self.signature.outputs)
        self.params = {p.name: p for p in config.params if p.name in {q.name for q in self.signature.params}}

    # -- the sample in types of the target

    def from_sample(self, sample: Mapping[str, Any]) -> OpConfig | None:
        start = next((c for c in self._starts(sample) if self._accepts(c)), None)
        return None if start is None else self._filled(start)

    def _starts(self, sample: Mapping[str, Any]) -> Iterator[OpConfig]:
        """The sample in each type row, the most similar first, with fewer or more inputs STATIC."""
        first = self.signature.inputs[:1]
        for dtypes in self._dtypes():
            for held in (
                {s.name for s in self.signature.inputs if s.optional},
                {s.name for s in self.signature.inputs if s not in first},
                set(),
            ):
                made = self._sampled(sample, dtypes, held)
                if made is not None:
                    yield made

    def _dtypes(self) -> Iterator[dict[str, str]]:
        """Types for all slots, one set per type row with the types closest to the config's; the closest row first."""
        slots = [s.name for s in (*self.signature.inputs, *self.signature.outputs)]
        had = {n.partition("[")[0]: t.dtype for n, t in {**self.outputs, **self.inputs}.items()}
        usual = next(iter(had.values()), "f32")
        rows = getattr(self.module, f"ROWS_{self.context.backend}", ())
        if not rows:
            yield {s: had.get(s, usual) for s in slots}
            yield dict.fromkeys(slots, "f32")
            return
        kept = [row.cells for row in rows if row.holds(self.context)]
        made = []
        for cells in kept:
            types: dict[str, str] = {}
            for slot, cell in zip(slots, cells, strict=True):
                types[slot] = min(
                    sorted(cell), key=partial(_unlike, had.get(slot), usual, set(types.values()))
                )
            made.append((sum(far(had.get(s, usual), d) for s, d in types.items()), types))
        made.sort(key=lambda pair: pair[0])
        yield from (types for _, types in made[:ROWS])

    def _sampled(
        self, sample: Mapping[str, Any], dtypes: Mapping[str, str], held: set[str]
    ) -> OpConfig | None:
        def tensor(slot: Slot, shape: Sequence[int], i: int) -> TensorConfig:
            dtype, kind = dtypes[slot.name], "STATIC" if slot.name in held else "NATIVE"
            name = f"{slot.name}[{i}]" if slot.variadic else slot.name
            return TensorConfig(name, dtype, tuple(shape), kind, quant=centered(dtype))

        def group(slots: Sequence[Slot]) -> dict[str, TensorConfig]:
            made = [
                tensor(s, shape, i)
                for s in slots
                if s.name in sample
                for i, shape in enumerate(sample[s.name] if s.variadic else [sample[s.name]])
            ]
            return {t.name: t for t in made}

        params = tuple(_param(p, sample[p.name]) for p in self.signature.params if p.name in sample)
        bare = self._config(group(self.signature.inputs), params, group(self.signature.outputs))
        plain = {
            s.name: TensorConfig(s.name, dtypes[s.name], (), quant=centered(dtypes[s.name]))
            for s in self.signature.outputs
        }
        return self._followed(bare, plain)

    # -- parts of the config instead of the sample's

    def _filled(self, made: OpConfig) -> OpConfig:
        for candidate in self._wholes(made):
            made = self._better(made, candidate)
        for name in dict.fromkeys((*self.params, *(p.name for p in made.params))):
            made = self._better(made, _with_param(made, name, self.params.get(name)))
        for name in dict.fromkeys((*self.inputs, *_by_name(made.inputs, self.signature.inputs))):
            for candidate in self._with_input(made, name):
                made = self._better(made, candidate)
        for name, was in self.outputs.items():
            now = _by_name(made.outputs, self.signature.outputs)
            if name in now:
                for fresh in (replace(was, shape=now[name].shape), replace(now[name], type=was.type)):
                    made = self._kept(made, replace(made, outputs=_listed({**now, name: fresh})))
        return made

    def _wholes(self, made: OpConfig) -> Iterator[OpConfig]:
        """All inputs and parameters of the config, the inputs alone, the parameters alone."""
        params = tuple(self.params.values())
        whole = self._config(self.inputs, params, _by_name(made.outputs, self.signature.outputs))
        yield whole
        yield replace(whole, params=made.params)
        yield replace(made, params=params)

    def _with_input(self, made: OpConfig, name: str) -> Iterator[OpConfig]:
        """Candidates with one input of the config: whole, only its shape, or only its type; or without the input."""
        now = _by_name(made.inputs, self.signature.inputs)
        was = self.inputs.get(name)
        if was is None:
            yield self._config({n: t for n, t in now.items() if n != name}, made.params, made.outputs)
            return
        fresh = [was]
        if name in now:
            old = now[name]
            fresh += [replace(old, shape=was.shape), replace(was, shape=old.shape)]
            fresh += [replace(old, dtype=was.dtype, quant=was.quant), replace(old, type=was.type)]
        for tensor in fresh:
            yield self._config({**now, name: tensor}, made.params, made.outputs)

    # -- one candidate

    def _better(self, made: OpConfig, candidate: OpConfig) -> OpConfig:
        """The candidate with its inferred outputs, if that is accepted and nearer; else ``made``."""
        if candidate == made:
            return made
        followed = self._followed(candidate, _by_name(made.outputs, self.signature.outputs))
        return made if followed is None else self._kept(made, followed)

    def _kept(self, made: OpConfig, candidate: OpConfig) -> OpConfig:
        nearer = _weight(self.config, candidate, self.signature) < _weight(self.config, made, self.signature)
        return candidate if nearer and self._accepts(candidate) else made

    def _accepts(self, config: OpConfig) -> bool:
        found = self.module.validate(config, self.context)
        return not any(excludes(v, self.target) and (self.finalized or not v.warning) for v in found)

    def _config(
        self, inputs: Tensors, params: Sequence[ParamConfig], outputs: Tensors | Sequence[TensorConfig]
    ) -> OpConfig:
        """The tensors in the order of their slots; NULL for an omitted one before another."""
        ordered: list[TensorConfig] = []
        for slot in self.signature.inputs:
            mine = [t for n, t in inputs.items() if n.partition("[")[0] == slot.name]
            ordered += mine or ([] if slot.variadic else [TensorConfig(slot.name, "f32", (), ABSENT)])
        while ordered and ordered[-1].type == ABSENT:
            ordered.pop()
        listed = _listed(outputs) if isinstance(outputs, Mapping) else tuple(outputs)
        return replace(self.config, inputs=tuple(ordered), params=tuple(params), outputs=listed)

    def _followed(self, config: OpConfig, like: Tensors) -> OpConfig | None:
        """The config with inferred outputs, otherwise like those of ``like``; with its own outputs if none can be inferred."""
        try:
            found = self.module.infer(config)
        except (Undecidable, OverflowError, ValueError):
            return config if config.outputs else None
        old = _by_name(config.outputs, self.signature.outputs)
        outputs: dict[str, TensorConfig] = {}
        for slot in self.signature.outputs:
            if slot.name not in found:
                outputs |= {n: t for n, t in old.items() if n.partition("[")[0] == slot.name}
                continue
            base = like.get(slot.name) or like.get(f"{slot.name}[0]")
            if slot.optional and base is None:
                continue
            shapes = found[slot.name] if slot.variadic else [found[slot.name]]
            for i, shape in enumerate(shapes):
                name = f"{slot.name}[{i}]" if slot.variadic else slot.name
                tensor = like.get(name) or base
                if tensor is None or any(d < 0 for d in shape):
                    return None
                outputs[name] = replace(tensor, name=name, shape=tuple(shape))
        return replace(config, outputs=_listed(outputs))


def _unlike(had: str | None, usual: str, chosen: set[str], dtype: str) -> tuple[bool, float]:
    """The distance of a type from the config's type in the slot; without one, from the types chosen for other slots."""
    return (False, far(had, dtype)) if had is not None else (dtype not in chosen, far(usual, dtype))


def _by_name(tensors: Sequence[TensorConfig], slots: Sequence[Slot]) -> dict[str, TensorConfig]:
    """The given tensors that belong to a slot."""
    named = zip(slot_names(tensors, slots), tensors, strict=True)
    known = {s.name for s in slots}
    return {n: t for n, t in named if n.partition("[")[0] in known and t.type != ABSENT}


def _as_given(made: OpConfig, config: OpConfig, signature: Signature) -> OpConfig:
    """Restores the config's omitted tensors, and drops names if its tensors have none: they go by position."""

    def group(
        now: Sequence[TensorConfig], was: Sequence[TensorConfig], slots: Sequence[Slot]
    ) -> tuple[TensorConfig, ...]:
        if was and all(t.name for t in was):
            return tuple(now)
        kept = [was[i] if i < len(was) and t.type == was[i].type == ABSENT else t for i, t in enumerate(now)]
        rest = was[len(now) : None if any(s.variadic for s in slots) else len(slots)]
        kept += rest if all(t.type == ABSENT for t in rest) else ()
        return tuple(t if t in was else replace(t, name="") for t in kept)

    return replace(
        made,
        inputs=group(made.inputs, config.inputs, signature.inputs),
        outputs=group(made.outputs, config.outputs, signature.outputs),
    )


def _listed(tensors: Tensors) -> tuple[TensorConfig, ...]:
    return tuple(tensors.values())


def _with_param(config: OpConfig, name: str, param: ParamConfig | None) -> OpConfig:
    rest = [p for p in config.params if p.name != name]
    return replace(config, params=(*rest, *([] if param is None else [param])))


def _param(slot: Param, value: Any) -> ParamConfig:
    """A parameter with a value from a spec's sample."""
    if slot.enum:
        return ParamConfig(slot.name, slot.dtype, next(n for n, word in slot.enum.items() if word == value))
    if not slot.dims:
        return ParamConfig(slot.name, slot.dtype, _number(slot, value))
    rows = value if len(slot.dims) == 2 else [value]
    flat = tuple(_number(slot, v) for row in rows for v in row)
    shape = (len(value),) if len(slot.dims) == 1 else (len(value), len(value[0]) if value else 0)
    return ParamConfig(slot.name, slot.dtype, flat, shape)


def _number(slot: Param, value: Any) -> Any:
    if slot.dtype == "bool8":
        return bool(value)
    return float(value) if slot.dtype in ("f16", "f32", "f64", "bf16") else value
