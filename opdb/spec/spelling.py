"""Short spellings in files of ops and bases: lists of data types by name, and the rows of one version in a group.

``expanded`` writes them out for a model and keeps the place of every part; ``shortened`` is the inverse.

    versions:
      - since: '2.47'
        source: probe HTP 2.47.0
        dtypes:
          INT8_2_47:
            - {x: u8, y: u8}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opdb.core.dtypes import BY_SHORT, LISTS
from opdb.core.errors import Problem, SpecError
from opdb.core.guess import did_you_mean

if TYPE_CHECKING:  # what only writes knows no reader
    from opdb.spec.document import At, Document

NAMES = {types: name for name, types in LISTS.items()}
ORIGIN = ("since", "until", "source")
Data = dict[str, Any]


def no_type(name: str) -> str:
    """The error for a word that is not a data type."""
    if name in LISTS:
        return f"'{name}' is a list of data types by name, which stands alone, not in brackets"
    return f"'{name}' is not a data type{did_you_mean(name, [*BY_SHORT, *LISTS], 'e.g. f32, uq8')}"


def no_list(name: str) -> str:
    """The error for a word where a list is needed."""
    cure = did_you_mean(name, LISTS, f"known: {', '.join(LISTS)}")
    return f"'{name}' is not the name of a list of data types{cure}"


def expanded(document: Document) -> Document:
    """The document with its short spellings written out.  Raises SpecError."""
    if not isinstance(document.data, dict):
        return document
    reading = _Reading(document)
    data = dict(document.data)
    backends = data.get("backends")
    if isinstance(backends, dict):
        data["backends"] = {name: reading.backend(name, b) for name, b in backends.items()}
    kernel = data.get("kernel")
    if isinstance(kernel, dict) and isinstance(kernel.get("dtypes"), str):
        data["kernel"] = kernel | {"dtypes": _types(kernel["dtypes"])}
        if kernel["dtypes"] not in LISTS:
            reading.fault(("kernel", "dtypes"), no_list(kernel["dtypes"]))
    if reading.problems:
        raise SpecError(reading.problems)
    return replace(document, data=data, places=reading.places)


def _types(cell: Any) -> Any:
    return list(LISTS[cell]) if isinstance(cell, str) and cell in LISTS else cell


class _Reading:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []
        self.places = dict(document.places)

    def fault(self, at: At, message: str) -> None:
        key = (*at, "__key__")
        self.problems.append(self.document.problem(key if key in self.document.places else at, message))

    def backend(self, name: str, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        out = {k: v for k, v in data.items() if k != "versions"}
        groups = data.get("versions", [])
        if not isinstance(groups, list):
            self.fault(
                ("backends", name, "versions"),
                "expected a list, each entry with since, until or source, and dtypes",
            )
            return out
        for i, group in enumerate(groups):
            self.group(("backends", name), out, i, group)
        if isinstance(out.get("dtypes"), dict):
            out["dtypes"] = {config: _rows(rows) for config, rows in out["dtypes"].items()}
        return out

    def group(self, backend: At, out: Data, number: int, group: Any) -> None:
        """Adds the rows of one version to those of the backend."""
        at: At = (*backend, "versions", number)
        if not (isinstance(group, dict) and isinstance(group.get("dtypes"), dict) and len(group) > 1):
            self.fault(at, "a version has 'dtypes', and 'since', 'until' or 'source'")
            return
        for key in group.keys() - {*ORIGIN, "dtypes"}:
            self.fault((*at, key), f"unknown field '{key}' of a version; known: {', '.join(ORIGIN)}, dtypes")
        origin = {k: group[k] for k in ORIGIN if k in group}
        rows, origins = dict(out.get("dtypes") or {}), dict(out.get("configurations") or {})
        for config, own in group["dtypes"].items():
            if config in rows:
                self.fault((*at, "dtypes", config), f"the backend has a configuration '{config}' already")
            rows[config], origins[config] = own, origin
            self.move((*at, "dtypes", config), (*backend, "dtypes", config))
            for key in origin:
                self.move((*at, key), (*backend, "configurations", config, key))
        out["dtypes"], out["configurations"] = rows, origins

    def move(self, old: At, new: At) -> None:
        found = {p: place for p, place in self.document.places.items() if p[: len(old)] == old}
        self.places |= {(*new, *p[len(old) :]): place for p, place in found.items()}


def _rows(rows: Any) -> Any:
    if not isinstance(rows, list):
        return rows
    return [{k: _types(v) for k, v in row.items()} if isinstance(row, dict) else row for row in rows]


def shortened(data: Mapping[str, Any]) -> Data:
    """The data of a model in the short spellings of a file."""
    out = dict(data)
    if out.get("backends"):
        out["backends"] = {name: _grouped(backend) for name, backend in out["backends"].items()}
    if out.get("kernel"):
        out["kernel"] = out["kernel"] | {"dtypes": _named(out["kernel"]["dtypes"])}
    return out


def _named(cell: Any) -> Any:
    return NAMES.get(tuple(cell), cell) if isinstance(cell, list) else cell


def _grouped(backend: Mapping[str, Any]) -> Data:
    """Groups the rows of a version if they come after all rows without one; other rows keep their place."""
    rows = {
        c: [{k: _named(v) for k, v in row.items()} for row in g] for c, g in backend.get("dtypes", {}).items()
    }
    origins = dict(backend.get("configurations", {}))
    groups: list[Data] = []
    for config in reversed(rows):
        if config not in origins:
            break
        origin = origins.pop(config)
        if not groups or {k: v for k, v in groups[0].items() if k != "dtypes"} != origin:
            groups.insert(0, {**{k: origin[k] for k in ORIGIN if k in origin}, "dtypes": {}})
        groups[0]["dtypes"] = {config: rows[config], **groups[0]["dtypes"]}
    late = {config for group in groups for config in group["dtypes"]}
    parts = {
        "dtypes": {c: g for c, g in rows.items() if c not in late},
        "versions": groups,
        "configurations": origins,
    }
    return {k: v for k, v in {**backend, **parts}.items() if v or k not in parts}
