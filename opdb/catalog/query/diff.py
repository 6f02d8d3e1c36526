"""Differences between two SDKs, backends, or SoCs: ops, type rows, rules in force, and measurements.

    rows = diff(Store(url), side("2.25"), side("2.47"))
    rows = diff(Store(url), side("HTP:SM8450"), side("HTP:SM8750"))

An SDK has everything that no `since` or `until` excludes; specs contain nothing else about the past.  Parameters belong
to the op, whatever the SDK and backend; rules restrict their use.  A rule is compared as what remains of it on each side
after `sdk` and the chip's values are filled in; a rule that always holds drops out.
"""

from __future__ import annotations

import ast
import json
import operator
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from opdb.catalog.query.definitions import rules, type_rows, unchecked
from opdb.catalog.query.rows import Filters, Row, View
from opdb.catalog.query.sql import among, compared
from opdb.catalog.store import Store
from opdb.catalog.store.load import backend_of, soc_data
from opdb.catalog.store.reader import Reader
from opdb.core.errors import OpdbError
from opdb.core.sdk import declared, same_sdk, sdk_number
from opdb.generated.constants.backends import DEFAULT
from opdb.spec.catalog import socs_of

#: The keys of each row, in order.
COLUMNS = (
    "part",
    "change",
    "op",
    "backend",
    "soc",
    "name",
    "before",
    "after",
    "count",
    "regression",
    "example",
)
#: The conditions on which a command can be told to fail.
FAILURES = ("regression", "removed", "changed")
_STATUSES = ("validates", "finalizes", "executes", "matches")
_MANY = 4096  # combinations of data types that are compared one by one


@dataclass(frozen=True)
class Side:
    """One side of the comparison; None leaves a field open: every backend, any SoC, any SDK."""

    backend: str | None = None
    soc: str | None = None
    sdk: str | None = None

    def __str__(self) -> str:
        place = ":".join(p for p in (self.backend, self.soc) if p)
        return "@".join(p for p in (place, self.sdk) if p) or "everything"


def side(text: str, backend: str | None = None, soc: str | None = None, sdk: str | None = None) -> Side:
    """Parses ``2.47``, ``HTP``, ``HTP:SM8650``, or ``HTP:SM8650@2.47``; the arguments fill in missing parts."""
    place, at, version = text.partition("@")
    if not at and place[:1].isdigit():
        place, version = "", place
    if at and not version:
        raise OpdbError(f"'{text}': an SDK version belongs behind the @, e.g. HTP:SM8650@2.47")
    name, colon, chip = place.partition(":")
    if colon and not (name and chip):
        raise OpdbError(f"'{text}': not BACKEND:SOC; e.g. HTP:SM8650")
    if version:
        sdk_number(version)
    chosen = chip.upper() or soc
    return Side(name.upper() or backend or (DEFAULT if chosen else None), chosen, version or sdk)


def diff(store: Store, a: Side, b: Side, op: str | None = None) -> list[Row]:
    """Lists what ``b`` has and ``a`` lacks (added), the reverse (removed), and what differs (changed).

    ``regression``: something that ran on ``a`` may not run on ``b``: an op or a type row is gone, a rule is new or
    changed, or a measured status got worse (e.g. yes to no, no to crashed).  Raises OpdbError for an unknown op,
    backend, or SoC.
    """
    if a == b:
        raise OpdbError(f"both sides are {a}; nothing can differ")
    for what in ("backend", "sdk", *(["soc"] if a.backend == b.backend else [])):
        if (getattr(a, what) is None) is not (getattr(b, what) is None):
            raise OpdbError(f"{a} and {b} cannot be compared: only one of them names its {what}")
    with store.asking() as reader:
        a, b = (_spelled(reader, s, op) for s in (a, b))
        view = View(reader, Filters(op))
        sides = [_Definitions(view, s) for s in (a, b)]
        found = [*_ops(*sides), *_types(*sides), *_rules(*sides)]
        return [
            dict(zip(COLUMNS, (r.get(c) for c in COLUMNS), strict=True))
            for r in found + _verdicts(view, a, b)
        ]


def _spelled(reader: Reader, s: Side, op: str | None) -> Side:
    """The side with the SoC's canonical name.  Raises OpdbError for unknown names."""
    known = View(reader, Filters(op, s.backend, s.soc, s.sdk)).filters
    return s if s.soc is None else replace(s, soc=known.many("soc")[0])


