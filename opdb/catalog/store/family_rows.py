"""Loads families from their rows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from opdb.catalog.schema.names import BINDING_KINDS
from opdb.catalog.store.reader import Reader, Row
from opdb.spec.family import Candidate, Family
from opdb.spec.model import Decomposition, TorchMapping

Data = dict[str, Any]
#: Expressions by their parent, kind and name.
Texts = dict[int, dict[str, dict[str, str]]]
_NONE: Mapping[str, Any] = {}
#: One empty mapping for all: to copy the default of a field takes pydantic longer.
_UNBOUND = dict.fromkeys(BINDING_KINDS[:-1], _NONE)


def load_families(reader: Reader, sources: Mapping[int, str]) -> dict[str, Family]:
    """All families; ``sources``: the texts of sources by the ids of their rows."""
    parts = _Parts(reader, sources)
    candidates = _grouped(reader, "candidate", "family_id")
    return {
        r["name"]: Family(
            r["name"], r["summary"], tuple(parts.candidate(r["name"], c) for c in candidates[r["id"]])
        )
        for r in reader.rows("SELECT id, name, summary FROM family")
    }


class _Parts:
    """The rows that candidates are made of."""

    def __init__(self, reader: Reader, sources: Mapping[int, str]) -> None:
        self.sources = sources
        self.targets = _grouped(reader, "candidate_target", "candidate_id")
        self.avoided = _grouped(reader, "candidate_avoid", "candidate_id")
        self.tensors = _grouped(reader, "candidate_tensor", "candidate_id")
        self.steps = _grouped(reader, "candidate_step", "candidate_id")
        self.names = _texts(reader, "candidate_name", "candidate_id")
        self.bindings = _texts(reader, "step_binding", "candidate_step_id")

    def candidate(self, family: str, r: Row) -> Candidate:
        steps = self.steps[r["id"]]
        common = {"when": r["guard"], "why": r["why"], "ignored": self.named(r, "ignored")}
        targets = tuple(t["target"] for t in self.targets[r["id"]])
        definition: TorchMapping | Decomposition
        if r["form"] == "op":
            definition = self._mapping(r, common)
        else:
            head = {"decomposition": r["name"], "summary": r["summary"], "torch": targets}
            definition = self._chain(r, head | common)
        return Candidate(
            family=family,
            name=r["name"],
            torch=targets,
            op=steps[0]["op"] if r["form"] == "op" else None,
            definition=definition,
            entry=r["entry"],
            avoids=tuple(a["erratum"] for a in self.avoided[r["id"]]),
            steps=tuple(s["entry"] for s in steps if s["entry"] is not None),
            lines=tuple(s["line"] for s in steps if s["line"] is not None),
            variant=r["variant"],
        )

    def _mapping(self, r: Row, common: Data) -> TorchMapping:
        (step,) = self.steps[r["id"]]
        head = {"signature": r["signature"], "source": self.sources.get(r["source_id"])}
        return TorchMapping.model_validate({**head, **common, **self.bound(step)})

    def _chain(self, r: Row, common: Data) -> Decomposition:
        tensors = {
            t["name"]: {
                "shape": t["shape"] if t["dims"] is None else json.loads(t["dims"]),
                "like": t["like_tensor"],
            }
            for t in self.tensors[r["id"]]
        }
        ops = [{"op": s["op"], **self.bound(s)} for s in self.steps[r["id"]]]
        let = self.named(r, "let")
        return Decomposition.model_validate({**common, "let": let, "tensors": tensors, "ops": ops})

    def named(self, candidate: Row, kind: str) -> Mapping[str, str]:
        return self.names.get(candidate["id"], _NONE).get(kind, _NONE)

    def bound(self, step: Row) -> Mapping[str, Mapping[str, str]]:
        return {**_UNBOUND, **self.bindings.get(step["id"], _NONE)}


def _grouped(reader: Reader, table: str, parent: str) -> dict[int, list[Row]]:
    """The rows of a table by their parent, in order."""
    found: dict[int, list[Row]] = defaultdict(list)
    for row in reader.rows(f"SELECT * FROM {table} ORDER BY position"):
        found[row[parent]].append(row)
    return found


def _texts(reader: Reader, table: str, parent: str) -> Texts:
    """The expressions of a table, in order."""
    found: Texts = {}
    rows = reader.rows(f"SELECT {parent} AS parent, kind, name, expression FROM {table} ORDER BY position")
    for row in rows:
        kinds = found.setdefault(row["parent"], {})
        kinds.setdefault(row["kind"], {})[row["name"]] = row["expression"]
    return found
