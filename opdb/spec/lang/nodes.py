"""The typed nodes of the rule language, and the scopes in which expressions are parsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

# The types.  An enum parameter has the type "enum:<parameter>".
BOOL, INT, FLOAT, STR, DTYPE, ENCODING = "bool", "int", "float", "str", "dtype", "encoding"
TENSOR_TYPE = "tensor type"
TENSOR, TENSORS, INTS, ROWS, FLOATS = "tensor", "tensors", "ints", "rows", "floats"

INT64 = (-(2**63), 2**63 - 1)
Range = tuple[int, int]


@dataclass(frozen=True)
class Node:
    """One node of an expression.

    ``kind`` and the matching ``args`` / ``value``:

    ========  ==========================  ==============================================
    const     -                           the value; a dtype, encoding or enum name as str
    name      -                           the name
    attr      (tensor,)                   the attribute
    index     (list, position)            -
    slice     (list, *bounds)             (has lower bound, has upper bound)
    call      arguments                   the function's name
    neg, not  (operand,)                  -
    arith     (left, right)               + - * // % /
    and, or   operands                    -
    compare   terms                       the operators between them
    in        (left, *choices)            True for "not in"
    if        (then, condition, else)     -
    list      elements                    -
    comp      (body,)                     (all any sum min max list, loops)
    ========  ==========================  ==============================================
    """

    kind: str
    type: str
    args: tuple[Node, ...] = ()
    value: Any = None
    #: Bounds of an int, or of the elements of a list of ints (interval analysis); None for other types.
    range: Range | None = field(default=None, compare=False)
    #: True if evaluation can overflow, so that emitters use a checked helper.
    checked: bool = field(default=False, compare=False)
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Loop:
    """One ``for var in source if conditions`` of a comprehension."""

    var: str
    source: Node
    conditions: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Name:
    """The meaning of a name in a scope."""

    type: str
    range: Range | None = None
    optional: bool = False  # may be omitted: `present` applies
    sure: bool = False  # optional with a literal default, so reading it is never undecidable
    param: bool = False  # a parameter of the op; its presence is stored separately from its value
    let: bool = False  # a named expression, evaluated before the rules

    @property
    def absent(self) -> bool:
        """True if reading the name can be undecidable because it has no value."""
        return self.optional and not self.sure


@dataclass(frozen=True)
class Scope:
    """The names an expression may use.  ``enums`` maps an enum value's name to (parameter, number)."""

    names: Mapping[str, Name]
    enums: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    torch: bool = False  # strings and tensor-making functions are allowed

    def with_names(self, more: Mapping[str, Name]) -> Scope:
        return Scope({**self.names, **more}, self.enums, self.torch)


def children(node: Node) -> Iterator[Node]:
    """All direct subexpressions, those of loops first."""
    if node.kind == "comp":
        for loop in node.value[1]:
            yield loop.source
            yield from loop.conditions
    yield from node.args


def walk(node: Node) -> Iterator[Node]:
    """The node and all its descendants, parents first."""
    yield node
    for child in children(node):
        yield from walk(child)


def is_enum(type_: str) -> bool:
    return type_.startswith("enum:")
