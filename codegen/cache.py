"""Records what was rendered on this machine, to avoid rendering and formatting the same thing again.

The only record of generation, and not part of the project (``build/``, which git ignores): without it everything is
rendered.  A unit's entry is valid as long as its inputs, the rendering code, and the libraries it uses are unchanged;
files on disk are compared with it by checksum every time.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any, NamedTuple

from opdb.codegen import formatters, pieces
from opdb.codegen.artifact import Artifact, digest, with_header
from opdb.core.errors import OpdbError
from opdb.core.files import write_atomically

#: The libraries whose versions may affect the output; formatter versions are checked when they run.
LIBRARIES = ("jinja2", "pydantic", "ruamel.yaml")
#: The packages of opdb, besides this one, that rendering loads (tests/codegen/test_cache.py).
PACKAGES = ("core", "catalog.evidence", "catalog.facts", "catalog.store", "runtime", "spec", "spec.lang")


class Made(NamedTuple):
    """One artifact: the checksums of its text before formatting, and of the file or region."""

    raw: str
    sha256: str


@dataclass
class Rendered:
    """The key of the inputs and the artifacts by name of each unit, kept as JSON data until needed."""

    units: dict[str, Any] = field(default_factory=dict)
    pieces: dict[str, tuple[str, Any]] = field(default_factory=dict)  # of opdb.codegen.pieces

    def of(self, unit: str, key: str) -> Mapping[str, Made] | None:
        """The artifacts of a unit with these inputs; None if unknown."""
        found = self.units.get(unit)
        return self.last(unit) if isinstance(found, dict) and found.get("key") == _key(key) else None

    def last(self, unit: str) -> Mapping[str, Made] | None:
        """The unit's artifacts from its last rendering; None if nothing is recorded."""
        try:
            return {
                str(n): Made(str(raw), str(sha256)) for n, (raw, sha256) in self.units[unit]["made"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def add(self, unit: str, key: str, made: Mapping[str, Made]) -> None:
        self.units[unit] = {"key": _key(key), "made": made}


def _key(unit: str) -> str:
    return digest(f"{unit}\0{tools()}")[:32]


def read(path: Path | None) -> Rendered:
    """Reads the record; empty if the file is missing or invalid."""
    if path is None:
        return Rendered()
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return Rendered(dict(raw["units"]), pieces.read(raw["pieces"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Rendered()


def write(path: Path | None, rendered: Rendered, units: Iterable[str]) -> None:
    """Records the entries of ``units``, which are all existing units; ignores a folder that cannot be written."""
    if path is None:
        return
    known = rendered.units
    entries = {unit: known[unit] for unit in units if unit in known}
    try:
        write_atomically(path, json.dumps({"units": entries, "pieces": rendered.pieces}))
    except OpdbError:
        return


def raw_digest(artifact: Artifact) -> str:
    """The checksum of an artifact's unformatted text and of the formatter settings."""
    return digest("\0".join((artifact.language, formatters.settings(), with_header(artifact))))


@cache
def tools() -> str:
    """Identifies the rendering code and the libraries it uses."""
    versions = [f"{name} {metadata.version(name)}" for name in LIBRARIES]
    return "\0".join([generator(), platform.python_version(), *versions])


@cache
def generator() -> str:
    """The checksum of everything that turns a catalog into files: our code, templates, formatter versions."""
    here = Path(__file__).parent
    files = [*here.glob("*.py"), *here.glob("*.yaml"), *(here / "templates").glob("*.j2")]
    files += [file for name in PACKAGES for file in Path(str(resources.files(f"opdb.{name}"))).glob("*.py")]
    total = hashlib.sha256(json.dumps(formatters.VERSIONS, sort_keys=True).encode())
    for file in sorted(files, key=lambda f: (f.parent.name, f.name)):
        total.update(f"{file.parent.name}/{file.name}\0".encode())
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()
