"""Generates op configs to ask a library about: good by the spec, then with one or two random changes.

Config ``i`` of a sweep depends only on the op's definition, the backend, the SoC, the seed and ``i``: not on the number
of configs, nor on the process that makes it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig
from opdb.judge.samples import sample_config, slot_of
from opdb.judge.validate import Verdict, judge
from opdb.measure.sweeps.mutate import Mutator, retyped
from opdb.measure.sweeps.verdicts import Validator
from opdb.spec.definitions import TypeRow

#: Increase with every change of what is generated: evidence of another generator is about other configs.
GENERATOR = 2
#: The number of changes of config i is CHANGES[i % 4]: every fourth config is good by the spec.
CHANGES = (0, 1, 1, 2)
#: Number of attempts to repair a base by other encodings and places of data, and the maximum number of variations of a good config.
REPAIRS, STEPS = 24, 4
#: The number of kinds of change drawn until one applies.
TRIES = 20


@dataclass(frozen=True)
class Made:
    """One config without tensor names, as QNN sees it; ``changes``: the changes made to a good one."""

    index: int
    config: OpConfig
    changes: tuple[str, ...]
    type_row: str  # for a good config; e.g. HTP.FP16.2


@dataclass(frozen=True)
class _Base:
    config: OpConfig
    type_row: str
    good: bool


class Generator:
    """The configs of one op for one target.  Raises OpdbError at the first config if a spec has no samples."""

    def __init__(self, validator: Validator, target: Target, seed: int) -> None:
        self.validator, self.target, self.seed = validator, target, seed
        compiled = validator.compiled
        self.rows = compiled.type_rows.get(target.backend or "", ())
        types = {
            s.name: tuple(dict.fromkeys(d for r in self.rows for d in r.cells[s.name]))
            for s in compiled.slots
        }
        self.mutator = Mutator(compiled, types, validator.infer)

    def config(self, index: int) -> Made:
        """Returns config ``index``."""
        rng = self._rng(str(index))
        number, varied = CHANGES[index % len(CHANGES)], True
        base = rng.choice(self.bases)
        if number == 0:  # all bases in turn, at first unchanged
            turn, place = divmod(index // len(CHANGES), len(self.bases))
            base, varied = self.bases[place], turn > 0
        config = base.config
        for _ in range(rng.randrange(STEPS + 1) if varied and base.good else 0):
            step = self.mutator.gently(config, rng)
            if step is not None and self._accepted(step[1]):
                config = step[1]
        changes: list[str] = []
        for _ in range(number):
            drawn = (self.mutator.roughly(config, rng) for _ in range(TRIES))
            change = next(filter(None, drawn), None)
            if change is not None:
                changes.append(change[0])
                config = change[1]
        row = base.type_row if base.good and not changes else ""
        return Made(index, _nameless(config), tuple(changes), row)

    def judged(self, config: OpConfig) -> Verdict:
        """Returns opdb's verdict."""
        return judge(self.validator.module, config, self.target)

    def _accepted(self, config: OpConfig) -> bool:
        return self.judged(_nameless(config)).verdict == "accept"

    def _rng(self, what: str) -> random.Random:
        t = self.target
        return random.Random(f"{self.seed}/{self.validator.op}/{t.backend}/{t.soc or ''}/{what}")

    @cached_property
    def bases(self) -> tuple[_Base, ...]:
        """Each sample in each type row, once; if opdb accepts none, the refused ones.  Computed once."""
        rng = self._rng("bases")
        if not self.validator.compiled.definition.samples:
            raise OpdbError(
                f"{self.validator.op}: its spec has no samples, so there is nothing to begin with"
            )
        tried = list(self._tried(rng))
        good = [b for b in tried if b.good]
        if not tried:
            raise OpdbError(f"{self.validator.op}: no sample of its spec gives a config")
        return tuple(good or tried)

    def _tried(self, rng: random.Random) -> Iterator[_Base]:
        compiled = self.validator.compiled
        rows = self.rows or tuple(r for rows in compiled.type_rows.values() for r in rows)
        plain = TypeRow("", {s.name: tuple(s.definition.dtype) or ("f32",) for s in compiled.slots})
        for row in rows or (plain,):
            for sample in range(len(compiled.definition.samples)):
                base = self._base(row, sample, rng)
                yield base
                if self.mutator.spare:  # the same without the optional outputs
                    config = replace(base.config, outputs=base.config.outputs[: self.mutator.needed])
                    yield replace(base, config=config, good=base.good and self._accepted(config))

    def _base(self, row: TypeRow, sample: int, rng: random.Random) -> _Base:
        compiled = self.validator.compiled
        made = tried = sample_config(compiled, sample, _drawn_types(row, rng), self.validator.infer)
        for i in range(REPAIRS):
            if self._accepted(tried):
                return _Base(tried, row.id if self.rows else "", True)
            if i % 3 == 2:  # other types of the row: some may have to be equal
                made = tried = _in_types(made, _drawn_types(row, rng))
            else:
                change = self.mutator.attribute(made if i % 3 == 0 else tried, rng)
                tried = tried if change is None else change[1]
        return _Base(made, "", False)


def _drawn_types(row: TypeRow, rng: random.Random) -> dict[str, str]:
    return {slot: rng.choice(cells) for slot, cells in row.cells.items()}


def _in_types(config: OpConfig, types: dict[str, str]) -> OpConfig:
    inputs = tuple(retyped(t, types.get(slot_of(t), t.dtype)) for t in config.inputs)
    outputs = tuple(retyped(t, types.get(slot_of(t), t.dtype)) for t in config.outputs)
    return replace(config, inputs=inputs, outputs=outputs)


def _nameless(config: OpConfig) -> OpConfig:
    """Removes names: tensors are identified by position, which is all that QNN knows."""
    inputs = tuple(replace(t, name="") for t in config.inputs)
    return replace(config, inputs=inputs, outputs=tuple(replace(t, name="") for t in config.outputs))
