"""The status words of the table ``support``: one row of ``support_status`` per word, reason and list of errata."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opdb.catalog.evidence.counts import counted
from opdb.catalog.evidence.status import Fault, Measured, Status, minor, refusal, status, unprepared
from opdb.catalog.schema.names import FEATURES
from opdb.catalog.store.reader import Row, Writer


@dataclass(frozen=True)
class _Record:
    """An erratum, as far as its scope and words."""

    fault: Fault
    first: tuple[int, ...]
    last: tuple[int, ...]
    arch: tuple[int, ...]
    socs: tuple[str, ...]

    def at(self, chip: Mapping[str, Any] | None, sdk: tuple[int, ...]) -> bool:
        """True if a chip and SDK are in scope."""
        if not self.first <= sdk <= self.last:
            return False
        if self.socs and (chip is None or chip["chip"] not in self.socs):
            return False
        return not self.arch or (chip is not None and chip["htp_arch"] in self.arch)


class StatusRows:
    """Finds or adds the row of ``support_status`` for a type row at a place."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.chips: dict[str, Mapping[str, Any]] = {r["chip"]: r for r in writer.rows("SELECT * FROM soc")}
        self.oldest: dict[str, int | None] = {
            r["name"]: (json.loads(r["more"]).get("oldest") or {}).get("arch")
            for r in writer.rows("SELECT * FROM backend")
        }
        records = {r["name"]: r for r in writer.rows("SELECT * FROM erratum")}
        self.titles = {name: r["title"] for name, r in records.items()}
        self.faults: dict[int, list[_Record]] = defaultdict(list)
        for r in writer.rows("SELECT * FROM op_type_fault ORDER BY op_type_row_id, erratum"):
            self.faults[r["op_type_row_id"]].append(_record(records[r["erratum"]], bool(r["always"])))
        self.ids = {
            Status(r["status"], r["why"], tuple(filter(None, r["errata"].split(", ")))): int(r["id"])
            for r in writer.rows("SELECT * FROM support_status")
        }
        self.outcomes: dict[int, Measured] = {}

    def of(
        self, row: Row | Mapping[str, Any], soc: str, sdk: str, declared: bool, measured: Measured | None
    ) -> int:
        """The id of the status of ``row`` (of op_type_row) on a chip ("": no chip applies)."""
        chip = self.chips.get(soc)
        refused = self._unprepared(chip, row["backend"])
        if not refused and not declared:
            refused = _refused(row, chip, sdk)
        faults = [r.fault for r in self.faults.get(row["id"], ()) if r.at(chip, minor(sdk))]
        named = {f.ident for f in faults}
        seen = () if measured is None else measured.errata
        faults += [Fault(e, self.titles[e], False) for e in seen if e not in named and e in self.titles]
        return self._row(status(refused, measured, faults))

    def _unprepared(self, chip: Mapping[str, Any] | None, backend: str) -> str:
        return "" if chip is None else unprepared(self.oldest[backend], chip["htp_arch"], chip["libraries"])

    def _row(self, found: Status) -> int:
        if found not in self.ids:
            self.ids[found] = 1 + max(self.ids.values(), default=0)
            row = {
                "id": self.ids[found],
                "status": found.word,
                "why": found.why,
                "errata": ", ".join(found.errata),
            }
            self.writer.insert("support_status", [row])
        return self.ids[found]

    def measured(self, outcome: Row) -> Measured:
        """The measurements of a row of evidence_outcome."""
        ident = int(outcome["id"])
        if ident not in self.outcomes:
            counts = counted(outcome["counts"], outcome["cases"])
            reason = outcome["reason"] or outcome["code_name"]
            errata = tuple(filter(None, outcome["errata"].split()))
            self.outcomes[ident] = Measured(counts, outcome["cases"], reason, errata)
        return self.outcomes[ident]


def _record(r: Row, always: bool) -> _Record:
    fault = Fault(r["name"], r["title"], always)
    first, last = minor(r["since"] or "0"), minor(r["until"] or "999")
    return _Record(fault, first, last, tuple(json.loads(r["arch"])), tuple(json.loads(r["socs"])))


def _refused(row: Row | Mapping[str, Any], chip: Mapping[str, Any] | None, sdk: str) -> str:
    """Says why a type row is not declared on a chip for an SDK."""
    need = row["needs"]
    lacks = need if need in FEATURES and chip is not None and not chip[need] else ""
    return refusal(lacks, row["since"], row["until"], sdk)
