"""The facts on which answers at one place depend: opdb's own code, and packages by version."""

from __future__ import annotations

import hashlib
import platform
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from opdb.core.version import __version__

#: The packages that are separate folders in a checkout.
ROOTS = ("opdb", "opdb.codegen", "opdb.generated", "opdb.runtime")


def code_facts() -> dict[str, str]:
    """Version and SHA-256 of opdb's Python code (including the generated code) and of its compiled modules."""
    return {
        "opdb": __version__,
        "opdb's code": _sha256(".py", ".j2"),
        "opdb's compiled modules": _sha256(".so"),
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "machine": platform.machine(),
    }


def package_facts(*names: str) -> dict[str, str]:
    """The versions of installed packages."""
    return {name: _version(name) for name in names}


def difference(ours: dict[str, str], theirs: dict[str, str]) -> str:
    """The first fact that differs, in words; "" if there is none."""
    for name in (*ours, *theirs):
        here, there = ours.get(name, "unknown"), theirs.get(name, "unknown")
        if here != there:
            return f"{name} is {there[:16]} there and {here[:16]} here"
    return ""


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _sha256(*endings: str) -> str:
    """The SHA-256 of the files of ROOTS with these endings, each once, by their place in the package."""
    found: dict[str, Path] = {}
    for root in ROOTS:
        spec = find_spec(root)
        assert spec is not None and spec.submodule_search_locations
        for folder in map(Path, spec.submodule_search_locations):
            for path in folder.rglob("*"):
                if path.suffix in endings and path.is_file():
                    found["/".join((*root.split("."), *path.relative_to(folder).parts))] = path
    digest = hashlib.sha256()
    for name, path in sorted(found.items()):
        digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()
