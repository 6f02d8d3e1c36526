"""Generates kernels from the element formulas in specs: C around ``opdb_run_each``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from opdb.codegen.artifact import Artifact, spec_path
from opdb.codegen.emit_element import C_TYPES, computed_type, element, named
from opdb.codegen.environment import render
from opdb.codegen.rules import snake
from opdb.codegen.rules_c import kernel_parameters
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp
from opdb.spec.each import parameters
from opdb.spec.lang.element import REAL, TRUTH, Element, is_approximate, is_wide, limits
from opdb.spec.model import KernelDef


def c(catalog: Catalog, name: str) -> Iterable[Artifact]:
    op = catalog.compiled(name)
    if op.each:
        text = render("kernel.c.j2", **view(op))
        yield Artifact(f"generated/c/kernels/{snake(name)}.c", text, (spec_path(name),), "c")


def view(op: CompiledOp) -> dict[str, Any]:
    """The view of ``kernel.c.j2``."""
    kernel = op.definition.kernel
    assert kernel is not None
    enum = op.definition.params[kernel.by].enum if kernel.by else {"": 0}
    inputs, scalars = [s.name for s in op.inputs], parameters(op.definition)
    rows = [
        r | {"text": _written(kernel, choice, r["kind"])}
        for choice, kinds in op.each.items()
        for r in _rows(choice, kinds, inputs, scalars)
    ]
    return {
        "op": op.name,
        "summary": op.definition.summary or "",
        "functions": any(r["functions"] for r in rows),
        "rows": rows,
        "inputs": [named(n) for n in inputs],
        "scalars": [named(n) for n in scalars],
        "function": kernel.function,
        "parameters": kernel_parameters(op),
        "by": kernel.by,
        "choices": [
            {"name": choice, "number": enum[choice], "test": str(_test(kinds)).lower(),
             "rows": [f"[OPDB_{kind.upper()}] = {_row_name(choice, kind)}" for kind in kinds]}
            for choice, kinds in op.each.items()
        ],
        "output": op.outputs[0].name,
    }  # fmt: skip


def _written(kernel: KernelDef, choice: str, kind: str) -> str:
    """The formula as written in the spec."""
    each: Any = kernel.each
    given: Any = each[choice] if kernel.by else each
    return str(given if isinstance(given, str) else given[kind])


def _test(kinds: Any) -> bool:
    """True if the result is a truth value."""
    return any(node.type == TRUTH for node in kinds.values())


def _row_name(choice: str, kind: str) -> str:
    return f"{choice.lower()}_of_{kind}" if choice else f"of_{kind}"


def _rows(choice: str, kinds: Any, inputs: list[str], scalars: list[str]) -> Iterator[dict[str, Any]]:
    for kind, node in kinds.items():
        read = set(_names(node))
        text = element(node, kind)
        rounds = node.type != TRUTH and computed_type(node, kind) == "double"
        yield {
            "kind": kind,
            "name": _row_name(choice, kind),
            "type": C_TYPES[kind],
            "computed": computed_type(node, kind),
            "clones": "OPDB_FUSED_CLONES" if is_approximate(node) and not is_wide(node) else "OPDB_CLONES",
            "result": C_TYPES[TRUTH if node.type == TRUTH else kind],
            "inputs": [named(n) for n in inputs if n in read],
            "params": [{"name": named(n), "place": scalars.index(n)} for n in scalars if n in read],
            "c": f"(float)({text})" if rounds else text,
            "far": _far(node) if kind == REAL and not is_wide(node) else "",
            "wide_c": element(node, kind, wide=True) if kind == REAL else "",
            "functions": re.search(r"\w\(", text) is not None,
        }


def _far(node: Element) -> str:
    """The C condition under which an element is computed in double; "" if never."""
    sizes = [f"fabsf({named(name)}) >= {limit!r}f" for name, limit in limits(node).items()]
    return sizes[0] if len(sizes) == 1 else " | ".join(f"({s})" for s in sizes)


def _names(node: Element) -> Iterator[str]:
    if node.kind == "name":
        yield node.value
    for a in node.args:
        yield from _names(a)
