"""Generated kernels: the texts of ``kernel.each`` as typed nodes, by enum value and kind of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from opdb.core.dtypes import BY_SHORT
from opdb.spec.definitions import Fault
from opdb.spec.lang.element import KINDS, REAL, TRUTH, WHOLE, Element, parse_element
from opdb.spec.lang.parse import ExpressionError
from opdb.spec.model import EachDef, KernelDef, OpDef

#: Value of the selecting parameter ("" without one) -> kind -> node.
Each = Mapping[str, Mapping[str, Element]]


def kind_of(dtype: str) -> str:
    """The kind of numbers that a kernel computes a data type in, e.g. uq8 -> real."""
    kind = BY_SHORT[dtype]
    if kind.quantized or kind.qnn.startswith(("FLOAT", "BFLOAT")):
        return REAL
    return TRUTH if dtype == "bool8" else WHOLE


def parameters(op: OpDef) -> list[str]:
    """The scalar parameters that an expression may name."""
    return [n for n, p in op.params.items() if not p.dims and not p.enum and p.base != "str"]


def each_of(op: OpDef) -> tuple[Each, list[Fault]]:
    """The element formulas of ``op``'s kernel, and the faults of their texts."""
    kernel, at = op.kernel, ("kernel", "each")
    if kernel is None or kernel.each is None:
        return {}, []
    tensors = [*op.inputs.values(), *op.outputs.values()]
    if len(op.inputs) not in (1, 2) or len(op.outputs) != 1 or any(t.optional or t.variadic for t in tensors):
        wanted = "one or two tensors and gives one, none of them optional or variadic"
        return {}, [Fault(at, f"a kernel of elements takes {wanted}")]
    if kernel.by is None:
        found, faults = _kinds(cast(EachDef, kernel.each), op, kernel, at)
        return {"": found}, faults
    param = op.params.get(kernel.by)
    if param is None or not param.enum:
        return {}, [Fault(("kernel", "by"), f"'{kernel.by}' is no enum parameter of the op")]
    each: dict[str, Mapping[str, Element]] = {}
    faults = []
    for value, given in cast("dict[str, EachDef]", kernel.each).items():
        if value not in param.enum:
            known = ", ".join(param.enum)
            faults.append(Fault((*at, value), f"'{value}' is no value of '{kernel.by}': {known}"))
            continue
        each[value], wrong = _kinds(given, op, kernel, (*at, value))
        faults += wrong
    return each, faults


def _kinds(
    given: EachDef, op: OpDef, kernel: KernelDef, at: tuple[str | int, ...]
) -> tuple[Mapping[str, Element], list[Fault]]:
    """Parses the formulas by kind.  A single text applies to the kinds of all the kernel's data types; if a
    parameter selects the formula, the text need not be valid for every kind."""
    kinds = {kind_of(d) for d in kernel.dtypes}
    texts = {k: given for k in KINDS if k in kinds} if isinstance(given, str) else given
    found, faults = {}, []
    for kind, text in texts.items():
        try:
            found[kind] = parse_element(text, op.inputs, parameters(op), kind)
        except ExpressionError as error:
            place = at if isinstance(given, str) else (*at, kind)
            faults.append(Fault(place, f"{error.message}: {error.shown}", error.column))
    if len({node.type for kind, node in found.items() if kind != TRUTH}) > 1:
        faults.append(
            Fault(at, "the result is a number for real or for whole numbers, and a truth value for the other")
        )
    if isinstance(given, str) and kernel.by and found:
        return found, []
    return found, faults
