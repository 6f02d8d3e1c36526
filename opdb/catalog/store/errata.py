"""Erratum records -> rows."""

from __future__ import annotations

from opdb.catalog.store.write import Rows
from opdb.spec.erratum import Erratum
from opdb.spec.hashes import to_json


def add(rows: Rows, e: Erratum) -> None:
    """Adds the rows of one record."""
    scope, cost = e.scope, e.cost
    ident = rows.add(
        "erratum",
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
        rows.add("erratum_let", erratum_id=ident, position=place, name=name, expression=expression)
    for place, seen in enumerate(e.seen):
        rows.add(
            "erratum_seen",
            erratum_id=ident,
            position=place,
            library=seen.library,
            socs=to_json(seen.socs),
            date=seen.date,
            source_id=rows.source(seen.source),
        )
    for place, shown in enumerate(e.evidence):
        rows.add(
            "erratum_evidence",
            erratum_id=ident,
            position=place,
            device=shown.device,
            model=shown.model,
            runtime=shown.runtime,
            figure=shown.figure,
            shows=shown.shows,
            source_id=rows.source(shown.source),
        )
