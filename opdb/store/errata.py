"""Records of errata <-> rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Row, Table

from opdb import schema as t
from opdb.spec.erratum import Erratum
from opdb.store.write import Rows, to_json

#: The rows of a table that are parts of one row: table, column of the parent, its id.
Parts = Callable[[Table, str, int], list[Row[Any]]]


def add(rows: Rows, e: Erratum) -> None:
    """The rows of one record."""
    scope, cost = e.scope, e.cost
    ident = rows.add(
        t.erratum,
        name=e.erratum,
        backend_id=rows.backends[e.backend],
        op=e.op,
        title=e.title,
        pattern=e.pattern,
        effect=e.effect,
        guard=e.when,
        exception=e.unless,
        detail=e.detail,
        cause=e.cause,
        since=scope.since,
        until=scope.until,
        arch=to_json(scope.arch),
        socs=to_json(scope.socs),
        execution=scope.execution,
        workaround=e.workaround,
        cost_class=cost.class_ if cost else None,
        cost_note=cost.note if cost else None,
        reproduction=to_json(e.reproduction.model_dump(mode="json")) if e.reproduction else None,
        flaky=e.flaky,
    )
    for place, (name, expression) in enumerate(e.let.items()):
        rows.add(t.erratum_let, erratum_id=ident, position=place, name=name, expression=expression)
    for place, seen in enumerate(e.seen):
        rows.add(
            t.erratum_seen,
            erratum_id=ident,
            position=place,
            library=seen.library,
            socs=to_json(seen.socs),
            date=seen.date,
            source_id=rows.source(seen.source),
        )
    for place, shown in enumerate(e.evidence):
        rows.add(
            t.erratum_evidence,
            erratum_id=ident,
            position=place,
            device=shown.device,
            model=shown.model,
            runtime=shown.runtime,
            figure=shown.figure,
            shows=shown.shows,
            source_id=rows.source(shown.source),
        )


def _compact(**fields: Any) -> dict[str, Any]:
    return {k: v for k, v in fields.items() if v is not None}


def data(e: Row[Any], of: Parts, sources: Mapping[int, str]) -> dict[str, Any]:
    """The record in these rows, as its file has it.  ``of`` gives the rows of a table by their parent."""
    cost = _compact(**{"class": e.cost_class, "note": e.cost_note})
    return _compact(
        erratum=e.name,
        title=e.title,
        op=e.op,
        pattern=e.pattern,
        effect=e.effect,
        let={r.name: r.expression for r in of(t.erratum_let, "erratum_id", e.id)},
        when=e.guard,
        unless=e.exception,
        detail=e.detail,
        cause=e.cause,
        scope=_compact(
            since=e.since,
            until=e.until,
            arch=json.loads(e.arch),
            socs=json.loads(e.socs),
            execution=e.execution,
        ),
        workaround=e.workaround,
        cost=cost or None,
        seen=[
            _compact(
                library=r.library,
                socs=json.loads(r.socs),
                date=r.date,
                source=sources.get(r.source_id),
            )
            for r in of(t.erratum_seen, "erratum_id", e.id)
        ],
        evidence=[
            _compact(
                device=r.device,
                model=r.model,
                runtime=r.runtime,
                figure=r.figure,
                shows=r.shows,
                source=sources.get(r.source_id),
            )
            for r in of(t.erratum_evidence, "erratum_id", e.id)
        ],
        reproduction=json.loads(e.reproduction) if e.reproduction else None,
        flaky=e.flaky,
    )
