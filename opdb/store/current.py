"""Whether SQL is in line with the specs, and what stands for the catalogue as long as nobody reads it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

import opdb
from opdb import schema as t
from opdb.errors import Problem, SpecError
from opdb.spec.paths import spec_paths

if TYPE_CHECKING:
    from opdb.spec.catalog import Catalog


@dataclass(frozen=True)
class SyncReport:
    """What a sync did: paths of spec files, and the hash of the catalogue now."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]
    hash: str = ""
    reader: str = field(default="", compare=False, repr=False)  # what read the files before
    catalog: Catalog | None = field(default=None, compare=False, repr=False)  # if something was read

    @property
    def nothing_new(self) -> bool:
        return not (self.added or self.changed or self.removed)


@cache
def reader() -> str:
    """Names the code that turns files into rows: another reader reads every file again."""
    package = Path(opdb.__file__).parent
    sources = [package / "dtypes.py", package / "quant_rules.py"]
    for folder in ("lang", "schema", "spec", "store"):
        sources += (package / folder).glob("*.py")
    digest = hashlib.sha256(opdb.__version__.encode())
    for path in sorted(sources):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def digests(folder: Path) -> dict[str, str]:
    """The checksums of all spec files."""
    out, problems = {}, []
    for path in spec_paths(folder):
        name = path.relative_to(folder).as_posix()
        try:
            out[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            problems.append(Problem(name, 0, 0, f"cannot read: {error.strerror}"))
    if problems:
        raise SpecError(problems)
    return out


def compare(connection: Connection, files: Mapping[str, str]) -> SyncReport:
    """How the files differ from those of the last sync."""
    stored = {r.path: r.sha256 for r in connection.execute(select(t.spec_file))}
    state = connection.execute(select(t.snapshot)).first()
    both = sorted(files.keys() & stored.keys())
    return SyncReport(
        added=tuple(sorted(files.keys() - stored.keys())),
        changed=tuple(p for p in both if files[p] != stored[p]),
        removed=tuple(sorted(stored.keys() - files.keys())),
        unchanged=tuple(p for p in both if files[p] == stored[p]),
        hash="" if state is None else str(state.hash),
        reader="" if state is None else str(state.reader),
    )


@dataclass(frozen=True)
class Snapshot:
    """What SQL says of a catalogue in a few rows; ``whole`` is the catalogue, read when it is first asked for."""

    hash: str
    ops: Mapping[str, str]  # name -> hash
    backends: tuple[str, ...]  # in order
    load: Callable[[], Catalog]

    def op_hash(self, name: str) -> str:
        return self.ops[name]

    def whole(self) -> Catalog:
        return self._catalog

    @cached_property
    def _catalog(self) -> Catalog:
        return self.load()


def snapshot(connection: Connection, load: Callable[[], Catalog]) -> Snapshot:
    """The catalogue that the last sync left."""
    found = connection.execute(select(t.snapshot.c.hash)).scalar_one()
    ops = connection.execute(select(t.op.c.name, t.op.c.hash).order_by(t.op.c.name))
    backends = connection.execute(select(t.backend.c.name).order_by(t.backend.c.position))
    return Snapshot(str(found), {r.name: r.hash for r in ops}, tuple(backends.scalars()), load)
