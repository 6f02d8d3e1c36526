"""Finds what the plug-ins of opdb/plugins add: commands, executors, file formats.

Each plug-in is a folder there with a module ``plugin``, which names what it adds in tables and imports nothing.  opdb's
other wings never import a plug-in; they ask here by name, and the plug-in is loaded when its answer is used.  So a new
plug-in is a new folder, and no other file changes.

    COMMANDS     commands of the command line: see Commands
    EXECUTORS    executors of conformance runs: name -> "module:class", called with the catalog
    PROGRAMS     compiled files by suffix, e.g. ".pte": name -> "module" with compile_program and run_program
    CHECKS       other graphs that `opdb check` judges: name -> "module:function" of (model, target, dims)
    EVIDENCE     parts of the evidence: name -> "module" with PRECISIONS, SOCS and build_flow
    TEMPLATES    packages with a folder ``templates``, for opdb.codegen.environment
    DIAGNOSES    rows of `opdb doctor`: name -> "module:function", which returns part, found or None, cost and cure
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Commands:
    """A module of commands: ``add_to(app)`` adds them to the command line."""

    module: str
    names: tuple[str, ...]  # commands that it adds, or groups that it adds to
    after: str = ""  # the command that they follow in the help


def commands() -> Iterator[Commands]:
    """The modules of commands of all plug-ins."""
    for plugin in _plugins():
        yield from getattr(plugin, "COMMANDS", ())


def names(point: str) -> tuple[str, ...]:
    """The names that plug-ins add at ``point``, e.g. "EXECUTORS"."""
    return tuple(name for plugin in _plugins() for name in getattr(plugin, point, ()))


def load(point: str, name: str) -> Any:
    """The object that a plug-in adds at ``point`` as ``name``; one of ``names(point)``."""
    place = next(table[name] for p in _plugins() if name in (table := getattr(p, point, {})))
    module, _, attribute = place.partition(":")
    loaded = import_module(module)
    return getattr(loaded, attribute) if attribute else loaded


@cache
def _plugins() -> tuple[ModuleType, ...]:
    folder = import_module("opdb.plugins")
    return tuple(
        import_module(f"{folder.__name__}.{found.name}.plugin")
        for found in sorted(iter_modules(folder.__path__), key=lambda m: m.name)
        if found.ispkg
    )
