"""Makes the next version of a spec from a newer document, and a report.

The document's old content (the bundled facts) is compared with its new content, both in the form of specs;
only the differences go into the spec.  A person's own work stays: other rules, ids, sources, mappings, samples.
Content that is gone from the document also stays, and is reported: a person decides if it is withdrawn.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from pydantic import ValidationError

from opdb.author.importers.draft import draft, parts
from opdb.author.importers.pages.facts import Facts, facts
from opdb.author.importers.pages.read import MASTER, PageOp, Pages
from opdb.author.importers.rows import compact
from opdb.catalog.facts import DocumentedBackend, DocumentedOp
from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.spec import files as spec
from opdb.spec.catalog import Catalog
from opdb.spec.compiler import compile_op
from opdb.spec.definitions import CompileError
from opdb.spec.model import STRENGTHS, OpDef, resolve

#: Rows of types with more combinations than this are not multiplied out.
MANY = 1 << 14

COLUMNS = ("op", "part", "change", "before", "now", "place")
Row = dict[str, Any]


@dataclass
class Report:
    rows: list[Row] = field(default_factory=list)
    drafts: dict[str, str] = field(default_factory=dict)  # op -> text
    unread: int = 0  # unknown phrases about ops with a spec

    def add(
        self, op: str, part: str, change: str, before: Any = None, now: Any = None, place: str = ""
    ) -> None:
        self.rows.append(dict(zip(COLUMNS, (op, part, change, before, now, place), strict=True)))


def update(pages: Pages, catalog: Catalog) -> Report:
    """Drafts of ops without a spec, next versions of specs that change, and rows of COLUMNS for all differences."""
    report = Report()
    for page in pages.ops.values():
        try:
            _update(report, pages, catalog, page)
        except ValidationError as error:
            first = error.errors()[0]
            at = ".".join(map(str, first["loc"]))
            raise OpdbError(f"{MASTER}:{page.line}: {page.name}: {at}: {first['msg']}") from None
    documented = {n for n, op in catalog.ops.items() if str(op.source).startswith(f"{MASTER}@")}
    for name in sorted(documented - set(pages.ops)):
        report.add(name, "op", "gone", before=catalog.ops[name].source)
    return report


def _update(report: Report, pages: Pages, catalog: Catalog, page: PageOp) -> None:
    """Handles one op of the pages."""
    found = facts(pages, page)
    places = [*page.unread, *pages.unread.get(page.name, ())]
    if not found.new.outputs:
        if page.name not in catalog.ops and found.old is None:
            report.add(page.name, "op", "unread", now="no output tensors", place=f"{MASTER}:{page.line}")
    elif page.name in catalog.ops:
        report.unread += len(places)
        _next(report, catalog, pages, found)
    else:
        report.add(page.name, "op", "added", now=found.new.source, place=f"{MASTER}:{page.line}")
        text = draft(page.name, facts=found.new)
        report.drafts[page.name] = text + "".join(f"# not read: {p}\n" for p in places)
        for place in places:
            report.add(page.name, "constraint", "unread", place=place)
    _contradictions(report, pages, page.name)


def _contradictions(report: Report, pages: Pages, op: str) -> None:
    """Reports where SupportedOps.html and a supplement disagree."""
    for backend, table in pages.backends.items():
        listed = backend in pages.supported.get(op, ())
        if pages.supported and listed != (op in table):
            words = ("in SupportedOps.html", "in the supplement")
            report.add(op, backend, "contradiction", before=words[not listed], now=f"not {words[listed]}")


def _next(report: Report, catalog: Catalog, pages: Pages, found: Facts) -> None:
    name = found.new.name
    for part in found.gone:
        head, _, text = part.partition(": ")
        report.add(name, head, "gone", before=text or None)
    version = _Version(catalog, name, pages.sdk, report)
    version.merge(parts(found.old) if found.old is not None and found.old.outputs else {}, parts(found.new))
    version.rows(found.old, found.new)
    if version.changed:
        report.drafts[name] = version.text()


class _Version:
    """The next version of one spec; each change is compiled, and left out if it fails."""

    def __init__(self, catalog: Catalog, name: str, sdk: str, report: Report) -> None:
        self.catalog, self.name, self.sdk, self.report = catalog, name, sdk, report
        self.own: dict[str, Any] = catalog.own[name].model_dump(mode="json")
        self.changed = False
        self.words: list[str] = []

    @property
    def whole(self) -> dict[str, Any]:
        """The spec with its base merged in, as data."""
        return resolve(OpDef.model_validate(self.own), self.catalog.bases).model_dump(mode="json")

    def text(self) -> str:
        text = spec.dump(OpDef.model_validate(self.own))
        return text + "".join(f"# not taken: {w}\n" for w in self.words)

    def change(self, at: tuple[str, ...], value: Any, part: str, before: Any = None) -> bool:
        """Sets ``value`` at a path of the spec if it compiles; reports it as added, changed, or kept."""
        trial = copy.deepcopy(self.own)
        entry = trial
        for key in at[:-1]:
            entry = entry.setdefault(key, {})
        entry[at[-1]] = value
        word = "added" if before is None else "changed"
        try:
            compile_op(resolve(OpDef.model_validate(trial), self.catalog.bases), self.catalog.context)
        except (CompileError, ValueError) as error:
            reason = error.faults[0].message if isinstance(error, CompileError) else "no spec has it"
            self.words.append(f"{part}: {_said(value)} ({reason})")
            self.report.add(self.name, part, "kept", before, f"{_said(value)} ({reason})")
            return False
        self.own, self.changed = trial, True
        self.report.add(self.name, part, word, before, _said(value))
        return True

    def merge(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        for name, text in new.get("let", {}).items():
            if name not in self.whole.get("let", {}) and old.get("let", {}).get(name) != text:
                self.change(("let", name), text, f"let {name}")
        for group, word in (("inputs", "input"), ("params", "parameter"), ("outputs", "output")):
            self.entries(group, word, old.get(group, {}), new[group])
        self.rules(
            ("constraints",),
            "C",
            old.get("constraints", {}),
            new["constraints"],
            f"{MASTER}@{self.sdk}#{self.name}",
        )
        for backend, entry in new["backends"].items():
            before = old.get("backends", {}).get(backend)
            if backend not in self.whole.get("backends", {}):
                if before is not None:
                    continue  # the spec omits it, and its facts did not change
                self.change(("backends", backend), _lean(entry), f"backend {backend}")
            elif before is not None:
                at = ("backends", backend, "constraints")
                letter = self.catalog.backends[backend].letter
                self.rules(at, letter, before["constraints"], entry["constraints"], entry["source"])

    def entries(self, group: str, word: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Updates slots or parameters field by field."""
        for name, entry in new.items():
            mine = self.whole.get(group, {})
            if name not in mine:
                if name not in old:
                    self.change((group, name), entry, f"{word} {name}")
                elif _fields(old[name], group) != _fields(entry, group):
                    self.report.add(self.name, f"{word} {name}", "kept", now=_said(entry))
                continue
            if name not in old:
                continue
            before, now, ours = (_fields(e, group) for e in (old[name], entry, mine[name]))
            fields = {k for k in {*before, *now} if before.get(k) != now.get(k)}
            if not fields:
                continue
            if all(ours.get(k) == before.get(k) for k in fields):
                value = {
                    k: v for k, v in {**ours, **{k: now.get(k) for k in fields}}.items() if v is not None
                }
                self.change((group, name), value, f"{word} {name}", _said(mine[name]))
            elif any(ours.get(k) != now.get(k) for k in fields):
                self.words.append(f"{word} {name}: {_said(entry)} (a person wrote {_said(mine[name])})")
                self.report.add(self.name, f"{word} {name}", "kept", _said(mine[name]), _said(entry))

    def rules(
        self, at: tuple[str, ...], letter: str, old: Mapping[str, Any], new: Mapping[str, Any], source: str
    ) -> None:
        """Updates rules by their content: new ones get free ids; one that replaces another keeps its id."""
        before, now = ({_key(r): r for r in group.values()} for group in (old, new))
        lost = [k for k in before if k not in now]
        for key, rule in now.items():
            mine = self._rules_at(at)
            if key in before or any(_key(r) == key for r in mine.values()):
                continue
            entry = {"source": source} | (rule if isinstance(rule, dict) else {"require": rule})
            entry = {k: entry[k] for k in ("when", *STRENGTHS, "why", "source") if k in entry}
            replaced = next((k for k in lost if _about(k) == _about(key)), None)
            ident = next((i for i, r in mine.items() if replaced and _key(r) == replaced), None)
            if ident is not None and replaced is not None:
                lost.remove(replaced)
                self.change((*at, ident), entry, ".".join((*at[1:2], ident)), _said(mine[ident]))
            else:
                ident = self.free(letter, mine)
                self.change((*at, ident), entry, ".".join((*at[1:2], ident)))
        for key in lost:
            for ident, rule in self._rules_at(at).items():
                if _key(rule) == key:
                    self.report.add(self.name, ".".join((*at[1:2], ident)), "gone", _said(rule))

    def _rules_at(self, at: tuple[str, ...]) -> Mapping[str, Any]:
        found: Any = self.whole
        for key in at:
            found = found.get(key, {})
        return dict(found)

    def free(self, letter: str, taken: Mapping[str, Any]) -> str:
        """The next id that no rule has or had."""
        retired = {
            r.partition(".")[2] for r in self.catalog.retired["rules"] if str(r).startswith(f"{self.name}.")
        }
        numbers = [int(i[1:]) for i in {*taken, *retired} if i[:1] == letter and i[1:].isdigit()]
        return f"{letter}{max(numbers, default=0) + 1}"

    def rows(self, old: DocumentedOp | None, new: DocumentedOp) -> None:
        """Adds combinations of types that are new in the document, as separate configurations."""
        if old is None or not old.outputs:
            return
        for backend, entry in new.backends.items():
            if backend not in self.whole.get("backends", {}) or backend not in old.backends:
                continue
            if entry.rows == old.backends[backend].rows:
                continue
            if max(_largest(entry), _largest(old.backends[backend])) > MANY:
                said = "rows that multiply out to too many combinations to be compared; compare them by hand"
                self.report.add(self.name, f"{backend}.dtypes", "kept", now=said)
                continue
            now, before = (_table(parts(op), backend) for op in (new, old))
            mine = _table(self.whole, backend)
            known = {combination for table in mine.values() for combination in table}
            for config, table in now.items():
                fresh = [c for c in table if c not in before.get(config, ()) and c not in known]
                if fresh:
                    self.add_rows(backend, config, fresh, entry.source)
            for config, table in before.items():
                lost = [c for c in table if c not in now.get(config, ())]
                if lost:
                    self.report.add(
                        self.name, f"{backend}.{config}", "gone", f"{counted(len(lost), 'row')} of types"
                    )

    def add_rows(
        self, backend: str, config: str, fresh: list[frozenset[tuple[str, str]]], source: str
    ) -> None:
        slots = list(self.whole["inputs"]) + list(self.whole["outputs"])
        group = compact([{s: (d,) for s in slots for t, d in c if t == s} for c in fresh])
        rows = [{s: cell[0] if len(cell) == 1 else list(cell) for s, cell in row.items()} for row in group]
        name = f"{config}_{'_'.join(self.sdk.split('.')[:2])}"
        at = self.own.get("backends", {}).get(backend)
        if at is None or name in at.get("dtypes", {}):
            self.report.add(self.name, f"{backend}.{config}", "kept", now=_said(rows))
            return
        value = copy.deepcopy(at)
        value.setdefault("dtypes", {})[name] = rows
        origin = {"source": source, "since": ".".join(self.sdk.split(".")[:2])}
        value.setdefault("configurations", {})[name] = origin
        kept, self.report.rows = self.report.rows, []
        held = self.change(("backends", backend), value, f"{backend}.{name}")
        self.report.rows = kept
        self.report.add(self.name, f"{backend}.{name}", "added" if held else "kept", now=_said(rows))