def failing(rows: Sequence[Row], on: Sequence[str]) -> bool:
    """True if any row matches ``on``: "regression", "removed", or "changed"."""
    return any(r["change"] in on or ("regression" in on and r["regression"]) for r in rows)


class _Definitions:
    """The ops, type rows, and rules that the specs give one side."""

    def __init__(self, view: View, s: Side) -> None:
        self.side = s
        self.known = {"sdk": None if s.sdk is None else sdk_number(s.sdk)}
        chip = (
            None
            if s.soc is None
            else socs_of([soc_data(r) for r in view.reader.rows("SELECT * FROM soc")])[s.soc]
        )
        self.backends = {b["name"]: backend_of(b) for b in view.backends.values()}
        for backend in self.backends.values():
            self.known |= backend.reads(chip) if chip else dict.fromkeys(backend.context)
        self.places: dict[tuple[str, str], Any] = {}  # (op, backend)
        every = [r for r in type_rows(view) if s.backend in (None, r["backend"])]
        self.rows = [
            r
            for r in every
            if (s.sdk is None or declared(r["since"], r["until"], s.sdk)) and not self._lacks(r)
        ]
        sources = {r["id"]: r["text"] for r in view.reader.rows("SELECT id, text FROM source")}
        for op, rows in view.merged("op_backend", "backend_id").items():
            for r in rows:
                name = view.backends[r["backend_id"]]["name"]
                if s.backend in (None, name) and (s.sdk is None or declared(r["since"], r["until"], s.sdk)):
                    self.places[op, name] = sources.get(r["source_id"])
        for place in {(r["op"], r["backend"]) for r in every} - {(r["op"], r["backend"]) for r in self.rows}:
            self.places.pop(place, None)  # it has type rows, but none of them on this side
        every = rules(view)
        self.rules = [r for r in every if r["kind"] == "written" and (r["op"], r["backend"]) in self.places]
        self.rules += self._open(every, unchecked(view))

    def _lacks(self, row: Row) -> bool:
        """True if this side's chip lacks a feature that a type row needs."""
        need = self.backends[row["backend"]].need(row["type_row"].split(".")[1])
        return need is not None and self.known.get(need.has) is False

    def _open(self, every: Sequence[Row], exempt: Mapping[tuple[str, str], Mapping[str, Any]]) -> list[Row]:
        """The ops' own rules that some backend does not check, with their strength on each backend of this side."""
        out = []
        for r in every:
            entries = exempt.get((r["op"], r["rule"]), {})
            for op, backend in self.places if entries and r["backend"] is None else ():
                if op == r["op"]:
                    e = entries.get(backend)
                    free = e is not None and (
                        self.side.sdk is None or declared(e["since"], e["until"], self.side.sdk)
                    )
                    out.append({**r, "backend": backend, "strength": "expect" if free else r["strength"]})
        return out


def _across(a: _Definitions, b: _Definitions) -> bool:
    """True if two backends are compared; type rows and rules are then matched by content, not by name."""
    return a.side.backend != b.side.backend


def _entry(part: str, change: str, op: str, of: Side, backend: str, **more: Any) -> Row:
    return {"part": part, "change": change, "op": op, "backend": backend, "soc": of.soc, "count": 1, **more}


def _ops(a: _Definitions, b: _Definitions) -> list[Row]:
    def keys(d: _Definitions) -> dict[tuple[str, str], str]:
        return {(op, "" if _across(a, b) else backend): backend for op, backend in d.places}

    before, after = keys(a), keys(b)
    out = []
    for key in sorted(before.keys() | after.keys()):
        if key not in after:
            out.append(_entry("op", "removed", key[0], a.side, before[key], name=key[0], regression=True))
        elif key not in before:
            out.append(_entry("op", "added", key[0], b.side, after[key], name=key[0], regression=False))
    return out


def _types(a: _Definitions, b: _Definitions) -> list[Row]:
    """The type rows of one side that the other does not fully cover, for ops that both have."""
    out = []
    for one, other, change in ((a, b, "removed"), (b, a, "added")):
        allowed: dict[tuple[str, str], list[dict[str, set[str]]]] = defaultdict(list)
        places = {(op, "" if _across(a, b) else backend) for op, backend in other.places}
        for r in other.rows:
            allowed[r["op"], "" if _across(a, b) else r["backend"]].append(_cells(r))
        for r in one.rows:
            key = (r["op"], "" if _across(a, b) else r["backend"])
            if key in places and not _covered(_cells(r), allowed[key]):
                text = {"before" if change == "removed" else "after": r["cells"]}
                more = {"name": r["type_row"], "regression": change == "removed", **text}
                out.append(_entry("type row", change, r["op"], one.side, r["backend"], **more))
    return sorted(out, key=lambda r: (r["op"], r["backend"], r["change"] == "added"))


