"""The table ``support``: declared and measured statuses of every type row, chip class, and SDK.

Sync, new evidence, and the user's own runs update it; the view v_support repeats each row for the chips of its part.  A part
is a class of chips (the same Hexagon version and floating point), or one chip that was measured itself.  The user's own
measurements of a status take precedence over those from files, unless these are newer; device results have separate rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from opdb.catalog.evidence.status import Measured
from opdb.catalog.schema.names import FEATURES, STATUS_COLUMNS
from opdb.catalog.store.reader import Reader, Row, Writer
from opdb.catalog.store.support_status import StatusRows

if TYPE_CHECKING:  # only sync loads the models
    pass

MEASURED = STATUS_COLUMNS[1:]
#: Worst first: users must see one crash among many successes.
WORST = ("crashed", "hung", "no", "yes", "not-applicable", "unknown")
_RANK = {status: i for i, status in enumerate(WORST)}
_UNKNOWN = _RANK["unknown"]
Statuses = tuple[int, ...]  # ranks, by stage
Key = tuple[str, str, str]  # op, type row, backend


@dataclass
class _Own:
    """The user's own measurements of a type row on one SoC and SDK."""

    ranks: list[int] = field(default_factory=lambda: [_UNKNOWN] * len(MEASURED))
    counts: tuple[Counter[str], ...] = field(default_factory=lambda: tuple(Counter() for _ in MEASURED))
    n: int = 0
    at: str | None = None
    library: str | None = None


class _Cell(NamedTuple):
    """A cell of the evidence."""

    ident: int
    outcome: Row
    ranks: Statuses
    date: str


@dataclass
class _Cells:
    """The cells of a type row by (SDK, on a device): per chip, and the newest per kind of similar chips."""

    by_soc: dict[str, dict[tuple[str, bool], _Cell]] = field(default_factory=dict)
    by_kind: dict[Any, dict[tuple[str, bool], _Cell]] = field(default_factory=dict)

    @property
    def of_devices(self) -> bool:
        return any(device for found in self.by_soc.values() for _, device in found)


@dataclass(frozen=True)
class _Chip:
    """A chip, and the chips whose measurements count for it."""

    name: str
    class_id: int
    like: tuple[Any, ...] | None  # chips with an equal value share evidence; None: shares with no other
    special: bool  # not all libraries open it, so only its own evidence counts


def refresh(writer: Writer, ops: Collection[str] | None = None) -> None:
    """Rewrites the rows of these ops; rewrites all rows if ``ops`` is None or adds an SDK or part that is missing."""
    chips = _chips(writer)
    own = _own(writer, ops)
    sdks = _sdks(writer)
    parts: dict[str, int] = {}
    if ops is not None:
        parts = {r["soc"]: r["part"] for r in writer.rows("SELECT soc, part FROM support_place")}
        there = {(r["backend"], r["sdk"]) for r in writer.rows(_THERE)}
        if _socs(own) - _alone(parts) or _pairs(sdks) - there or _apart(writer, ops, chips, parts):
            ops, own = None, _own(writer, None)
    if ops is None:
        parts = _parts(chips, _socs(own), _named(writer), _declared(writer))
        writer.run("DELETE FROM support")
        writer.run("DELETE FROM support_status")
        writer.run("DELETE FROM support_place")
        writer.insert(
            "support_place", [{"id": i, "part": p, "soc": s} for i, (s, p) in enumerate(parts.items(), 1)]
        )
        writer.run("DELETE FROM op_type_row WHERE place IS NULL")
    else:
        mine = "SELECT id FROM op_type_row WHERE op IN @ops"
        writer.run(f"DELETE FROM support WHERE op_type_row_id IN ({mine})", ops=sorted(ops))
        writer.run("DELETE FROM op_type_row WHERE place IS NULL AND op IN @ops", ops=sorted(ops))
    _Fill(writer, ops, chips, parts, own, sdks).write()


_THERE = """
SELECT DISTINCT t.backend, s.sdk FROM support AS s JOIN op_type_row AS t ON t.id = s.op_type_row_id"""


def _pairs(sdks: Mapping[str, Collection[str]]) -> set[tuple[str, str]]:
    return {(backend, sdk) for backend, found in sdks.items() for sdk in found}


