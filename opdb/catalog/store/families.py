"""Writes a family as rows."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from opdb.catalog.schema.names import BINDING_KINDS
from opdb.catalog.store.write import Rows, shape_columns
from opdb.spec.family import Candidate, Family
from opdb.spec.model import Decomposition, Step, TorchMapping


def add(rows: Rows, family: Family) -> None:
    """The rows of one family."""
    ident = rows.add("family", name=family.family, summary=family.summary, hash=family.digest)
    for position, candidate in enumerate(family.candidates):
        _candidate(rows, ident, position, candidate)


def _candidate(rows: Rows, family: int, position: int, candidate: Candidate) -> None:
    definition = candidate.definition
    ident = rows.add(
        "candidate",
        family_id=family,
        position=position,
        name=candidate.name,
        entry=candidate.entry,
        variant=candidate.variant,
        guard=definition.when,
        why=definition.why,
        **_of_form(rows, definition),
    )
    for place, target in enumerate(candidate.torch):
        rows.add("candidate_target", candidate_id=ident, position=place, target=target)
    for place, erratum in enumerate(candidate.avoids):
        rows.add("candidate_avoid", candidate_id=ident, position=place, erratum=erratum)
    _names(rows, ident, "ignored", definition.ignored)
    if isinstance(definition, Decomposition):
        _chain(rows, ident, definition, candidate)
    else:
        _step(rows, ident, 0, candidate.op or "", definition)


def _of_form(rows: Rows, definition: TorchMapping | Decomposition) -> dict[str, Any]:
    """The columns that only one form has."""
    if isinstance(definition, Decomposition):
        return {"form": "chain", "summary": definition.summary, "signature": None, "source_id": None}
    source = rows.source(definition.source)
    return {"form": "op", "summary": None, "signature": definition.signature, "source_id": source}


def _chain(rows: Rows, ident: int, chain: Decomposition, candidate: Candidate) -> None:
    _names(rows, ident, "let", chain.let)
    for place, (name, tensor) in enumerate(chain.tensors.items()):
        rows.add(
            "candidate_tensor",
            candidate_id=ident,
            position=place,
            name=name,
            **shape_columns(tensor.shape),
            like_tensor=tensor.like,
        )
    # A chain has the lines of a formula or the places of its steps.
    of_steps = zip_longest(chain.ops, candidate.lines, candidate.steps)
    for place, (step, line, entry) in enumerate(of_steps):
        _step(rows, ident, place, step.op, step, line, entry)


def _names(rows: Rows, candidate: int, kind: str, names: dict[str, str]) -> None:
    for place, (name, text) in enumerate(names.items()):
        rows.add(
            "candidate_name", candidate_id=candidate, kind=kind, position=place, name=name, expression=text
        )


def _step(
    rows: Rows,
    candidate: int,
    position: int,
    op: str,
    bound: TorchMapping | Step,
    line: str | None = None,
    entry: int | None = None,
) -> None:
    ident = rows.add(
        "candidate_step", candidate_id=candidate, position=position, op=op, line=line, entry=entry
    )
    rows.add_bindings("step_binding", {"candidate_step_id": ident}, bound, BINDING_KINDS[:-1])
