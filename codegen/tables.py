"""Tables of declared and measured support by backend, in Markdown and CSV; the counts in README.md."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable
from functools import partial

from opdb.catalog.evidence import STAGES
from opdb.catalog.evidence.status import WORDS
from opdb.catalog.evidence.text import provenance
from opdb.codegen import evidence, pieces, statuses
from opdb.codegen.artifact import Artifact, all_specs, sorted_ops
from opdb.codegen.environment import render
from opdb.codegen.support import Place
from opdb.spec.catalog import Catalog
from opdb.spec.sdks import sdks_of

COLUMNS = (
    "op",
    "backend",
    "configuration",
    "row",
    "types",
    "source",
    "status",
    "why",
    "errata",
    *STAGES,
    "cases",
    "measured",
    "library",
    "date",
)


def support(catalog: Catalog) -> Iterable[Artifact]:
    """Renders tables/support.csv, with one line per documented type row, and tables/support.md."""
    inputs = (*all_specs(catalog), evidence.input_path())
    also = evidence.key(catalog)
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(COLUMNS)
    for name in sorted_ops(catalog):
        lines.writerows(pieces.of_op("tables", name, partial(_lines, catalog, name), also))
    yield Artifact("generated/tables/support.csv", out.getvalue(), inputs, "csv")
    text = render("support.md.j2", **_view(catalog))
    yield Artifact("generated/tables/support.md", text, inputs, "markdown")


def _lines(catalog: Catalog, name: str) -> list[tuple[str, ...]]:
    """The lines of one op in support.csv."""
    op = catalog.compiled(name)
    found: list[tuple[str, ...]] = []
    for backend, definition in op.definition.backends.items():
        cells, place = evidence.here(catalog, backend), _place(catalog, backend)
        for row in op.type_rows[backend]:
            cell = cells.get((name, row.id))
            said = statuses.of_row(catalog, op, row, place, cell)
            _, configuration, number = row.id.split(".")
            types = " ".join(f"{slot}={'|'.join(cell)}" for slot, cell in row.cells.items())
            found.append(
                (
                    name,
                    backend,
                    configuration,
                    number,
                    types,
                    definition.source or "",
                    said.word,
                    said.why,
                    " ".join(said.errata),
                    *evidence.columns(cell),
                )
            )
    return found


def _place(catalog: Catalog, backend: str) -> Place:
    """Where the tables show a backend: the SDK and chip of specs/backends, else the newest SDK of the specs."""
    found = evidence.at(catalog, backend)
    return (
        Place(backend, None, sdks_of(catalog)[-1]) if found is None else Place(backend, found.soc, found.sdk)
    )


def readme(catalog: Catalog) -> Iterable[Artifact]:
    """Renders the counts of ops between the markers of README.md."""
    ops = list(catalog.ops.values())
    counts = [
        (
            backend,
            len(declared),
            sum(len(rows) for op in declared for rows in op.backends[backend].dtypes.values()),
            _counted(catalog, backend) if evidence.at(catalog, backend) is not None else {},
        )
        for backend in catalog.backends
        if (declared := [op for op in ops if backend in op.backends])
    ]
    view = {
        "counts": counts,
        "words": WORDS,
        "places": [str(_place(catalog, b)) for b, _, _, words in counts if words],
        "ops": len(ops),
        "targets": len({target for op in ops for target in catalog.mappings(op.op)}),
        "kernels": sum(op.kernel is not None for op in ops),
        "rules": sum(pieces.of_op("readme", op.op, partial(_rules, catalog, op.op)) for op in ops),
    }
    inputs = (*all_specs(catalog), evidence.input_path())
    yield Artifact("README.md", render("readme_ops.md.j2", **view), inputs, "markdown", "ops")


def _counted(catalog: Catalog, backend: str) -> Counter[str]:
    """The number of type rows of a backend by the word of their status."""
    cells, place = evidence.here(catalog, backend), _place(catalog, backend)
    found: Counter[str] = Counter()
    for name in sorted_ops(catalog):
        op = catalog.compiled(name)
        for row in op.type_rows.get(backend, ()):
            found[statuses.of_row(catalog, op, row, place, cells.get((name, row.id))).word] += 1
    return found


def _rules(catalog: Catalog, name: str) -> int:
    """The number of rules of an op."""
    return len(catalog.compiled(name).rule_ids())


def _view(catalog: Catalog) -> dict[str, object]:
    """The view of support.md: ops with the configurations that each backend declares, and their outcomes."""
    declared = {b for op in catalog.ops.values() for b in op.backends}
    backends = [b for b in catalog.backends if b in declared] + sorted(declared - set(catalog.backends))
    places = {b: m for b in backends if (m := evidence.at(catalog, b)) is not None}
    here = {b: evidence.here(catalog, b) for b in places}
    ops = []
    for name in sorted_ops(catalog):
        op = catalog.ops[name]
        cells = [" ".join(op.backends[b].dtypes) or "declared" if b in op.backends else "" for b in backends]
        compiled = catalog.compiled(name)
        shown = [
            statuses.by_kind(
                (
                    row.id,
                    statuses.of_row(catalog, compiled, row, _place(catalog, b), here[b].get((name, row.id))),
                )
                for row in compiled.type_rows[b]
            )
            if b in op.backends
            else ""
            for b in places
        ]
        ops.append((op, cells, shown))
    told = [f"{b} {m.sdk}{f' on {m.soc}' if m.soc else ''}" for b, m in places.items()]
    lines = provenance(
        {c.run for cells in here.values() for (name, _), c in cells.items() if name in catalog.ops}
    )
    return {"backends": backends, "ops": ops, "places": told, "provenance": lines}