def _socs(own: Mapping[Key, Mapping[tuple[str, str], _Own]]) -> set[str]:
    return {soc for found in own.values() for soc, _ in found}


def _alone(parts: Mapping[str, int]) -> set[str]:
    """The chips that are alone in their part."""
    members = Counter(parts.values())
    return {soc for soc, part in parts.items() if members[part] == 1}


def _declared(reader: Reader, ops: Collection[str] | None = None) -> dict[int, frozenset[tuple[int, ...]]]:
    """Maps each chip class to its declared (type row, first SDK, last SDK) triples."""
    found: dict[int, set[tuple[int, ...]]] = {
        r["id"]: set() for r in reader.rows("SELECT id FROM chip_class")
    }
    narrow, values = ("", {}) if ops is None else (" AND t.op IN @ops", {"ops": sorted(ops)})
    for r in reader.rows(_DECLARED + narrow, **values):
        found[r["chip_class_id"]].add((r["op_type_row_id"], r["first"], r["last"]))
    return {ident: frozenset(rows) for ident, rows in found.items()}


def _apart(
    reader: Reader, ops: Collection[str], chips: Mapping[str, _Chip], parts: Mapping[str, int]
) -> bool:
    """True if chips of one part have different declarations, or if a chip has no part yet."""
    declared = _declared(reader, ops)
    found: dict[int, set[frozenset[tuple[int, ...]]]] = defaultdict(set)
    for chip in chips.values():
        found[parts.get(chip.name, -1)].add(declared[chip.class_id])
    return any(part < 0 or len(several) > 1 for part, several in found.items()) or not parts


def _chips(reader: Reader) -> dict[str, _Chip]:
    found = {}
    for r in reader.rows("SELECT * FROM soc ORDER BY position"):
        like = None if r["htp_arch"] is None else (r["htp_arch"], *(r[f] for f in FEATURES))
        found[r["chip"]] = _Chip(r["chip"], r["chip_class_id"], like, r["libraries"] is not None)
    return found


def _named(reader: Reader) -> set[str]:
    """The chips named in evidence about ops."""
    return {r["soc"] for r in reader.rows("SELECT DISTINCT soc FROM evidence_run WHERE flow = ''")} - {""}


def _parts(
    chips: Mapping[str, _Chip],
    own: set[str],
    named: set[str],
    declared: Mapping[int, frozenset[tuple[int, ...]]],
) -> dict[str, int]:
    """Maps chip to part; "" is for backends without chips.  Unmeasured chips with the same declarations share a part."""
    measured: dict[Any, set[str]] = {None: set()}
    for name in named & chips.keys():
        measured.setdefault(chips[name].like, set()).add(name)
    groups: dict[Any, list[str]] = {("",): [""]}
    for chip in chips.values():
        several = chip.like is None or chip.special or len(measured.get(chip.like, ())) > 1
        alone = chip.name in own or (chip.name in named and several)
        shared = not chip.special and measured.get(chip.like)
        group = (
            (chip.name,)
            if alone
            else (chip.class_id, chip.like)
            if shared
            else (declared[chip.class_id], chip.like)
        )
        groups.setdefault(group, []).append(chip.name)
    for name in sorted(own - chips.keys() - {""}):
        groups[(name,)] = [name]
    return {name: part for part, members in enumerate(groups.values()) for name in members}


def _sdks(reader: Reader) -> dict[str, list[str]]:
    """The measured SDKs by backend."""
    found: dict[str, list[str]] = defaultdict(list)
    for r in reader.rows(MEASURED_SDKS):
        found[r["backend"]].append(r["sdk"])
    return found


#: The SDKs of libraries and evidence, and of conformance cases on backends without a library.
MEASURED_SDKS = """
SELECT l.backend, l.sdk FROM library AS l
UNION
SELECT r.backend, r.sdk FROM evidence_run AS r WHERE r.flow = ''
UNION
SELECT e.backend, k.sdk FROM executor AS e
JOIN result AS r ON r.executor_id = e.id
JOIN conformance_case AS k ON k.id = r.conformance_case_id
WHERE e.library_id IS NULL AND e.backend <> ''"""


