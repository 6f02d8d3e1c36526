"""What rendering gave on this machine: it saves rendering the same again, and formatting the same again.

The one record of generation, and no part of the project (``build/``, which git ignores): without it everything is
rendered.  A unit's entry holds as long as its inputs, the code that renders and the libraries under it are the same;
what lies on disk is compared with it by checksum, every time.
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

#: The libraries whose version may change a byte; those of the formatters are checked where they run.
LIBRARIES = ("jinja2", "pydantic", "ruamel.yaml")
#: Of opdb, besides this package: all that is loaded when something is rendered (tests/codegen/test_cache.py).
PACKAGES = ("core", "catalog.evidence", "catalog.facts", "catalog.store", "runtime", "spec", "spec.lang")


class Made(NamedTuple):
    """One artifact: the checksum of its text before it was formatted, and of the file or region."""

    raw: str
    sha256: str


@dataclass
class Rendered:
    """By unit: the key of its inputs, and its artifacts by name, as JSON has them until somebody asks."""

    units: dict[str, Any] = field(default_factory=dict)
    pieces: dict[str, tuple[str, Any]] = field(default_factory=dict)  # those of opdb.codegen.pieces

    def of(self, unit: str, key: str) -> Mapping[str, Made] | None:
        """The artifacts of a unit with these inputs; None if that is not known."""
        found = self.units.get(unit)
        return self.last(unit) if isinstance(found, dict) and found.get("key") == _key(key) else None

    def last(self, unit: str) -> Mapping[str, Made] | None:
        """The artifacts that the unit had when it was rendered last; None if nothing is on record."""
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
    """What is on record; nothing where there is no such file, or no such file any more."""
    if path is None:
        return Rendered()
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return Rendered(dict(raw["units"]), pieces.read(raw["pieces"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Rendered()


def write(path: Path | None, rendered: Rendered, units: Iterable[str]) -> None:
    """Puts the entries of ``units``, all that there are, on record; a folder that cannot be written changes nothing."""
    if path is None:
        return
    known = rendered.units
    entries = {unit: known[unit] for unit in units if unit in known}
    try:
        write_atomically(path, json.dumps({"units": entries, "pieces": rendered.pieces}))
    except OpdbError:
        return


def raw_digest(artifact: Artifact) -> str:
    """The checksum of a text and of what formats it."""
    return digest("\0".join((artifact.language, formatters.settings(), with_header(artifact))))


@cache
def tools() -> str:
    """Names the code that renders, and the libraries under it."""
    versions = [f"{name} {metadata.version(name)}" for name in LIBRARIES]
    return "\0".join([generator(), platform.python_version(), *versions])


@cache
def generator() -> str:
    """The checksum of what turns a catalogue into files: our code, templates, versions of formatters."""
    here = Path(__file__).parent
    files = [*here.glob("*.py"), *here.glob("*.yaml"), *(here / "templates").glob("*.j2")]
    files += [file for name in PACKAGES for file in Path(str(resources.files(f"opdb.{name}"))).glob("*.py")]
    total = hashlib.sha256(json.dumps(formatters.VERSIONS, sort_keys=True).encode())
    for file in sorted(files, key=lambda f: (f.parent.name, f.name)):
        total.update(f"{file.parent.name}/{file.name}\0".encode())
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()
