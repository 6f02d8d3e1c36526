"""generated/MANIFEST.json: what was generated, from what, with which checksum.

``generator`` is the checksum of the code that generates, ``units`` has the key of each unit's inputs: both
only save time.  ``files`` is what ``check`` compares.  One line for each file, so that changes read well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path

from opdb.codegen import formatters
from opdb.codegen.artifact import ALL_OPS, PATH, Artifact
from opdb.core.errors import OpdbError

NAME = "generated/MANIFEST.json"


@dataclass(frozen=True)
class Entry:
    """One generated file or region."""

    unit: str  # e.g. docs/LayerNorm, or the target alone
    sha256: str  # of the file; of the region without its markers
    inputs: tuple[str, ...]

    @property
    def target(self) -> str:
        return self.unit.partition("/")[0]


@dataclass(frozen=True)
class Manifest:
    generator: str = ""
    units: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Entry] = field(default_factory=dict)  # by Artifact.name

    def text(self, specs: tuple[str, ...]) -> str:
        """The JSON; the list of all ``specs`` is written as one pattern."""
        files = {
            name: {"unit": e.unit, "sha256": e.sha256, "inputs": fold(e.inputs, specs)}
            for name, e in sorted(self.files.items())
        }
        parts = [
            f'  "generator": {json.dumps(self.generator)}',
            f'  "units": {_lines(dict(sorted(self.units.items())))}',
            f'  "files": {_lines(files)}',
        ]
        return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(mapping: Mapping[str, object]) -> str:
    rows = [f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in mapping.items()]
    return "{\n" + ",\n".join(rows) + "\n  }" if rows else "{}"


def read(root: Path, specs: tuple[str, ...]) -> Manifest:
    """The manifest under ``root``, empty if there is none.  Raises OpdbError if it cannot be read."""
    try:
        raw = json.loads((root / NAME).read_text(encoding="utf-8"))
        files = {
            str(name): Entry(str(e["unit"]), str(e["sha256"]), expand(e["inputs"], specs))
            for name, e in raw["files"].items()
        }
        for name in files:
            path, _, region = name.partition("#")
            if not PATH.fullmatch(path) or not (region or path.startswith("generated/")):
                raise ValueError(name)
        return Manifest(str(raw["generator"]), {str(k): str(v) for k, v in raw["units"].items()}, files)
    except FileNotFoundError:
        return Manifest()
    except (ValueError, KeyError, TypeError, AttributeError):
        cure = "delete it and run opdb generate"
        raise OpdbError(f"{NAME} is not a manifest (a merge conflict?); {cure}") from None
    except OSError as error:
        raise OpdbError(f"{NAME} cannot be read: {error.strerror}") from None


def fold(inputs: tuple[str, ...], specs: tuple[str, ...]) -> list[str]:
    """The list of all ``specs`` in inputs as one pattern; ``expand`` is the way back."""
    if len(specs) < 2 or not set(specs) <= set(inputs):
        return list(inputs)
    return [ALL_OPS, *(i for i in inputs if i not in specs)]


def expand(inputs: Iterable[str], specs: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for i in inputs for path in (specs if i == ALL_OPS else (i,)))


def entry(unit: str, artifact: Artifact, text: str) -> Entry:
    return Entry(unit, hashlib.sha256(text.encode()).hexdigest(), artifact.inputs)


#: Of opdb, besides this package: all that is loaded when something is rendered (tests/codegen/test_cache.py).
PACKAGES = ("core", "catalog.evidence", "catalog.facts", "runtime", "spec", "spec.lang")


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
