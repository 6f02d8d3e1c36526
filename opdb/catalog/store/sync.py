"""Specs -> SQL, in one transaction.

Only changed files are read again, and only the definitions they affect are written again; the models of the
other files come from SQL.  If the code that reads them changes, everything is read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from opdb.catalog.schema.names import TABLES
from opdb.catalog.store import chip_classes, current, errata, families, support, type_rows
from opdb.catalog.store.check import read_catalog
from opdb.catalog.store.current import SyncReport
from opdb.catalog.store.load import load_catalog
from opdb.catalog.store.reader import Writer
from opdb.catalog.store.write import Rows
from opdb.spec.catalog import Catalog
from opdb.spec.paths import KINDS, spec_name
from opdb.spec.sdks import sdks_of


def sync(writer: Writer, folder: Path, files: Mapping[str, str], full: bool = False) -> SyncReport:
    """Updates the definitions to match ``folder``.  If it raises SpecError, nothing was written.

    ``files``: the files' checksums; a file that changes later is read again by the next sync.
    """
    report = current.compare(writer, files)
    touched = {*report.added, *report.changed, *report.removed}
    if report.reader == current.reader() and not full:
        if report.nothing_new:
            return report
        before = load_catalog(writer)
        again = _formulas_of(before, touched)
        known = _known(before, set(report.unchanged) - again)
        catalog = read_catalog(folder, known, touched=touched | again)
    else:
        before, again = None, set()
        catalog = read_catalog(folder)
    _write(writer, catalog, before, touched, again)
    _write_files(writer, files, catalog)
    return replace(report, hash=catalog.hash)


def _known(before: Catalog, unchanged: Iterable[str]) -> dict[str, Any]:
    groups = (before.backends, before.bases, before.errata, before.own, before.families)
    models: dict[str, Any] = {
        spec_name(kind, name): model
        for kind, group in zip(KINDS, groups, strict=True)
        for name, model in group.items()
    }
    models["socs.yaml"] = [s.data() for s in before.socs.values()]
    models["retired.yaml"] = {kind: list(entries) for kind, entries in before.retired.items()}
    return {path: models[path] for path in unchanged}


def _formulas_of(catalog: Catalog, touched: set[str]) -> set[str]:
    """The files with a formula that names a touched op: the op's slots define the formula's meaning."""
    ops = {_stem(p) for p in touched if p.startswith("ops/")}
    bases = {_stem(p) for p in touched if p.startswith("bases/")}
    ops |= {name for name, op in catalog.own.items() if op.extends in bases}
    return {
        spec_name("torch", c.family)
        for c in catalog.candidates
        if c.lines and not ops.isdisjoint([*c.ops, *re.findall(r"\w+", " ".join(c.lines))])
    }


def _write(
    writer: Writer, catalog: Catalog, before: Catalog | None, touched: set[str], again: set[str]
) -> None:
    """Replaces changed definitions; all of them if backends or chips changed, because every type row depends on those.

    ``again``: files of families whose meaning changed with an op.
    """
    models = chip_classes.reads_models(catalog)
    everywhere = "socs.yaml" in touched or any(p.startswith("backends/") for p in touched)
    if before is None or everywhere or chip_classes.reads_models(before) != models:
        for table in reversed(TABLES):
            writer.run(f"DELETE FROM {table}")
        before, touched = None, {"retired.yaml"}
        stale_ops, stale_bases = set(catalog.own), set(catalog.bases)
        stale_families, stale_errata = set(catalog.families), set(catalog.errata)
    else:
        stale_bases = {_stem(p) for p in touched if p.startswith("bases/")}
        stale_ops = {_stem(p) for p in touched if p.startswith("ops/")}
        stale_ops |= {n for c in (before, catalog) for n, o in c.own.items() if o.extends in stale_bases}
        stale_families = {_stem(p) for p in touched if p.startswith("torch/")}
        stale_ops |= _direct(before, stale_families) | _direct(catalog, stale_families)
        stale_families |= {_stem(p) for p in again}
        stale_errata = {_stem(p) for p in touched if p.startswith("errata/")}
        # The hash of an op covers its errata.
        stale_ops |= {
            e.op for c in (before, catalog) for i, e in c.errata.items() if i in stale_errata and e.op
        }
        _erase(writer, stale_ops, stale_bases, stale_families, stale_errata)
    rows = Rows(writer)
    if before is None:
        rows.add_backends(catalog.backends.values())
        rows.add_socs(catalog.socs.values(), models)
    if "retired.yaml" in touched:
        writer.run("DELETE FROM retired")
        rows.add_retired(catalog.retired)
    for name in sorted(stale_bases & catalog.bases.keys()):
        rows.add_base(catalog.bases[name])
    for name in sorted(stale_ops & catalog.own.keys()):
        definition = rows.add_op(catalog.own[name], catalog.op_hash(name))
        rows.add_derived(definition, catalog.compiled(name))
    for name in sorted(stale_families & catalog.families.keys()):
        families.add(rows, catalog.families[name])
    for name in sorted(stale_errata & catalog.errata.keys()):
        errata.add(rows, catalog.errata[name])
    type_rows.add_type_rows(rows, catalog, sorted(stale_ops & catalog.own.keys()))
    rows.flush()
    support.refresh(writer, None if before is None else stale_ops)


def _stem(path: str) -> str:
    return Path(path).stem


def _direct(catalog: Catalog, families: set[str]) -> set[str]:
    """The ops of single-op candidates in these families; their hashes cover the candidates."""
    return {
        c.op for c in catalog.candidates if c.family in families and c.op is not None and c.op in catalog.own
    }


def _erase(writer: Writer, ops: set[str], bases: set[str], families: set[str], records: set[str]) -> None:
    """Deletes ops before their bases; their parts go with them (ON DELETE CASCADE)."""
    for statement, names in (
        ("DELETE FROM op_type_row WHERE op IN @names", ops),
        ("DELETE FROM definition WHERE id IN (SELECT definition_id FROM op WHERE name IN @names)", ops),
        ("DELETE FROM definition WHERE id IN (SELECT definition_id FROM base WHERE name IN @names)", bases),
        ("DELETE FROM family WHERE name IN @names", families),
        ("DELETE FROM erratum WHERE name IN @names", records),
    ):
        if names:
            writer.run(statement, names=sorted(names))


#: The tables whose rows may refer to a source.
NAMING = (
    "definition",
    "op_rule",
    "op_backend",
    "unchecked",
    "type_config",
    "op_type_row",
    "torch_mapping",
    "candidate",
    "erratum_seen",
    "erratum_evidence",
)


def _write_files(writer: Writer, files: Mapping[str, str], catalog: Catalog) -> None:
    """Writes the files' checksums, the SDKs, and the snapshot; deletes unused sources."""
    used = " UNION ".join(f"SELECT source_id FROM {table} WHERE source_id IS NOT NULL" for table in NAMING)
    writer.run(f"DELETE FROM source WHERE id NOT IN ({used})")
    writer.run("DELETE FROM sdk")
    writer.insert("sdk", [{"id": i, "version": v} for i, v in enumerate(sdks_of(catalog), 1)])
    writer.run("DELETE FROM spec_file")
    rows = [{"id": i, "path": p, "sha256": s} for i, (p, s) in enumerate(files.items(), 1)]
    writer.insert("spec_file", rows)
    state = {"id": 1, "hash": catalog.hash, "reader": current.reader()}
    writer.run("DELETE FROM snapshot")
    writer.insert("snapshot", [state])
