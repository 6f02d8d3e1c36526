"""Lets modules be imported by their names of opdb 0.1 until the next release, with a DeprecationWarning."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Old name -> new name, for the modules that the documents named and their packages.
NEW = {
    "opdb.conformance.cloud_ai_hexagon": "opdb.plugins.cloud_ai.card",
    "opdb.cost": "opdb.measure.cost",
    "opdb.coverage.check": "opdb.checks.verdicts",
    "opdb.coverage.graph": "opdb.checks.graph",
    "opdb.coverage.load": "opdb.programs.load",
    "opdb.dispatch": "opdb.execute.dispatch",
    "opdb.errors": "opdb.core.errors",
    "opdb.executorch": "opdb.plugins.executorch",
    "opdb.graph": "opdb.core.graph",
    "opdb.hexagon": "opdb.plugins.hexagon",
    "opdb.nearest": "opdb.judge.nearest",
    "opdb.op_config": "opdb.core.op_config",
    "opdb.optimize": "opdb.lower.passes",
    "opdb.probe.onnx_runtime": "opdb.execute.libraries.onnx_runtime",
    "opdb.store": "opdb.catalog.store",
    "opdb.targets.target": "opdb.catalog.targets.target",
    "opdb.torch_ops": "opdb.programs.torch_ops",
    "opdb.validate": "opdb.judge.validate",
}
#: Packages that are gone; the modules below them are in NEW.
GONE = frozenset(old.rpartition(".")[0] for old in NEW) - {"opdb"} - NEW.keys()


def new_name(name: str) -> str | None:
    """The new name of a module that was documented as ``name``, or of a module below one; None for any other."""
    found = next((old for old in NEW if name == old or name.startswith(f"{old}.")), None)
    return None if found is None else NEW[found] + name.removeprefix(found)


class _Finder:
    """Finds and loads the modules of NEW: the import system calls these three methods."""

    def __init__(self) -> None:
        self._own: dict[str, ModuleSpec | None] = {}  # old name -> the module's own spec

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith("opdb."):
            return None
        if fullname in GONE or new_name(fullname) is not None:
            return ModuleSpec(fullname, self, is_package=fullname in GONE)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        now = new_name(spec.name)
        if now is None:
            return None
        import warnings

        text = f"{spec.name} is {now} now; the old name works in this release only"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        module = import_module(now)
        self._own[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restores the spec of a module, which already ran when it was imported by its new name."""
        name = module.__spec__.name if module.__spec__ is not None else ""
        if name in self._own:
            module.__spec__ = self._own.pop(name)


def install() -> None:
    """Makes the old names importable.  The finder goes first: a folder that an update left behind must not be found instead."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
