"""Conformance cases of one op, as data: configs that are accepted, and configs that break one rule.

Deterministic: the same definitions give the same cases, ids and data.  A rule that no config breaks alone is
listed as implied by the rules that break with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from opdb.catalog.store.records import CaseRecord
from opdb.catalog.targets.target import Target
from opdb.codegen.rules import all_rules, rule_nodes, sdk_range
from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import OpConfig, from_json, to_json
from opdb.core.sdk import sdk_number
from opdb.generated.constants.backends import BACKENDS
from opdb.generated.constants.sdks import DEFAULT_SDK
from opdb.judge.errata.records import RECORDS
from opdb.judge.samples import kernel_types, sample_config, slot_of
from opdb.judge.validate import check, judge, validator
from opdb.measure.conformance.damage import Damages
from opdb.measure.conformance.expressions import in_force
from opdb.measure.conformance.search import Base, Broken, Search
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp, TypeRow, some_of_row
from opdb.spec.lang.analyze import free_names
from opdb.spec.lang.nodes import walk

#: The maximum number of type combinations in a row for which every combination becomes a case: if a library runs the cases,
#: and if they only compare opdb's validators; a larger row is covered type by type.
WHOLE_ROW, FEW = 512, 4
#: The default chip.
DEFAULT_SOCS = ("SM8650",)


@dataclass(frozen=True)
class Case:
    """One question: an op config for a target, and the rules that it breaks (none: it is accepted).

    ``backend`` '' asks about the op definition alone.  ``note`` describes the origin of the config.
    """

    id: str  # e.g. LayerNorm-sample0-HTP.FP16.2-SM8650
    config: OpConfig
    kind: str  # positive, negative
    backend: str = ""
    soc: str = ""
    type_row: str = ""  # e.g. HTP.FP16.2
    rules: tuple[str, ...] = ()  # e.g. LayerNorm.C3, HTP-0042; for a positive case: warnings and errata
    note: str = ""
    #: False if it breaks a rule of the op that the backend does not check: no document defines the result then.
    settled: bool = True

    @property
    def runs(self) -> bool:
        """True if the config is computed, not only validated; values smaller than a byte are not, because the library's layout
        of them is undocumented."""
        return self.kind == "positive" and self.settled and not self.packed

    @property
    def packed(self) -> bool:
        """True if a tensor's values are smaller than a byte, e.g. UFIXED_POINT_4."""
        return any(BY_SHORT[t.dtype].numpy is None for t in (*self.config.inputs, *self.config.outputs))

    @property
    def op(self) -> str:
        return self.config.op

    @property
    def broken(self) -> tuple[str, ...]:
        """``rules`` without errata."""
        return tuple(r for r in self.rules if r not in RECORDS)

    @property
    def target(self) -> Target:
        return _target(self.backend, self.soc)

    def record(self) -> CaseRecord:
        """The case as stored in SQL."""
        config = json.dumps(to_json(replace(self.config, id=self.id)))
        more = {"backend": self.backend, "soc": self.soc, "type_row": self.type_row, "rules": self.rules}
        return CaseRecord(self.id, self.op, self.kind, config, **more)  # type: ignore[arg-type]


def read_config(text: str) -> OpConfig:
    """Reads the op config of a stored case; its data are tuples as in fresh cases, so that configs compare equal and hash."""
    config = replace(from_json(json.loads(text)), id=None)
    held = tuple(t if t.data is None else replace(t, data=tuple(t.data)) for t in config.inputs)
    return replace(config, inputs=held)


@dataclass(frozen=True)
class Implication:
    """No case breaks ``rule`` alone: ``implied_by`` breaks with it."""

    rule: str
    implied_by: str
    why: str


@dataclass(frozen=True)
class CaseSet:
    """All cases of one op, and the rules that they do not cover."""

    op: str
    cases: tuple[Case, ...]
    implications: tuple[Implication, ...]
    unbroken: tuple[str, ...]  # rules that no config was found to break


@lru_cache(maxsize=64)
def cases(catalog: Catalog, op: str, socs: tuple[str, ...] = DEFAULT_SOCS) -> CaseSet:
    """The cases of one op for the given chips.  Raises KeyError for an unknown op."""
    return _Cases(catalog, op, socs).run()


def row_cases(catalog: Catalog, op: str, backend: str, soc: str) -> tuple[Case, ...]:
    """The samples of one op in the type rows of a backend, as in ``cases`` for one chip ('': none); without the search for others."""
    made = _Cases(catalog, op, (soc,))
    return tuple(made._documented(backend, soc)) if backend in made.compiled.type_rows else ()