def _own(reader: Reader, ops: Collection[str] | None) -> dict[Key, dict[tuple[str, str], _Own]]:
    """The worst of the user's own measurements, by key, then (SoC, SDK)."""
    found: dict[Key, dict[tuple[str, str], _Own]] = {}
    values: dict[str, Any] = {} if ops is None else {"ops": sorted(ops)}
    for sql, op in ((_PROBES, "p.op"), (_RESULTS, "k.op")):
        narrow = "" if ops is None else f" AND {op} IN @ops"
        for r in reader.rows(sql.format(narrow=narrow), **values):
            places = found.setdefault((r["op"], r["type_row"], r["backend"]), {})
            own = places.setdefault((r["soc"], r["sdk"]), _Own())
            own.ranks = [min(rank, _RANK[r[c]]) for rank, c in zip(own.ranks, MEASURED, strict=True)]
            for of_stage, c in zip(own.counts, MEASURED, strict=True):
                of_stage[r[c]] += r["n"]
            own.n += r["n"]
            own.at = max(own.at or "", r["at"])
            own.library = max(own.library or "", r["library"] or "") or None
    return found


_STAGES = ", ".join(f"p.{c}" for c in MEASURED[:3])
_PROBES = f"""
SELECT g.*, l.package || ' ' || l.version || CASE WHEN l.emulated THEN ', emulator' ELSE ', host' END AS library
FROM (
  SELECT p.op, p.type_row, p.backend, p.soc, p.sdk, {_STAGES}, 'unknown' AS matches, u.library_id, COUNT(*) AS n,
         MAX(u.started) AS at
  FROM probe_result AS p JOIN probe_run AS u ON u.id = p.probe_run_id
  WHERE p.type_row <> ''{{narrow}}
  GROUP BY p.op, p.type_row, p.backend, p.soc, p.sdk, {_STAGES}, u.library_id) AS g
JOIN library AS l ON l.id = g.library_id"""
#: The last result of each case, executor, and SoC: a changed case is a new row under the same name.
_RESULTS = f"""
SELECT k.op, k.type_row, e.backend, r.soc, COALESCE(l.sdk, k.sdk) AS sdk, {", ".join(f"r.{c}" for c in MEASURED)}, 1 AS n,
       u.started AS at, l.package || ' ' || l.version || CASE WHEN l.emulated THEN ', emulator' ELSE ', host' END AS library
FROM (
  SELECT MAX(x.id) AS id FROM conformance_case AS k JOIN result AS x ON x.conformance_case_id = k.id
  WHERE 1 = 1{{narrow}} GROUP BY k.name, x.executor_id, x.soc) AS last
JOIN result AS r ON r.id = last.id
JOIN conformance_case AS k ON k.id = r.conformance_case_id
JOIN executor AS e ON e.id = r.executor_id
JOIN run AS u ON u.id = r.run_id
LEFT JOIN library AS l ON l.id = e.library_id
WHERE k.kind = 'positive' AND k.type_row <> '' AND e.backend <> ''"""