def _cells(row: Row) -> dict[str, set[str]]:
    pairs = (cell.split(": ") for cell in row["cells"].split(", "))
    return {slot: set(dtypes.split("|")) for slot, dtypes in pairs}


def _covered(row: Mapping[str, set[str]], others: Sequence[Mapping[str, set[str]]]) -> bool:
    """True if the other rows cover every combination of a row; False if there are more than _MANY to compare."""
    if any(all(row[s] <= o.get(s, set()) for s in row) for o in others):
        return True
    size = 1
    for dtypes in row.values():
        size *= len(dtypes)
    if size > _MANY:
        return False
    return all(
        any(all(d in o.get(s, set()) for s, d in zip(row, combo, strict=True)) for o in others)
        for combo in product(*map(sorted, row.values()))
    )


def _rules(a: _Definitions, b: _Definitions) -> list[Row]:
    """The rules whose demands differ between the sides, for ops that both have."""
    before, after = _asked(a, b), _asked(b, a)
    out = []
    for key in sorted(before.keys() | after.keys()):
        (old, was), (new, now) = before.get(key, (None, None)), after.get(key, (None, None))
        if was == now:
            continue
        change, of = ("removed", a.side) if new is None else ("added" if old is None else "changed", b.side)
        rule = new or old or {}
        worse = new is not None and rule["strength"] != "expect"
        more = {"name": rule["rule"], "before": was, "after": now, "regression": worse}
        out.append(_entry("rule", change, rule["op"], of, rule["backend"], **more))
    return out


def _asked(d: _Definitions, other: _Definitions) -> dict[tuple[str, str, str], tuple[Row, str]]:
    """Each rule with what remains of it, keyed by the remainder across backends, else by its id."""
    across = _across(d, other)
    there = {(op, "" if across else backend) for op, backend in other.places}
    out = {}
    for r in d.rules:
        left = residual(r["when"], r["expression"], d.known)
        if left is not None and (r["op"], "" if across else r["backend"]) in there:
            out[r["op"], left if across else r["rule"], r["strength"]] = (r, left)
    return out


# -- rules with known names filled in

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def residual(when: str | None, require: str | None, known: Mapping[str, int | None]) -> str | None:
    """The condition that a rule still demands for the known names; None if it always holds.

    e.g. residual("gamma.dtype == sq16", "arch >= 73", {"arch": 68}) = "not gamma.dtype == sq16"
    """
    values = {k: v for k, v in known.items() if v is not None}
    guard = _folded(when or "True", values)
    asks = _folded(require or "True", values)
    if _is(guard, False) or _is(asks, True):
        return None
    if _is(guard, True):
        return ast.unparse(asks)
    if _is(asks, False):
        return ast.unparse(ast.UnaryOp(ast.Not(), guard))
    return f"if {ast.unparse(guard)}: {ast.unparse(asks)}"


def _folded(text: str, values: Mapping[str, int]) -> ast.expr:
    folded = _Fold(values).visit(ast.parse(f"({text}\n)", mode="eval").body)
    assert isinstance(folded, ast.expr)
    return ast.fix_missing_locations(folded)


def _is(node: ast.expr, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


class _Fold(ast.NodeTransformer):
    """Replaces names with numbers, and decided conditions with truth values."""

    def __init__(self, values: Mapping[str, int]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self.values[node.id]) if node.id in self.values else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        terms = [node.left, *node.comparators]
        parts: list[ast.expr] = []
        for op, left, right in zip(node.ops, terms, terms[1:], strict=False):
            decided = _decided(op, left, right)
            if decided is False:
                return ast.Constant(False)
            if decided is None:
                parts.append(ast.Compare(left, [op], [right]))
        if len(parts) == len(node.ops):
            return node
        return _joined(ast.And(), parts, True)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        neutral = isinstance(node.op, ast.And)
        if any(_is(v, not neutral) for v in node.values):
            return ast.Constant(not neutral)
        return _joined(node.op, [v for v in node.values if not _is(v, neutral)], neutral)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and isinstance(node.operand, ast.Constant):
            return ast.Constant(not node.operand.value)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.test, ast.Constant):
            return node.body if node.test.value else node.orelse
        return node