def broken_rules(config: OpConfig, backend: str, soc: str) -> tuple[str, ...]:
    """The full ids of the rules that a config breaks, with warnings and without errata; each once."""
    verdict = judge(validator(config.op), config, _target(backend, soc))
    return tuple(dict.fromkeys(v.rule for v in verdict.violations if not v.erratum))


@lru_cache
def _target(backend: str, soc: str) -> Target:
    return Target(backend or None, soc or None, execution="emulator").spelled()


def past(compiled: CompiledOp) -> frozenset[str]:
    """The full ids of the rules of backends without a type row for the newest SDK, which is the one that cases ask about."""
    newest = sdk_number(DEFAULT_SDK)
    out: set[str] = set()
    for backend, rows in compiled.type_rows.items():
        ranges = [sdk_range(row) for row in rows]
        if rows and not any(since <= newest and (not until or newest <= until) for since, until in ranges):
            ids = (*(r.id for r in compiled.backend_rules[backend]), f"TYPES_{backend}")
            out |= {f"{compiled.name}.{i}" for i in ids}
    return frozenset(out)


class _Cases:
    def __init__(self, catalog: Catalog, op: str, socs: tuple[str, ...]) -> None:
        self.catalog, self.op, self.socs = catalog, op, socs
        self.compiled: CompiledOp = catalog.compiled(op)
        self.samples = range(len(self.compiled.definition.samples))
        self.damages = Damages(self.compiled, _chips(catalog, self.compiled))

    def run(self) -> CaseSet:
        unchecked = {b: frozenset(self._unchecked(b)) for b in self.compiled.type_rows}
        search = Search(self.compiled, self.damages, broken_rules, unchecked)
        plain = list(self._plain())
        documented: list[Case] = []
        for backend in self.compiled.type_rows:
            for soc in self._socs(backend):
                documented += self._documented(backend, soc)
        unbound = [replace(c, backend="", soc="") for c in documented if self._is_sound(c.config)]
        search.op_rules([_base(c, c.config) for c in plain or unbound])
        for backend in self.compiled.type_rows:
            if f"{self.op}.TYPES_{backend}" in past(self.compiled):
                continue
            first = self._socs(backend)[0]
            group = [c for c in documented if (c.backend, c.soc, c.kind) == (backend, first, "positive")]
            search.backend_rules(backend, [_base(c, c.config) for c in group])
        kept = list(self._kept(search, [*plain, *documented]))
        negative = [*self._negative(search), *self._open(search, documented)]
        shown = {c.broken[0] for c in documented if len(c.broken) == 1}  # a sample that a backend refuses
        return CaseSet(
            self.op,
            (*plain, *documented, *kept, *negative),
            tuple(Implication(*i) for i in search.implications() if i[0] not in shown),
            tuple(r for r in search.unbroken() if r not in shown),
        )

    def _socs(self, backend: str) -> tuple[str, ...]:
        known = self.catalog.backends.get(backend)
        return self.socs if known is not None and known.per_soc else ("",)

    def _is_sound(self, config: OpConfig) -> bool:
        return not broken_rules(config, "", "")

    # -- accepted configs

    def _plain(self) -> Iterator[Case]:
        """Yields the samples in the types of the kernel: all samples in the first type, then one sample for each other type."""
        kernel = self.compiled.definition.kernel
        kinds = sorted(kernel.dtypes, key=lambda d: d != "f32") if kernel is not None else []
        wanted = [
            (s, d, d) for i, d in enumerate(kinds) for s in ([i % len(self.samples)] if i else self.samples)
        ]
        if "bool8" in kinds:  # comparisons, and logical operations
            wanted += [(s, d, "bool8") for s in self.samples for d in (kinds[0], "bool8")]
        if kinds and "f32" not in kinds:  # for ops with indices
            wanted += [(s, kinds[0], "f32") for s in self.samples]
        for sample, dtype, output in dict.fromkeys(wanted):
            yield from self._in_kernel_type(sample, dtype, output)

    def _in_kernel_type(self, sample: int, dtype: str, output: str) -> Iterator[Case]:
        dtypes = kernel_types(self.compiled, dtype)
        if dtype != output:
            dtypes |= {s.name: output for s in self.compiled.outputs}
        config = sample_config(self.compiled, sample, dtypes)
        name = dtype if dtype == output else f"{dtype}.{output}"
        rows = (r for rows in self.compiled.type_rows.values() for r in rows)
        if self._is_sound(config) and (dtype == output or any(_fits(r, config) for r in rows)):
            yield Case(f"{self.op}-sample{sample}-{name}", config, "positive")

    def _documented(self, backend: str, soc: str) -> Iterator[Case]:
        """Yields each sample in each type row, in the first accepted combination; then the other combinations."""
        for row in self.compiled.type_rows[backend]:
            most = WHOLE_ROW if self.catalog.backends[backend].asked else FEW
            combos = sorted(some_of_row(row, most), key=self._plainness)
            used = set()
            for sample in self.samples:
                tried: list[Case] = []
                for i, combo in enumerate(combos):
                    tried.append(self._case(backend, soc, row, sample, i, combo))
                    if tried[-1].kind == "positive":
                        break
                best = tried[-1] if tried[-1].kind == "positive" else self._rejected(tried)
                if best is not None:
                    used.add(_dtypes(best.config))
                    yield replace(best, id=f"{self.op}-sample{sample}-{row.id}{_dash(soc)}")
            for i, combo in enumerate(combos):
                again = (self._case(backend, soc, row, s, i, combo) for s in self.samples)
                fresh = next(
                    (c for c in again if c.kind == "positive" and _dtypes(c.config) not in used), None
                )
                if fresh is not None:
                    used.add(_dtypes(fresh.config))
                    yield fresh

    def _plainness(self, combo: Mapping[str, str]) -> tuple[bool, int]:
        """Sorts a row's combinations: truth values as bool8 first, then those with the fewest types."""
        return not any(combo[s.name] == "bool8" for s in self.compiled.outputs), len(set(combo.values()))

    def _case(
        self, backend: str, soc: str, row: TypeRow, sample: int, i: int, combo: Mapping[str, str]
    ) -> Case:
        ident = f"{self.op}-sample{sample}-{row.id}.{i + 1}{_dash(soc)}"
        config = sample_config(self.compiled, sample, combo)
        case = self._judged(Case(ident, config, "positive", backend, soc, row.id))
        if case.kind == "positive":
            return case
        return next((c for c in self._repaired(case) if c.kind == "positive"), case)

    def _judged(self, case: Case) -> Case:
        verdict = check(case.config, case.target)
        rules = tuple(dict.fromkeys(v.rule for v in verdict.violations))
        kind = "positive" if verdict.verdict == "accept" else "negative"
        settled = self._unchecked(case.backend).isdisjoint(rules)
        return replace(case, kind=kind, rules=rules, settled=settled)

    def _unchecked(self, backend: str) -> frozenset[str]:
        """The full ids of the op's rules that a backend does not check."""
        known = self.compiled.definition.backends.get(backend)
        return frozenset(f"{self.op}.{i}" for i in known.unchecked) if known is not None else frozenset()

    def _repaired(self, case: Case) -> Iterator[Case]:
        """Yields the case with other encodings and places of data, which a type row leaves open."""
        if not all(r.partition(".")[2] in self._on_attributes for r in case.broken):
            return
        once = list(self.damages.attributes(case.config))
        for _, config in once:
            yield self._judged(replace(case, config=config))
        first, *rest = case.config.inputs or (None,)
        held = tuple(replace(t, type="STATIC") if t.type == "NATIVE" else t for t in rest)
        if first is not None:  # as in a model whose weights are inputs of the op
            yield self._judged(replace(case, config=replace(case.config, inputs=(first, *held))))
        for _, config in once:
            for _, again in self.damages.attributes(config):
                yield self._judged(replace(case, config=again))

    @property
    def _on_attributes(self) -> frozenset[str]:
        """The rules that read an encoding or the place of data."""
        rules = [r for rules in self.compiled.backend_rules.values() for r in rules]
        words = (".static", ".sparse", ".symmetric", ".encoding", ".axis")
        return frozenset(r.id for r in rules if any(w in r.text for w in words))

    def _rejected(self, tried: list[Case]) -> Case | None:
        """A sample that the op accepts and the backend refuses: the combination that breaks the fewest rules."""
        return min((c for c in tried if self._is_sound(c.config)), key=lambda c: len(c.broken), default=None)

    def _kept(self, search: Search, positive: list[Case]) -> Iterator[Case]:
        """Yields, for each rule whose guard no accepted config fulfills yet, a config that does."""
        force = in_force(self.compiled)

        def holds(rule: str, config: OpConfig, backend: str, soc: str) -> bool:
            return rule in force(config, _target(backend, soc).context())

        good = [c for c in positive if c.kind == "positive"]
        seen = {r for c in good for r in force(c.config, c.target.context()) - set(c.rules)}
        # Samples that a backend refuses: another SoC may accept them.
        made = [Broken(c.config, c.backend, c.soc, c.broken, c.id) for c in positive if c.kind != "positive"]
        taken = [Broken(c.config, c.backend, c.soc, (), c.id) for c in good]
        owner = {f"{self.op}.{r.id}": b for b, rules in self.compiled.backend_rules.items() for r in rules}
        for rule in search.goals[::-1]:
            if rule not in seen:
                kept, backend = partial(holds, rule), owner.get(rule)
                found = (
                    search.repaired(rule, kept, made, backend)
                    or search.repaired(rule, kept, taken, backend)
                    or self._on_another_chip(kept, made, backend)
                )
                if found is not None:
                    made.append(found)
                    ident = f"{self.op}-{rule.partition('.')[2]}-kept{_dash(found.soc)}"
                    yield self._broken(ident, found, found.soc)

    def _on_another_chip(
        self, good: Callable[[OpConfig, str, str], bool], refused: list[Broken], backend: str | None
    ) -> Broken | None:
        """A refused sample that another chip accepts and that is ``good``."""
        for sample in refused:
            if not sample.soc or backend not in (None, sample.backend):
                continue
            for soc in self.damages.socs:
                accepted = not broken_rules(sample.config, sample.backend, soc)
                if accepted and good(sample.config, sample.backend, soc):
                    return Broken(sample.config, sample.backend, soc, (), f"{sample.note}; SoC {soc}")
        return None

    # -- broken configs

    def _negative(self, search: Search) -> Iterator[Case]:
        count: dict[str, int] = {}
        for rule, broken in search.found():
            n = count[rule] = count.get(rule, -1) + 1
            for soc in (broken.soc, *(s for s in self.socs[1:] if broken.soc == self.socs[0])):
                if broken_rules(broken.config, broken.backend, soc) == broken.rules:
                    yield self._broken(f"{self.op}-{rule.partition('.')[2]}-{n}{_dash(soc)}", broken, soc)

    def _open(self, search: Search, documented: list[Case]) -> Iterator[Case]:
        """Yields, for each rule that a backend does not check, a config that breaks it and is accepted."""
        for backend, part in self.compiled.definition.backends.items():
            for soc in self._socs(backend) if part.unchecked else ():
                group = [c for c in documented if (c.backend, c.soc, c.kind) == (backend, soc, "positive")]
                for rule in part.unchecked:
                    found = search.warned(f"{self.op}.{rule}", backend, [_base(c, c.config) for c in group])
                    if found is not None:
                        ident = f"{self.op}-{rule}-unchecked-{backend}{_dash(soc)}"
                        yield replace(self._broken(ident, found, soc), type_row="")

    def _broken(self, ident: str, broken: Broken, soc: str) -> Case:
        row = next(
            (r.id for r in self.compiled.type_rows.get(broken.backend, ()) if _fits(r, broken.config)), ""
        )
        case = Case(ident, broken.config, "negative", broken.backend, soc, row, note=broken.note)
        return self._judged(case)