class _Fill:
    """Computes and writes rows of ``support``."""

    def __init__(
        self,
        writer: Writer,
        ops: Collection[str] | None,
        chips: Mapping[str, _Chip],
        parts: Mapping[str, int],
        own: Mapping[Key, Mapping[tuple[str, str], _Own]],
        sdks: Mapping[str, list[str]],
    ) -> None:
        self.writer, self.chips, self.own, self.sdks = writer, chips, own, sdks
        self.narrow = "" if ops is None else " AND {} IN @ops"
        self.values: dict[str, Any] = {} if ops is None else {"ops": sorted(ops)}
        self.part = parts
        self.first: dict[int, str] = {}  # part -> its representative chip
        for soc, part in parts.items():
            self.first.setdefault(part, soc)
        self.statuses = StatusRows(writer)
        self.next = 1 + (writer.value("SELECT MAX(id) FROM support") or 0)
        self.rows: list[dict[str, Any]] = []
        backends = [*writer.rows("SELECT name, context, asked FROM backend")]
        self.asked = {r["name"] for r in backends if r["asked"]}
        self.per_soc = {r["name"] for r in backends if '"arch"' in (r["context"] or "")}

    def _read(self, sql: str, column: str) -> Iterator[Row]:
        return self.writer.rows(sql + self.narrow.format(column), **self.values)

    def write(self) -> None:
        cells = self._cells()
        none = self.writer.value("SELECT id FROM chip_class WHERE name = ''")
        classes = {
            soc: self.chips[soc].class_id if soc in self.chips else none for soc in self.first.values()
        }
        declared: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for r in self._read(_DECLARED, "t.op"):
            declared[r["op_type_row_id"], r["chip_class_id"]].append((r["first"], r["last"]))
        documented = [*self._read(_DOCUMENTED, "t.op")]
        known = {(r["op"], r["type_row"], r["backend"]) for r in documented}
        keys = dict.fromkeys([*self.own, *(k for k, found in cells.items() if found.of_devices)])
        new = self._undocumented([k for k in keys if k not in known])
        for r in (*documented, *new):
            key = (r["op"], r["type_row"], r["backend"])
            sdks = self._documented_sdks(r) if r["place"] is not None else []
            for part, soc, places in self._places(key, sdks, cells.get(key, _Cells())):
                ranges = declared.get((r["id"], classes[soc]), ())
                for (sdk, device), (own, cell) in places.items():
                    self._add(r, part, sdk, device, ranges, own, cell)
        self.writer.insert("support", self.rows)

    def _documented_sdks(self, r: Row) -> list[str]:
        return self.sdks.get(r["backend"]) or [r["version"] or r["since"] or ""]

    def _undocumented(self, keys: list[Key]) -> list[dict[str, Any]]:
        """Adds type rows that were measured but are undocumented."""
        first = 1 + (self.writer.value("SELECT MAX(id) FROM op_type_row") or 0)
        new = [
            {"id": first + i, "op": op, "type_row": row, "backend": backend, "place": None}
            | dict.fromkeys(("needs", "since", "until"))
            for i, (op, row, backend) in enumerate(keys)
        ]
        self.writer.insert("op_type_row", new)
        return new

    def _places(
        self, key: Key, sdks: list[str], cells: _Cells
    ) -> Iterator[tuple[int, str, dict[tuple[str, bool], tuple[_Own, _Cell | None]]]]:
        """Yields (part, its chip, (SDK, device) -> measurements) of one type row."""
        backend = key[2]
        nothing = [_UNKNOWN if backend in self.asked else _RANK["not-applicable"]] * len(MEASURED)
        mine = self.own.get(key, {})
        for part, soc in self.first.items():
            there = bool(soc) == (backend in self.per_soc) and (soc == "" or soc in self.chips)
            own = {sdk: found for (of, sdk), found in mine.items() if of == soc}
            if not there and not own:
                continue
            nearest = self._nearest(soc, cells) if there else {}
            found: dict[tuple[str, bool], tuple[_Own, _Cell | None]] = {}
            for sdk in dict.fromkeys([*(sdks if there else ()), *own]):
                ours = own.get(sdk, _Own())
                if there and sdk in sdks:
                    ours.ranks = [min(a, b) for a, b in zip(ours.ranks, nothing, strict=True)]
                found[sdk, False] = (ours, nearest.get((sdk, False)))
            for (sdk, device), cell in nearest.items():
                if device:
                    found[sdk, device] = (_Own(), cell)
            yield part, soc, found

    def _nearest(self, soc: str, cells: _Cells) -> dict[tuple[str, bool], _Cell]:
        """The chip's own cell for each SDK, else the newest of a similar chip."""
        chip = self.chips.get(soc)
        of_others = {} if chip is None or chip.special else cells.by_kind.get(chip.like, {})
        return {**of_others, **cells.by_soc.get(soc, {})}

    def _cells(self) -> dict[Key, _Cells]:
        found: dict[Key, _Cells] = defaultdict(_Cells)
        said = {r["id"]: (r, tuple(_RANK[r[c]] for c in MEASURED)) for r in self._read(_OUTCOMES, "o.name")}
        of_runs: dict[int, list[Row]] = defaultdict(list)
        for r in self._read(_CELLS, "o.name"):
            of_runs[r["evidence_run_id"]].append(r)
        runs = sorted(self.writer.rows("SELECT * FROM evidence_run"), key=lambda r: str(r["soc"]))
        for run in sorted(runs, key=lambda r: str(r["date"]), reverse=True):  # the newest first, then by chip
            chip, place = self.chips.get(run["soc"]), (run["sdk"], run["execution"] == "device")
            for r in of_runs[run["id"]]:
                outcome, ranks = said[r["evidence_outcome_id"]]
                cell = _Cell(r["id"], outcome, ranks, run["date"])
                cells = found[outcome["name"], outcome["type_row"], run["backend"]]
                cells.by_soc.setdefault(run["soc"], {}).setdefault(place, cell)
                if chip is not None and chip.like is not None:
                    cells.by_kind.setdefault(chip.like, {}).setdefault(place, cell)
        return found

    def _add(
        self,
        row: Row | Mapping[str, Any],
        part: int,
        sdk: str,
        device: bool,
        ranges: Iterable[tuple[int, int]],
        own: _Own,
        cell: _Cell | None,
    ) -> None:
        mine = own.n > 0 and (own.at or "") >= (cell.date if cell else "")
        number = sdk_number(sdk)
        yes = any(first <= number <= last for first, last in ranges)
        first_ours = mine or cell is None
        said = _words(tuple(own.ranks), cell.ranks if cell else _NOTHING, first_ours)
        measured = _measured(own, self.statuses.measured(cell.outcome) if cell else None, first_ours)
        self.rows.append(
            {
                "id": self.next,
                "op_type_row_id": row["id"],
                "part": part,
                "sdk": sdk,
                "sdk_number": number,
                "device": device,
                "support_status_id": self.statuses.of(row, self.first[part], sdk, yes, measured),
                "declared": "yes" if yes else "no",
                **said,
                "evidence_cell_id": cell and cell.ident,
                "own": mine,
                "n": own.n,
                "at": own.at,
                "library": own.library,
            }
        )
        self.next += 1