def _joined(op: ast.boolop, parts: list[ast.expr], empty: bool) -> ast.expr:
    if not parts:
        return ast.Constant(empty)
    return parts[0] if len(parts) == 1 else ast.BoolOp(op, parts)


def _decided(op: ast.cmpop, left: ast.expr, right: ast.expr) -> bool | None:
    """Evaluates a comparison of two numbers, or of a number with a list; None if it is undecided."""
    if not isinstance(left, ast.Constant):
        return None
    if isinstance(right, ast.Constant):
        compare = _COMPARE.get(type(op))
        return None if compare is None else compare(left.value, right.value)
    choices = right.elts if isinstance(right, (ast.Tuple, ast.List)) else []
    if isinstance(op, (ast.In, ast.NotIn)) and choices and all(isinstance(c, ast.Constant) for c in choices):
        inside = left.value in [c.value for c in choices if isinstance(c, ast.Constant)]
        return inside is isinstance(op, ast.In)
    return None


# -- measurements

#: (op, backend, SoC, config); backend and SoC are "" if the side fixes them.
_Asked = tuple[str, str, str, str]
_OPEN = ("unknown", "", "")


def _verdicts(view: View, a: Side, b: Side) -> list[Row]:
    """The statuses that are known on both sides of a config and differ, counted by op and type row."""
    before, after = _measured(view, a), _measured(view, b)
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for key in sorted(before.keys() & after.keys()):
        op, backend, soc, config = key
        for status in _STATUSES:
            (old, row, _), (new, _, case) = before[key].get(status, _OPEN), after[key].get(status, _OPEN)
            if old != new and _OPEN[0] not in (old, new):
                groups[op, backend, soc, row, status, old, new].append(case or config)
    out = []
    for (op, backend, soc, row, status, old, new), examples in sorted(groups.items()):
        worse = old == "yes" or (old == "no" and new in ("crashed", "hung"))
        more = {"name": f"{row} {status}".strip(), "before": old, "after": new, "count": len(examples)}
        entry = _entry("verdict", "changed", op, b, b.backend or backend, **more, regression=worse)
        out.append(entry | {"soc": b.soc or soc or None, "example": examples[0]})
    return out


def _measured(view: View, s: Side) -> dict[_Asked, dict[str, tuple[str, str, str]]]:
    """Maps each config to the latest known value of each status: (status, type row, case)."""
    found: dict[_Asked, dict[str, tuple[str, str, str]]] = defaultdict(dict)
    known = [r["sdk"] for r in view.reader.rows("SELECT DISTINCT sdk FROM library")]
    sdks = [k for k in known if s.sdk is not None and same_sdk(s.sdk, k)] + [s.sdk or ""]
    wanted = [compared(c, "=", v) for c, v in (("backend", s.backend), ("soc", s.soc)) if v is not None]
    if ops := view.filters.many("op"):
        wanted.append(among("op", ops))
    if s.sdk is not None:
        wanted.append(among("sdk", sdks))
    for query in (_PROBES, _RESULTS):
        for r in view.matching(query, *wanted):
            key = (
                r["op"],
                "" if s.backend else r["backend"],
                "" if s.soc else r["soc"],
                _canonical(r["config"]),
            )
            for status in _STATUSES:
                if r[status] in ("yes", "no", "crashed", "hung"):
                    found[key][status] = (r[status], r["type_row"], r["name"])
    return found


_PROBES = """
SELECT id, op, type_row, backend, soc, sdk, config, validates, finalizes, executes, 'unknown' AS matches, '' AS name
FROM probe_result"""
_RESULTS = """
SELECT r.id, k.op, k.type_row, e.backend, r.soc, l.sdk, k.config, r.validates, r.finalizes, r.executes, r.matches, k.name
FROM result AS r
JOIN conformance_case AS k ON k.id = r.conformance_case_id
JOIN executor AS e ON e.id = r.executor_id
JOIN library AS l ON l.id = e.library_id"""


def _canonical(config: str) -> str:
    """The op config without its id, because two cases may have the same config."""
    if '"id"' not in config:
        return config
    document = json.loads(config)
    document.pop("id", None)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
