"""Generated validators and shape inference: one Python module and one C file per op."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from opdb.codegen import pieces, rules_c, rules_python
from opdb.codegen.artifact import Artifact, sorted_ops, spec_path
from opdb.codegen.environment import c_comment, render
from opdb.codegen.rules import module, snake
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp


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
    """Renders the headers that every generated C file includes, and the table of ops."""
    names = sorted(sorted_ops(catalog))  # bsearch with strcmp
    inputs = tuple(spec_path(name) for name in sorted_ops(catalog))
    found = [
        pieces.of_op("validators-c-registry", name, partial(_declared_of, catalog, name)) for name in names
    ]
    kernels = dict.fromkeys(declaration for declaration, _, _ in found if declaration)
    view = {
        "ops": names,
        "kernels": list(kernels),
        "enums": [e for _, listed, _ in found for e in listed],
        "meanings": {name: lines for name, (_, _, lines) in zip(names, found, strict=True)},
    }
    backends = rules_python.backend_names(catalog)
    for path, template in (
        ("include/opdb/kernels.h", "kernels.h.j2"),
        ("include/opdb/ops.h", "ops.h.j2"),
        ("src/ops.c", "ops.c.j2"),
    ):
        yield Artifact(
            f"generated/c/{path}",
            render(template, **view, backends=backends),
            inputs,
            "c",
        )


def _declared_of(
    catalog: Catalog, name: str
) -> tuple[str | None, list[tuple[str, Mapping[str, int]]], list[str]]:
    """The declaration of an op's kernel, its enum values, and the lines of ``_meanings``."""
    op = catalog.compiled(name)
    declaration = rules_c.kernel_declaration(op) if op.definition.kernel else None
    return declaration, rules_c.kernel_enums(op), list(_meanings(op))


def _meanings(op: CompiledOp) -> Iterator[str]:
    """Lines of a C comment: the inputs, parameters, and outputs in order, each with its ``doc`` from the spec."""
    definition = op.definition
    named = [(f"inputs[{i}] {name}", d.doc) for i, (name, d) in enumerate(definition.inputs.items())]
    named += [(f"parameter {name}", d.doc) for name, d in definition.params.items()]
    named += [(f"outputs[{i}] {name}", d.doc) for i, (name, d) in enumerate(definition.outputs.items())]
    for place, doc in named:
        yield from textwrap.wrap(c_comment(f"{place}: {doc}" if doc else place), 106, subsequent_indent="  ")
