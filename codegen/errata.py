"""Generates constants/errata.py: the faults in vendor libraries, for code at run time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from opdb.codegen.artifact import Artifact
from opdb.codegen.environment import python_string, render
from opdb.runtime.errata import Erratum as RuntimeErratum
from opdb.spec.catalog import Catalog
from opdb.spec.erratum import Erratum

ALL_ERRATA = "specs/errata/*/*.yaml"


def python(catalog: Catalog) -> Iterable[Artifact]:
    """Renders one table of all records."""
    text = render("errata.py.j2", errata=[_view(e) for e in catalog.errata.values()])
    yield Artifact("generated/python/constants/errata.py", text, (ALL_ERRATA,), "python")


def at_run_time(e: Erratum) -> RuntimeErratum:
    """The run-time form of a record."""
    shows = {x.shows for x in e.evidence}
    return RuntimeErratum(
        id=e.erratum,
        backend=e.backend,
        op=e.op or "",
        title=e.title,
        effect=e.effect,
        cause=e.cause,
        workaround=e.workaround,
        cost_class=e.cost.class_ if e.cost else "",
        cost_note=(e.cost.note if e.cost else None) or "",
        seen=tuple((s.library, tuple(s.socs), s.date or "") for s in e.seen),
        seen_on_device=e.scope.execution == "device" or "present" in shows,
        absent_on_device="absent" in shows,
        execution=e.scope.execution,
        since=e.scope.since,
        until=e.scope.until,
        arch=tuple(e.scope.arch),
        socs=tuple(e.scope.socs),
    )


def _view(e: Erratum) -> dict[str, str]:
    """The fields of ``opdb.runtime.errata.Erratum`` as Python text."""
    made = at_run_time(e)
    values = {f.name: getattr(made, f.name) for f in fields(made)}
    return {k: python_string(v) if isinstance(v, str) else repr(v) for k, v in values.items()}
