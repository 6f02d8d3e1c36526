"""Compiles records of specs/errata to typed conditions on the config of their op, and reports their faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

from opdb.core.errors import OpdbError
from opdb.core.guess import did_you_mean
from opdb.core.sdk import sdk_number
from opdb.spec.compiler import backend_scope
from opdb.spec.definitions import CompiledErratum, CompiledOp, CompiledRule, CompileError, Fault
from opdb.spec.erratum import Erratum
from opdb.spec.lang.certain import parsed
from opdb.spec.lang.nodes import BOOL, FLOAT, INT, INTS, Loop, Name, Node, Scope
from opdb.spec.lang.parse import ExpressionError, parse
from opdb.spec.lang.printer import to_text


@dataclass(frozen=True)
class Known:
    """The names that a record may use besides its op's."""

    context: Mapping[str, Mapping[str, str]]  # backend -> names its rules may read, e.g. {"arch": "u32"}
    socs: Mapping[str, int | None]  # chip -> QNN's number for it


def compile_erratum(op: CompiledOp, erratum: Erratum, known: Known) -> CompiledErratum:
    """Compiles a record about ``op``.  Raises CompileError with every fault found."""
    faults: list[Fault] = []
    scope = backend_scope(op.scope, known.context.get(erratum.backend, {}))
    lets: dict[str, Node] = {}

    def read(text: str | None, at: tuple[str | int, ...], want: str | tuple[str, ...]) -> Node | None:
        if text is None:
            return None
        try:
            return substituted(parse(text, scope, want), lets)
        except ExpressionError as error:
            message = f"{error.message}: {error.shown}" if error.text else error.message
            faults.append(Fault(at, message, error.column))
            return None

    for name, text in erratum.let.items():
        if name in scope.names or name in scope.enums:
            faults.append(Fault(("let", name, "__key__"), f"'{name}' is a name of {op.name}; choose another"))
            continue
        node = read(text, ("let", name), (INT, INTS, FLOAT, BOOL))
        if node is not None:
            lets[name] = node
            scope = scope.with_names({name: Name(node.type, node.range)})
    when = read(erratum.when, ("when",), BOOL)
    unless = read(erratum.unless, ("unless",), BOOL)
    where = _scope(erratum, scope, known, faults)
    if faults:
        raise CompileError(faults)
    if unless is None:
        unless = Node("const", BOOL, value=False)
    rule = CompiledRule(erratum.erratum, unless, when, "expect", erratum.detail, None, erratum.backend)
    return CompiledErratum(erratum, rule, where)


#: At most this many combinations of data types of a row are tried; the rest counts as open.
COMBINATIONS = 4096


def occurs(erratum: CompiledErratum, cells: Mapping[str, Sequence[str]]) -> bool | None:
    """Whether an erratum occurs for the data types of a type row: always, never, or under further conditions (None).

    ``cells``: the short names of the data types that each slot may have.  Does not look at the scope.
    """
    if erratum.definition.pattern:
        return None
    when = parsed(to_text(erratum.rule.when)) if erratum.rule.when is not None else lambda _: True
    unless = parsed(to_text(erratum.rule.require))
    found: set[bool | None] = set()
    combinations = product(*cells.values())
    for dtypes in islice(combinations, COMBINATIONS):
        known = {f"{slot}.dtype": dtype for slot, dtype in zip(cells, dtypes, strict=True)}
        known |= {f"{slot}[0].dtype": dtype for slot, dtype in zip(cells, dtypes, strict=True)}
        applies, excused = when(known), unless(known)
        found.add(
            False if applies is False or excused is True else True if applies and excused is False else None
        )
    if next(combinations, None) is not None:
        found.add(None)
    return found.pop() if len(found) == 1 else None


def scope_faults(erratum: Erratum, socs: Mapping[str, int | None]) -> list[Fault]:
    """Faults in the versions and chips of a record."""
    faults: list[Fault] = []
    numbers = {}
    for end in ("since", "until"):
        version = getattr(erratum.scope, end)
        try:
            numbers[end] = sdk_number(version) if version is not None else None
        except OpdbError as error:
            faults.append(Fault(("scope", end), str(error)))
    since, until = numbers.get("since"), numbers.get("until")
    if since and until and until < since:
        message = f"the version {erratum.scope.until} comes before since, {erratum.scope.since}"
        faults.append(Fault(("scope", "until"), message))
    for i, soc in enumerate(erratum.scope.socs):
        if soc not in socs:
            message = f"no chip '{soc}' in socs.yaml{did_you_mean(soc, socs, most=3)}"
            faults.append(Fault(("scope", "socs", i), message))
    return faults


def _scope(erratum: Erratum, scope: Scope, known: Known, faults: list[Fault]) -> Node | None:
    """The condition on the target, None if there is none; adds faults for names the backend's rules cannot read."""
    found = scope_faults(erratum, known.socs)
    faults.extend(found)
    if found:
        return None
    limits = erratum.scope
    parts = []
    if limits.since is not None:
        parts.append(_compared("sdk", ">=", sdk_number(limits.since)))
    if limits.until is not None:
        parts.append(_compared("sdk", "<=", sdk_number(limits.until)))
    models = [m for m in (known.socs[s] for s in limits.socs) if m is not None]
    for field, name, values in (("arch", "arch", limits.arch), ("socs", "soc_model", models)):
        if getattr(limits, field):
            if name not in scope.names:
                faults.append(Fault(("scope", field), f"rules of {erratum.backend} do not read {name}"))
            parts.append(_one_of(name, values))
    return None if not parts else parts[0] if len(parts) == 1 else Node("and", BOOL, tuple(parts))


def _number(value: int) -> Node:
    return Node("const", INT, value=value, range=(value, value))


def _read(name: str) -> Node:
    return Node("name", INT, value=name, range=(0, 2**32 - 1))


def _compared(name: str, operator: str, value: int) -> Node:
    return Node("compare", BOOL, (_read(name), _number(value)), (operator,))


def _one_of(name: str, values: Sequence[int]) -> Node:
    if len(values) == 1:
        return _compared(name, "==", values[0])
    return Node("in", BOOL, (_read(name), *map(_number, values)), False)


def substituted(node: Node, values: Mapping[str, Node]) -> Node:
    """``node`` with names replaced by these values.  The parser ensures that none of them is a loop variable."""
    if node.kind == "name":
        return values.get(node.value, node)
    if node.kind == "comp":
        kind, loops = node.value
        made = tuple(
            Loop(x.var, substituted(x.source, values), tuple(substituted(c, values) for c in x.conditions))
            for x in loops
        )
        node = replace(node, value=(kind, made))
    return replace(node, args=tuple(substituted(a, values) for a in node.args))