def _largest(backend: DocumentedBackend) -> int:
    """The number of type combinations in the largest row of a backend."""
    return max((prod(len(types) or 1 for types in cells.values()) for _, cells in backend.rows), default=0)


def _table(data: Mapping[str, Any], backend: str) -> dict[str, list[frozenset[tuple[str, str]]]]:
    """Maps each configuration to its combinations of types, each a set of (slot, type) for every slot."""
    out: dict[str, list[frozenset[tuple[str, str]]]] = {}
    for config, rows in data["backends"][backend].get("dtypes", {}).items():
        for row in rows:
            out.setdefault(config, []).extend(frozenset(c) for c in _combinations(list(row.items())))
    return out


def _combinations(cells: list[tuple[str, Any]]) -> Iterator[list[tuple[str, str]]]:
    if not cells:
        yield []
        return
    slot, cell = cells[0]
    for rest in _combinations(cells[1:]):
        for dtype in [cell] if isinstance(cell, str) else cell:
            yield [(slot, dtype), *rest]


def _fields(entry: Any, group: str) -> dict[str, Any]:
    """An entry in its long form."""
    if isinstance(entry, dict):
        out = dict(entry)
        if isinstance(out.get("dtype"), str):
            out["dtype"] = [out["dtype"]]
        return out
    return {"type" if group == "params" else "shape": entry}


def _key(rule: Any) -> tuple[str, str]:
    """The content of a rule: its condition and its requirement."""
    if not isinstance(rule, dict):
        return "", str(rule)
    return str(rule.get("when") or ""), str(next(rule[s] for s in STRENGTHS if s in rule))


def _about(key: tuple[str, str]) -> tuple[str, str]:
    """A rule without its numbers: equal results mean the same rule with other limits."""
    return key[0], "".join(c for c in key[1] if c.isalpha() or c in "._")


def _lean(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in entry.items() if v}


def _said(value: Any) -> str:
    if isinstance(value, dict):
        value = {k: v for k, v in value.items() if k not in ("source", "doc")}
        if set(value) in ({"type"}, {"require"}, {"shape"}):
            return _said(next(iter(value.values())))
        return ", ".join(f"{k}: {_said(v)}" for k, v in value.items())
    if isinstance(value, list):
        return "[" + ", ".join(map(_said, value)) + "]"
    return str(value)
