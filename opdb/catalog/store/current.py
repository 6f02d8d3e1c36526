"""Compares SQL with the specs, and provides a snapshot that stands in for an unloaded catalog."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import opdb.core
from opdb.catalog.store.reader import Reader
from opdb.core.errors import Problem, SpecError
from opdb.core.version import __version__
from opdb.spec.hashes import family_hash
from opdb.spec.paths import spec_files

if TYPE_CHECKING:
    from opdb.spec.catalog import Catalog


@dataclass(frozen=True)
class SyncReport:
    """The result of a sync: paths of spec files, and the catalog's new hash."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]
    hash: str = ""
    reader: str = field(default="", compare=False, repr=False)  # the code that read the files last time

    @property
    def nothing_new(self) -> bool:
        return not (self.added or self.changed or self.removed)


@cache
def reader() -> str:
    """A hash of the code that turns files into rows; if it changes, every file is read again."""
    package = Path(opdb.core.__file__).parents[1]
    sources = [package / "core" / "dtypes.py", package / "core" / "quant_rules.py"]
    for folder in ("spec", "spec/lang", "catalog/schema", "catalog/store"):
        sources += (package / folder).glob("*.py")
    digest = hashlib.sha256(__version__.encode())
    for path in sorted(sources):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def digests(folder: Path) -> dict[str, str]:
    """The checksums of all spec files."""
    out, problems = {}, []
    for name, path in spec_files(folder).items():
        try:
            out[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            problems.append(Problem(name, 0, 0, f"cannot read: {error.strerror}"))
    if problems:
        raise SpecError(problems)
    return out


def compare(reader: Reader, files: Mapping[str, str]) -> SyncReport:
    """Compares the files with those of the last sync."""
    stored = {r["path"]: r["sha256"] for r in reader.rows("SELECT path, sha256 FROM spec_file")}
    state = next(iter(reader.rows("SELECT hash, reader FROM snapshot")), None)
    both = sorted(files.keys() & stored.keys())
    return SyncReport(
        added=tuple(sorted(files.keys() - stored.keys())),
        changed=tuple(p for p in both if files[p] != stored[p]),
        removed=tuple(sorted(stored.keys() - files.keys())),
        unchanged=tuple(p for p in both if files[p] == stored[p]),
        hash="" if state is None else str(state["hash"]),
        reader="" if state is None else str(state["reader"]),
    )


@dataclass(frozen=True)
class Snapshot:
    """A catalog's hashes and names from SQL; ``whole`` loads the catalog on first use."""

    hash: str
    ops: Mapping[str, str]  # name -> hash
    families: Mapping[str, str]
    backends: tuple[str, ...]  # in order
    load: Callable[[], Catalog]

    def op_hash(self, name: str) -> str:
        return self.ops[name]

    def family_hash(self, name: str) -> str:
        return self.families[name]

    def whole(self) -> Catalog:
        return self._catalog

    @cached_property
    def _catalog(self) -> Catalog:
        return self.load()


def snapshot(reader: Reader, load: Callable[[], Catalog]) -> Snapshot:
    """A snapshot of the catalog of the last sync."""
    found = str(reader.value("SELECT hash FROM snapshot"))
    ops = {r["name"]: r["hash"] for r in reader.rows("SELECT name, hash FROM op")}
    backends = tuple(r["name"] for r in reader.rows("SELECT name FROM backend ORDER BY position"))
    return Snapshot(found, {n: ops[n] for n in sorted(ops)}, _families(reader, ops), backends, load)


_OPS_OF_FAMILIES = """
SELECT DISTINCT f.name AS family, s.op
FROM family AS f JOIN candidate AS c ON c.family_id = f.id JOIN candidate_step AS s ON s.candidate_id = c.id"""


def _families(reader: Reader, ops: Mapping[str, str]) -> dict[str, str]:
    """Maps family names to hashes, as ``Catalog.family_hash`` returns them."""
    used: dict[str, list[tuple[str, str]]] = {}
    for r in reader.rows(_OPS_OF_FAMILIES):
        if r["op"] in ops:
            used.setdefault(r["family"], []).append((r["op"], ops[r["op"]]))
    digests = {r["name"]: r["hash"] for r in reader.rows("SELECT name, hash FROM family")}
    return {name: family_hash(digests[name], used.get(name, ())) for name in sorted(digests)}
