"""What rendering gave on this machine: it saves rendering the same again, and formatting the same again.

The file is no part of the project (``build/``, which git ignores): on a fresh clone, and in CI, ``check`` renders
everything.  A unit's entry holds as long as its inputs, the code that renders and the libraries under it are the same.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from opdb.codegen import formatters, manifest, pieces
from opdb.codegen.artifact import Artifact, digest, with_header
from opdb.core.errors import OpdbError
from opdb.core.files import write_atomically

#: The libraries whose version may change a byte; those of the formatters are checked where they run.
LIBRARIES = ("jinja2", "pydantic", "ruamel.yaml")


@dataclass(frozen=True)
class Made:
    """One artifact: the checksum of its text before it was formatted, and of the file or region."""

    language: str
    raw: str
    sha256: str
    inputs: tuple[str, ...]


@dataclass
class Rendered:
    """By unit: the key of its inputs, and its artifacts by name, as JSON has them until somebody asks."""

    specs: tuple[str, ...] = ()
    units: dict[str, Any] = field(default_factory=dict)
    pieces: dict[str, tuple[str, Any]] = field(default_factory=dict)  # those of opdb.codegen.pieces

    def of(self, unit: str, key: str) -> Mapping[str, Made] | None:
        """The artifacts of a unit with these inputs; None if that is not known."""
        found = self.units.get(unit)
        return self.last(unit) if isinstance(found, dict) and found.get("key") == _key(key) else None

    def last(self, unit: str) -> dict[str, Made] | None:
        """The artifacts that the unit had when it was rendered last; None if nothing is on record."""
        try:
            return {str(n): _made(m, self.specs) for n, m in self.units[unit]["made"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def add(self, unit: str, key: str, made: Mapping[str, Made]) -> None:
        parts = {
            n: [m.language, m.raw, m.sha256, manifest.fold(m.inputs, self.specs)] for n, m in made.items()
        }
        self.units[unit] = {"key": _key(key), "made": parts}


def _key(unit: str) -> str:
    return digest(f"{unit}\0{tools()}")[:32]


@cache
def tools() -> str:
    """Names the code that renders, and the libraries under it."""
    versions = [f"{name} {metadata.version(name)}" for name in LIBRARIES]
    return "\0".join([manifest.generator(), platform.python_version(), *versions])


def read(path: Path | None, specs: tuple[str, ...]) -> Rendered:
    """What is on record; nothing where there is no such file, or no such file any more."""
    if path is None:
        return Rendered(specs)
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return Rendered(specs, dict(raw["units"]), pieces.read(raw["pieces"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Rendered(specs)


def _made(entry: Sequence[Any], specs: tuple[str, ...]) -> Made:
    language, raw, sha256, inputs = entry
    return Made(str(language), str(raw), str(sha256), manifest.expand(inputs, specs))


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


def formatted(
    artifacts: Sequence[Artifact], known: Mapping[str, Made], text_of: Callable[[Artifact], str | None]
) -> list[str | None]:
    """Of each artifact the finished text, header and all, if it lies on disk as formatting made it; else None.

    ``known``: what the last rendering made, by name; ``text_of`` reads an artifact's place on disk.
    """
    found: list[str | None] = []
    for artifact in artifacts:
        made = known.get(artifact.name)
        same = made is not None and (made.language, made.raw, made.inputs) == (
            artifact.language,
            raw_digest(artifact),
            artifact.inputs,
        )
        text = text_of(artifact) if same else None
        found.append(text if made is not None and text is not None and digest(text) == made.sha256 else None)
    return found


def raw_digest(artifact: Artifact) -> str:
    """The checksum of a text and of what formats it."""
    return digest("\0".join((artifact.language, formatters.settings(), with_header(artifact))))
