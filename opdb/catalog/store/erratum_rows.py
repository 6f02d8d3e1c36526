"""Rows -> erratum records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from opdb.catalog.store.reader import Row

#: Returns the rows of a table that belong to a parent row: (table, parent column, parent id) -> rows.
Parts = Callable[[str, str, int], list[Row]]


def _compact(**fields: Any) -> dict[str, Any]:
    return {k: v for k, v in fields.items() if v is not None}


def data(e: Row, of: Parts, sources: Mapping[int, str]) -> dict[str, Any]:
    """The record in these rows, in the format of its file.  ``of`` returns the rows of a table by their parent."""
    cost = _compact(**{"class": e["cost_class"], "note": e["cost_note"]})
    return _compact(
        erratum=e["name"],
        title=e["title"],
        op=e["op"],
        pattern=e["pattern"],
        effect=e["effect"],
        let={r["name"]: r["expression"] for r in of("erratum_let", "erratum_id", e["id"])},
        when=e["guard"],
        unless=e["exception"],
        detail=e["detail"],
        cause=e["cause"],
        scope=_compact(
            since=e["since"],
            until=e["until"],
            arch=json.loads(e["arch"]),
            socs=json.loads(e["socs"]),
            execution=e["execution"],
        ),
        workaround=e["workaround"],
        cost=cost or None,
        seen=[
            _compact(
                library=r["library"],
                socs=json.loads(r["socs"]),
                date=r["date"],
                source=sources.get(r["source_id"]),
            )
            for r in of("erratum_seen", "erratum_id", e["id"])
        ],
        evidence=[
            _compact(
                device=r["device"],
                model=r["model"],
                runtime=r["runtime"],
                figure=r["figure"],
                shows=r["shows"],
                source=sources.get(r["source_id"]),
            )
            for r in of("erratum_evidence", "erratum_id", e["id"])
        ],
        reproduction=json.loads(e["reproduction"]) if e["reproduction"] else None,
        flaky=bool(e["flaky"]),
    )