def _chips(catalog: Catalog, compiled: CompiledOp) -> tuple[str, ...]:
    """One chip for each feature that a type row needs; one for each Hexagon version, oldest first; then those
    whose number a rule of the op names."""
    known = [s for s in catalog.socs.values() if s.htp_arch is not None]
    by_arch = {s.htp_arch: s.chip for s in reversed(known)}
    nodes = [n for r in all_rules(compiled) for top in rule_nodes([r]) for n in walk(top)]
    about = [n for n in nodes if n.kind in ("compare", "in") and "soc_model" in free_names(n)]
    numbers = {n.value for top in about for n in walk(top) if n.kind == "const"}
    by_number = {m: s.chip for s in reversed(known) if (m := s.soc_model) is not None and m in numbers}
    versions = [by_arch[a] for a in sorted(a for a in by_arch if a is not None)]
    needed = {
        BACKENDS[backend].chip_fields[row.needs.has]
        for backend, rows in compiled.type_rows.items()
        for row in rows
        if row.needs is not None
    }
    able = [next((s.chip for s in known if s.data().get(field)), None) for field in sorted(needed)]
    named = [by_number[n] for n in sorted(by_number)]
    return tuple(dict.fromkeys([*filter(None, able), *versions, *named]))


def _base(case: Case, config: OpConfig) -> Base:
    return Base(case.id, config, case.soc, (case.id.split("-")[1], "/".join(_dtypes(config)), case.type_row))


def _dtypes(config: OpConfig) -> tuple[str, ...]:
    return tuple(t.dtype for t in (*config.inputs, *config.outputs) if t.type != "NULL")


def _fits(row: TypeRow, config: OpConfig) -> bool:
    tensors = [t for t in (*config.inputs, *config.outputs) if t.type != "NULL"]
    return all(t.dtype in row.cells.get(slot_of(t), ()) for t in tensors)


def _dash(soc: str) -> str:
    return f"-{soc}" if soc else ""
