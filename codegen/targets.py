"""The table of everything generated, in order: to add a kind of output, add a line."""

from __future__ import annotations

from collections.abc import Iterable

from opdb.codegen import constants, docs, tables, validators
from opdb.codegen.artifact import Artifact, Catalog, Target
from opdb.codegen.environment import render

#: Folders of generated Python that need an __init__.py which no other target writes.
PACKAGES = {
    "": "What opdb generates from specs/: constants, validators, builders.",
    "constants/": "Names and numbers: ops, parameters, enums, backends.",
}


def packages(catalog: Catalog) -> Iterable[Artifact]:
    for folder, text in PACKAGES.items():
        path = f"generated/python/{folder}__init__.py"
        yield Artifact(path, render("package.py.j2", text=text), ("codegen/targets.py",), "python")


TARGETS: tuple[Target, ...] = (
    Target("packages", "the __init__.py of generated Python", whole=packages),
    Target("constants", "names of ops, parameters, enums, backends: Python", whole=constants.python),
    Target("headers", "names of ops, parameters, enums, backends, data types: C", whole=constants.c),
    Target("validators", "validation and shape inference: Python", per_op=validators.python),
    Target("validators-registry", "validators by op: Python", whole=validators.python_registry),
    Target("docs", "one page for each op", per_op=docs.pages),
    Target("docs-index", "the index of pages", whole=docs.index),
    Target("tables", "declared support: Markdown, CSV", whole=tables.support),
    Target("readme", "the table of ops in README.md", whole=tables.readme),
)