_NOTHING = (_UNKNOWN,) * len(MEASURED)


@cache
def _words(ours: Statuses, theirs: Statuses, first: bool) -> dict[str, str]:
    """Merges statuses: with ``first`` ours win and theirs fill in the unknown ones; else the reverse."""
    ranks = (
        a if (first and a != _UNKNOWN) or b == _UNKNOWN else b for a, b in zip(ours, theirs, strict=True)
    )
    return {c: WORST[rank] for c, rank in zip(MEASURED, ranks, strict=True)}


def _measured(own: _Own, theirs: Measured | None, first: bool) -> Measured | None:
    """Merges counts as ``_words`` merges statuses."""
    if own.n == 0 or (theirs is not None and not first):
        return theirs
    if theirs is None:
        return Measured(own.counts, own.n)
    counts = tuple(a if a.keys() - {"unknown"} else b for a, b in zip(own.counts, theirs.counts, strict=True))
    return Measured(counts, max(own.n, theirs.cases), theirs.reason, theirs.errata)


_DECLARED = """
SELECT d.* FROM declared AS d JOIN op_type_row AS t ON t.id = d.op_type_row_id WHERE 1 = 1"""
_DOCUMENTED = """
SELECT t.*, e.version FROM op_type_row AS t LEFT JOIN source AS e ON e.id = t.source_id WHERE t.place IS NOT NULL"""
_OUTCOMES = "SELECT * FROM evidence_outcome AS o WHERE o.kind = 'op'"
_CELLS = """
SELECT c.id, c.evidence_outcome_id, c.evidence_run_id
FROM evidence_outcome AS o JOIN evidence_cell AS c ON c.evidence_outcome_id = o.id
WHERE o.kind = 'op' AND c.newest"""


@cache
def sdk_number(sdk: str) -> int:
    """An SDK as a sort key, as in the views: 2.47.1 is 2047001; parts that are not numbers count as 0."""
    from opdb.core.sdk import version

    major, minor, patch = (*version(sdk)[:3], 0, 0, 0)[:3]
    return major * 1000000 + minor * 1000 + patch
