"""Generates torch_ops.py: the schema of each op's torch operator, e.g. torch.ops.qnn.Gru, or
torch.ops.OpdbCustom.DequantizeAdd for an op of another package than QNN's.

Tensors are positional arguments in QNN's order; parameters are keywords with QNN's names: an enum by the name of its
value, a table as one list, row by row.  Defaults are QNN's, but None if computed from other arguments or if a rule tests
the argument's presence.  Shapes that inputs and parameters do not determine are extra arguments, e.g. ``y_shape``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from opdb.codegen import pieces
from opdb.codegen.artifact import Artifact, all_specs, sorted_ops
from opdb.codegen.constants import PACKAGE
from opdb.codegen.environment import render
from opdb.core.dtypes import BY_SHORT
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp, Param, Slot
from opdb.spec.lang.nodes import Node, walk


def python(catalog: Catalog) -> Iterable[Artifact]:
    """Renders one table for all ops."""
    found = {
        name: pieces.of_op("torch-ops", name, partial(_of_op, catalog, name)) for name in sorted_ops(catalog)
    }
    schemas = {name: text for name, (text, _) in found.items() if text is not None}
    scalars = {name: tuple(listed) for name, (_, listed) in found.items() if name in schemas and listed}
    packages: dict[str, dict[str, str]] = {}
    for name in [n for n in schemas if catalog.ops[n].package != PACKAGE]:
        packages.setdefault(catalog.ops[name].package, {})[name] = schemas.pop(name)
    text = render("torch_ops.py.j2", schemas=schemas, packages=packages, scalars=scalars)
    yield Artifact("generated/python/torch_ops.py", text, all_specs(catalog), "python")


def _of_op(catalog: Catalog, name: str) -> tuple[str | None, tuple[str, ...]]:
    op = catalog.compiled(name)
    return schema(op), _scalars(op)


def schema(op: CompiledOp) -> str | None:
    """The schema for torch.library; None for an op that cannot have an operator.

    These are ops without results, ops with an undetermined number of results or with a variadic result among several,
    and ops of packages other than QNN's without a kernel.
    """
    settled = len(op.inferences) == len(op.outputs)
    outputs = [s for s in op.outputs if settled or not (s.variadic and s.definition.min == 0)]
    if (op.definition.package != PACKAGE and op.definition.kernel is None) or not outputs:
        return None
    if any(s.variadic for s in outputs) and len(outputs) > 1:
        return None
    if not settled and _counted(op):
        return None
    asked = _asked(op)
    keywords = [_param(p, p.name in asked) for p in op.params]
    keywords += (
        [] if settled else [f"int[]{'?' * s.optional} {s.name}_shape{'=None' * s.optional}" for s in outputs]
    )
    given = [*_inputs(op.inputs), "*", *keywords, "ScalarType? dtype=None"]
    returns = ["Tensor[]" if s.variadic else "Tensor" for s in outputs]
    result = returns[0] if len(returns) == 1 else f"({', '.join(returns)})"
    return f"{op.name}({', '.join(given)}) -> {result}"


def _scalars(op: CompiledOp) -> tuple[str, ...]:
    """The inputs of rank 0."""
    return tuple(s.name for s in op.inputs if s.definition.shape == [])


def _counted(op: CompiledOp) -> bool:
    """True if the count of a variadic output does not depend on variadic inputs but e.g. on parameters."""
    slots = {s.name for s in op.inputs if s.variadic}
    return any(s.variadic and not any(name in str(s.definition.count) for name in slots) for s in op.outputs)


def _inputs(slots: Iterable[Slot]) -> Iterator[str]:
    """The tensor arguments; an optional one has a default only if everything after it is optional too."""
    slots = list(slots)
    for i, slot in enumerate(slots):
        if slot.variadic:
            yield f"Tensor[] {slot.name}"
        elif slot.optional:
            yield f"Tensor? {slot.name}{'=None' * all(s.optional for s in slots[i:])}"
        else:
            yield f"Tensor {slot.name}"


def _asked(op: CompiledOp) -> set[str]:
    """The arguments whose presence a rule of the op or of a backend tests."""
    rules = (*op.rules, *(r for rules in op.backend_rules.values() for r in rules))
    nodes = [n for r in rules for n in (r.require, r.when) if n is not None]
    calls = (n for top in nodes for n in walk(top) if n.kind == "call" and n.value == "present")
    return {n.args[0].value for n in calls}


def _param(param: Param, asked: bool) -> str:
    d = param.definition
    kind = "str" if d.enum else {"bool8": "bool", "str": "str"}.get(d.base) or _number(d.base)
    kind += "[]" * bool(d.dims)
    if param.required:
        return f"{kind} {param.name}"
    default = None if asked or param.default is None else _constant(param.default)
    return f"{kind}? {param.name}=None" if default is None else f"{kind} {param.name}={default}"


def _number(dtype: str) -> str:
    return "float" if BY_SHORT[dtype].qnn.startswith(("FLOAT", "BFLOAT")) else "int"


def _constant(node: Node) -> str | None:
    """A default in the spelling of schemas; None for a computed default."""
    if node.kind == "list":
        parts = [_constant(a) for a in node.args]
        return None if None in parts else f"[{', '.join(str(p).strip('[]') for p in parts)}]"
    if node.kind != "const":
        return None
    return f'"{node.value}"' if isinstance(node.value, str) else repr(node.value)
