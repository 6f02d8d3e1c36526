"""Coverage of the rules: where each is, and which cases tested it.  Nothing here is typed by hand."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from opdb.catalog.store import Store
from opdb.catalog.targets.target import Target
from opdb.codegen import docs
from opdb.generated import validators
from opdb.measure.conformance.cases import past, read_config
from opdb.measure.conformance.expressions import in_force
from opdb.measure.conformance.report.rows import Row, implications, read_rows
from opdb.runtime.binding import Context
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import SIGNATURE, CompiledOp


@dataclass(frozen=True)
class Coverage:
    """One rule.  Counts are of the latest result of each case and executor."""

    op: str
    rule: str  # e.g. LayerNorm.C3
    backend: str  # '' for a rule of the op
    stated: bool  # in the specs
    in_python: bool  # the generated Python validator names it
    doc: bool  # the op's page has its anchor
    python: int  # results in which the Python validator reported it
    c: int  # and the C validator
    positive: int  # accepted cases to which the rule applies (its guard holds)
    negative: int  # cases made to break it
    alone: int  # those of them that break nothing else
    executed: int  # results of all these cases
    implied_by: tuple[str, ...] = ()
    past: bool = False  # its backend has no type row in the newest SDK: no case can satisfy it

    @property
    def empty(self) -> tuple[str, ...]:
        """The columns in which something is missing."""
        if self.past:
            return ()
        columns = ("stated", "in_python", "doc", "python", "c", "positive", "negative", "executed")
        out = [c for c in columns if not getattr(self, c)]
        return (*out, *(["alone"] if not self.alone and not self.implied_by else []))


@dataclass(frozen=True)
class Gaps:
    """All rules, and three set differences that must be empty."""

    rules: tuple[Coverage, ...]
    code_not_spec: tuple[str, ...] = ()  # reported by a validator, stated nowhere
    cases_not_spec: tuple[str, ...] = ()  # expected by a case, stated nowhere
    cases_not_code: tuple[str, ...] = ()  # expected by a case, reported by none of opdb's validators

    @property
    def left(self) -> tuple[Coverage, ...]:
        """The rules with an empty column."""
        return tuple(r for r in self.rules if r.empty)


@dataclass
class _Tried:
    positive: Counter[str] = field(default_factory=Counter)
    negative: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    alone: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    executed: Counter[str] = field(default_factory=Counter)
    reported: Counter[tuple[str, str]] = field(default_factory=Counter)


def gaps(catalog: Catalog, store: Store, ops: Iterable[str] | None = None) -> Gaps:
    """The coverage of all rules of ``ops`` (None: all), from the latest results in SQL."""
    names = list(ops) if ops is not None else list(catalog.ops)
    rows = [r for r in read_rows(store) if r.op in names]
    tried = _tried(catalog, rows)
    implied = implications(store)
    rules = tuple(c for name in names for c in _rules(catalog, name, tried, implied))
    stated = {r.rule for r in rules} | set(catalog.errata)
    reported = {rule for rule, _ in tried.reported}
    expected = set(tried.negative)
    return Gaps(
        rules,
        tuple(sorted(reported - stated)),
        tuple(sorted(expected - stated)),
        tuple(sorted(expected - reported)),
    )


def _tried(catalog: Catalog, rows: Iterable[Row]) -> _Tried:
    tried = _Tried()
    force = {op: in_force(catalog.compiled(op)) for op in catalog.ops}
    about: dict[str, frozenset[str]] = {}  # case -> the rules that it tests
    for row in rows:
        if row.case not in about:
            broken = [r for r in row.expected if r not in catalog.errata]
            tried_rules = set(broken)
            for rule in broken:
                tried.negative[rule].add(row.case)
                if len(broken) == 1:
                    tried.alone[rule].add(row.case)
            if row.kind == "positive":
                kept = force[row.op](read_config(row.config), _context(row)) - tried_rules
                tried.positive.update(kept)
                tried_rules |= kept
            about[row.case] = frozenset(tried_rules)
        tried.executed.update(about[row.case])
        if row.executor in ("python", "c"):
            tried.reported.update((rule, row.executor) for rule in row.rules)
    return tried


def _context(row: Row) -> Context:
    return Target(row.case_backend or None, row.case_soc or None).context()


def _rules(
    catalog: Catalog, name: str, tried: _Tried, implied: dict[str, tuple[str, ...]]
) -> Iterable[Coverage]:
    compiled = catalog.compiled(name)
    source = _source(name)
    page = "".join(a.text for a in docs.pages(catalog, name))
    for ident in compiled.rule_ids():
        rule = f"{name}.{ident}"
        yield Coverage(
            op=name,
            rule=rule,
            backend=_backend(compiled, ident),
            stated=True,
            in_python=_in_python(source, ident),
            doc=f'id="{ident}"' in page,
            python=tried.reported[rule, "python"],
            c=tried.reported[rule, "c"],
            positive=tried.positive[rule],
            negative=len(tried.negative.get(rule, ())),
            alone=len(tried.alone.get(rule, ())),
            executed=tried.executed[rule],
            implied_by=implied.get(rule, ()),
            past=rule in past(compiled),
        )


def _source(op: str) -> str:
    module = validators.module(op)
    return (
        "" if module is None or module.__file__ is None else Path(module.__file__).read_text(encoding="utf-8")
    )


def _in_python(source: str, ident: str) -> bool:
    """True if a generated validator names a rule; the rule of a backend's type rows appears under the backend's name."""
    rows = f'check_types(report, "{ident.removeprefix("TYPES_")}"'
    return ident in SIGNATURE or f'"{ident}"' in source or (ident.startswith("TYPES_") and rows in source)


def _backend(compiled: CompiledOp, ident: str) -> str:
    for backend, rules in compiled.backend_rules.items():
        if ident == f"TYPES_{backend}" or any(r.id == ident for r in rules):
            return backend
    return ""
