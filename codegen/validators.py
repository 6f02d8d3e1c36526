"""Generated validators and shape inference: one Python module and one C file for each op."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from opdb.codegen import pieces, rules_c, rules_python
from opdb.codegen.artifact import Artifact, sorted_ops, spec_path
from opdb.codegen.environment import render
from opdb.codegen.rules import module, snake
from opdb.spec.catalog import Catalog


def python(catalog: Catalog, name: str) -> Iterable[Artifact]:
    op = catalog.compiled(name)
    text = render("validator.py.j2", **rules_python.view(op))
    yield Artifact(f"generated/python/validators/{module(name)}.py", text, (spec_path(name),), "python")


def python_registry(catalog: Catalog) -> Iterable[Artifact]:
    ops = [(name, module(name)) for name in sorted_ops(catalog)]
    inputs = tuple(spec_path(name) for name, _ in ops)
    text = render("validators_init.py.j2", ops=ops, backends=rules_python.backend_names(catalog))
    yield Artifact("generated/python/validators/__init__.py", text, inputs, "python")


def c(catalog: Catalog, name: str) -> Iterable[Artifact]:
    op = catalog.compiled(name)
    text = render("validator.c.j2", **rules_c.view(op))
    yield Artifact(f"generated/c/src/{snake(name)}.c", text, (spec_path(name),), "c")


def c_registry(catalog: Catalog) -> Iterable[Artifact]:
    """The headers that every generated C file includes, and the table of ops."""
    names = sorted(sorted_ops(catalog))  # bsearch with strcmp
    inputs = tuple(spec_path(name) for name in sorted_ops(catalog))
    found = [
        pieces.of_op("validators-c-registry", name, partial(_kernel_of, catalog, name)) for name in names
    ]
    kernels = dict.fromkeys(declaration for declaration, _ in found if declaration)
    enums = [e for _, listed in found for e in listed]
    backends = rules_python.backend_names(catalog)
    for path, template in (
        ("include/opdb/kernels.h", "kernels.h.j2"),
        ("include/opdb/ops.h", "ops.h.j2"),
        ("src/ops.c", "ops.c.j2"),
    ):
        yield Artifact(
            f"generated/c/{path}",
            render(template, ops=names, kernels=list(kernels), enums=enums, backends=backends),
            inputs,
            "c",
        )


def _kernel_of(catalog: Catalog, name: str) -> tuple[str | None, list[tuple[str, Mapping[str, int]]]]:
    """The declaration of an op's kernel, and what it calls the values of enums."""
    op = catalog.compiled(name)
    return rules_c.kernel_declaration(op) if op.definition.kernel else None, rules_c.kernel_enums(op)
