"""PyTorch mappings after type-checking: one ATen target as one QNN op, or as several (a decomposition).

Right-hand sides are expressions over the argument names of the ATen schema, and give the tensor or value for
the slot or parameter.  ``result`` is the target's (first) result as PyTorch sees it, ``results`` is all of
them: ``y: permute(result, [0, 2, 3, 1])`` means that the op returns the NHWC form.
``compile_mapping`` and ``compile_decomposition`` raise CompileError with every fault; ``unaccounted``
lists what a mapping leaves open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from opdb.core.names import counted
from opdb.spec.definitions import CompiledOp, CompileError, Fault, TypeRow
from opdb.spec.lang.analyze import free_names, inlined
from opdb.spec.lang.nodes import (
    BOOL,
    DTYPE,
    FLOAT,
    FLOATS,
    INT,
    INT64,
    INTS,
    ROWS,
    STR,
    TENSOR,
    TENSORS,
    Name,
    Node,
    Scope,
    walk,
)
from opdb.spec.lang.parse import ExpressionError, parse
from opdb.spec.model import Decomposition, Intermediate, Step, TorchMapping

Place = tuple[str | int, ...]
LET = (INT, INTS, FLOAT, BOOL, TENSOR)
#: ATen's argument types without alias marks and list lengths -> the rule language's.
TYPES: Mapping[str, Name] = {
    "Tensor": Name(TENSOR), "Tensor[]": Name(TENSORS), "Tensor?[]": Name(TENSORS),
    "int": Name(INT, INT64), "SymInt": Name(INT, INT64), "int[]": Name(INTS, INT64),
    "SymInt[]": Name(INTS, INT64), "float": Name(FLOAT), "float[]": Name(FLOATS), "Scalar": Name(FLOAT), "bool": Name(BOOL),
    "str": Name(STR), "ScalarType": Name(DTYPE),
    "Device": Name(STR), "Layout": Name(STR), "MemoryFormat": Name(STR),
}  # fmt: skip


class Argument(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...  # in the schema's spelling, e.g. SymInt[2], Tensor?, Scalar


class Schema(Protocol):
    """An ATen schema (opdb.catalog.facts.aten_schema)."""

    @property
    def arguments(self) -> Sequence[Argument]: ...
    @property
    def returns(self) -> Sequence[str]: ...  # types; e.g. ("Tensor", "Tensor", "Tensor"), ("Tensor[]",)


@dataclass(frozen=True)
class CompiledMapping:
    target: str  # e.g. aten.native_layer_norm.default
    op: CompiledOp
    schema: Schema
    scope: Scope
    when: Node | None
    why: str | None
    inputs: Mapping[str, Node]  # by slot
    absent: Mapping[str, Node]  # by slot: the fallback if the torch argument is None
    params: Mapping[str, Node]
    outputs: Mapping[str, Node]  # by slot, over `results`
    ignored: Mapping[str, str]


@dataclass(frozen=True)
class CompiledIntermediate:
    """A tensor between two ops; ``shape`` is None if the op that writes it infers it."""

    name: str
    shape: Node | None
    like: Node


@dataclass(frozen=True)
class CompiledStep:
    op: CompiledOp
    inputs: Mapping[str, Node]
    absent: Mapping[str, Node]
    params: Mapping[str, Node]
    outputs: Mapping[str, Node]


@dataclass(frozen=True)
class CompiledDecomposition:
    """One decomposition for one of its targets."""

    target: str
    definition: Decomposition
    schema: Schema
    scope: Scope
    when: Node | None
    lets: Mapping[str, Node]
    tensors: tuple[CompiledIntermediate, ...]
    steps: tuple[CompiledStep, ...]

    @property
    def name(self) -> str:
        return self.definition.decomposition


def plain_type(type_: str) -> tuple[str, bool]:
    """The type without alias marks and list length, and True if it is optional, e.g. ("int[]", True)."""
    bare = re.sub(r"\([^)]*\)", "", type_).strip()
    return re.sub(r"\[\d+\]", "[]", bare.removesuffix("?")), bare.endswith("?")


def torch_scope(schema: Schema) -> Scope:
    """The names a mapping may read, without arguments of types that the language lacks (generators)."""
    names = {}
    for argument in schema.arguments:
        bare, optional = plain_type(argument.type)
        if bare in TYPES:
            known = TYPES[bare]
            names[argument.name] = Name(known.type, known.range, optional)
    return Scope({**names, "result": Name(TENSOR), "results": Name(TENSORS)}, torch=True)


def result_node(number: int) -> Node:
    """The node for result ``number`` of the target."""
    return Node("index", TENSOR, (Node("name", TENSORS, value="results"), Node("const", INT, value=number)))


def results_read(nodes: Sequence[Node]) -> set[int] | None:
    """The indices of the results that ``nodes`` read; None if they read all of them."""
    found: set[int] = set()
    indexed: set[int] = set()
    for n in (n for top in nodes for n in walk(top)):
        if n.kind == "index" and n.args[0].value == "results" and n.args[1].kind == "const":
            found.add(n.args[1].value)
            indexed.add(id(n.args[0]))
        elif n.kind == "name" and n.value == "result":
            found.add(0)
        elif n.kind == "name" and n.value == "results" and id(n) not in indexed:
            return None
    return found


def guarded(when: Node | None) -> set[str]:
    """The optional arguments that are present whenever ``when`` holds."""
    parts = conjuncts(when)
    return {p.args[0].value for p in parts if p.kind == "call" and p.value == "present"}


def conjuncts(when: Node | None) -> tuple[Node, ...]:
    if when is None:
        return ()
    return tuple(c for a in when.args for c in conjuncts(a)) if when.kind == "and" else (when,)


def may_be_none(node: Node, scope: Scope, given: set[str]) -> tuple[str, ...]:
    """The optional arguments whose absence leaves ``node`` without a value, in order of reading."""
    asked = {n.args[0].value for n in walk(node) if n.kind == "call" and n.value == "present"}
    return tuple(
        n for n in free_names(node) if n in scope.names and scope.names[n].optional and n not in asked | given
    )


def compile_mapping(op: CompiledOp, target: str, mapping: TorchMapping, schema: Schema) -> CompiledMapping:
    """Compiles one entry of an op's ``torch`` section."""
    reader = _Reader(torch_scope(schema), schema)
    at: Place = ("torch", target)
    when = None if mapping.when is None else reader.parse(mapping.when, (*at, "when"), BOOL)
    inputs, absent, params = reader.given(op, mapping, at, guarded(when))
    outputs = reader.outputs(op, {k: str(v) for k, v in mapping.outputs.items()}, at)
    reader.finish()
    return CompiledMapping(
        target, op, schema, reader.scope, when, mapping.why, inputs, absent, params, outputs, mapping.ignored
    )


def compile_decomposition(
    definition: Decomposition, target: str, ops: Mapping[str, CompiledOp], schema: Schema
) -> CompiledDecomposition:
    """Compiles ``definition`` for ``target``, one of its torch targets."""
    reader = _Reader(torch_scope(schema), schema)
    lets = reader.lets(definition)
    guard = None if definition.when is None else reader.parse(definition.when, ("when",), BOOL)
    when = None if guard is None else inlined(guard, _arguments_of(lets))
    names = reader.intermediates(definition)
    for name in names:
        reader.add(name, Name(TENSOR), ("tensors", name))
    stated = {name: reader.stated(name, t) for name, t in definition.tensors.items()}
    steps = []
    for i, step in enumerate(definition.ops):
        op = ops.get(step.op)
        if op is None:
            reader.fault(("ops", i, "op"), f"no spec of an op '{step.op}'")
            continue
        given = reader.given(op, step, ("ops", i), guarded(when))
        steps.append(CompiledStep(op, *given, reader.outputs(op, step.outputs, ("ops", i))))
    reader.flow(definition, names)
    tensors = [] if reader.faults else reader.typed(names, stated, steps)
    _enums([s.op for s in steps], reader)
    made = CompiledDecomposition(
        target, definition, schema, reader.scope, when, lets, tuple(tensors), tuple(steps)
    )
    if not reader.faults:
        read = {name for node in (*_nodes(made), *filter(None, [guard])) for name in free_names(node)}
        for name in lets.keys() - read:
            reader.fault(("let", name), f"nothing reads '{name}'; delete it")
    reader.finish()
    return made


def _arguments_of(lets: Mapping[str, Node]) -> Mapping[str, Node]:
    """Named expressions in terms of arguments alone: a guard is asked before anything is named."""
    found: dict[str, Node] = {}
    for name, node in lets.items():
        found[name] = inlined(node, found)
    return found


def _nodes(of: CompiledMapping | CompiledDecomposition) -> list[Node]:
    """All expressions of a mapping or decomposition."""
    named = [*of.lets.values()] if isinstance(of, CompiledDecomposition) else []
    return [*filter(None, [of.when]), *read_by_ops(of), *named]


def read_by_ops(of: CompiledMapping | CompiledDecomposition) -> list[Node]:
    """The expressions of the ops and of the tensors between them."""
    steps: Sequence[CompiledMapping | CompiledStep] = [of] if isinstance(of, CompiledMapping) else of.steps
    groups = [g for s in steps for g in (s.inputs, s.absent, s.params, s.outputs)]
    tensors = of.tensors if isinstance(of, CompiledDecomposition) else ()
    return [
        *(node for group in groups for node in group.values()),
        *(n for t in tensors for n in (t.shape, t.like) if n is not None),
    ]


def _enums(ops: Sequence[CompiledOp], reader: _Reader) -> None:
    """Checks that an enum name has one number in all ops of a form, since builders write it as a constant."""
    seen: dict[str, int] = {}
    for op in ops:
        for name, (_, number) in op.scope.enums.items():
            if seen.setdefault(name, number) != number:
                reader.fault(("ops",), f"the enum value '{name}' has two numbers in the ops of this form")


@dataclass
class _Reader:
    scope: Scope
    schema: Schema
    faults: list[Fault] = field(default_factory=list)

    def fault(self, at: Place, message: str, column: int = 0) -> None:
        self.faults.append(Fault(at, message, column))

    def finish(self) -> None:
        if self.faults:
            raise CompileError(self.faults)

    def add(self, name: str, value: Name, at: Place) -> None:
        if name in self.scope.names:
            self.fault(at, f"'{name}' is the name of something else already; choose another")
        self.scope = self.scope.with_names({name: value})

    def lets(self, definition: Decomposition) -> dict[str, Node]:
        """The named expressions; each is a name for what comes after it."""
        found: dict[str, Node] = {}
        for name, text in definition.let.items():
            node = self.parse(text, ("let", name), LET)
            if node is not None:
                found[name] = node
                self.add(name, Name(node.type, node.range), ("let", name))
        return found

    def parse(
        self, text: str, at: Place, want: str | tuple[str, ...], scope: Scope | None = None
    ) -> Node | None:
        try:
            return parse(text, scope or self.scope, want)
        except ExpressionError as error:
            self.fault(at, f"{error.message}: {error.text}" if error.text else error.message, error.column)
            return None

    def given(
        self, op: CompiledOp, texts: TorchMapping | Step, at: Place, given: set[str]
    ) -> tuple[dict[str, Node], dict[str, Node], dict[str, Node]]:
        """Inputs, fallbacks, and parameters, in the order of the op."""
        inputs, absent = self._inputs(op, texts, at, given), {}
        for name, text in texts.absent.items():
            place = (*at, "absent", name)
            if name not in texts.inputs:
                self.fault(place, f"'{name}' is not under 'inputs'")
                continue
            if name in inputs and not may_be_none(inputs[name], self.scope, given):
                self.fault(place, f"'{name}' is always given, so nothing can stand in for it")
            made = self.parse(text, place, TENSOR)
            if made is not None:
                absent[name] = made
        return inputs, absent, self._params(op, texts, at, given)

    def _inputs(
        self, op: CompiledOp, texts: TorchMapping | Step, at: Place, given: set[str]
    ) -> dict[str, Node]:
        slots = {s.name: s for s in op.inputs}
        out: dict[str, Node] = {}
        for name, text in texts.inputs.items():
            place = (*at, "inputs", name)
            if name not in slots:
                self.fault(place, f"{op.name} has no input '{name}'; known: {', '.join(slots)}")
                continue
            node = self.parse(text, place, TENSORS if slots[name].variadic else (TENSOR, FLOAT, INT))
            if node is None:
                continue
            out[name] = node
            if not slots[name].optional and name not in texts.absent:
                cure = "say what stands in under 'absent', or 'present({0})' in 'when'"
                self._needed(op, name, node, given, place, cure)
        numbers = [name for name, node in out.items() if node.type in (FLOAT, INT)]
        if out and len(numbers) == len(out):
            self.fault((*at, "inputs"), f"{op.name} reads numbers only; work them out under 'let'")
        for name in numbers:
            others = (n for s in alike(op, name) if s in out and s not in numbers for n in free_names(out[s]))
            tensors = (n for n in others if n in self.scope.names)
            like = next((n for n in tensors if self.scope.names[n].type in (TENSOR, TENSORS)), "result")
            out[name] = number_tensor(out[name], first_tensor(like, self.scope))
        return {s: out[s] for s in slots if s in out}

    def _params(
        self, op: CompiledOp, texts: TorchMapping | Step, at: Place, given: set[str]
    ) -> dict[str, Node]:
        known = {p.name: p for p in op.params}
        scope = Scope(self.scope.names, op.scope.enums, torch=True)
        out: dict[str, Node] = {}
        for name, text in texts.params.items():
            place = (*at, "params", name)
            if name not in known:
                listed = f"; known: {', '.join(known)}" if known else ""
                self.fault(place, f"{op.name} has no parameter '{name}'{listed}")
                continue
            want = {FLOAT: (FLOAT, INT), ROWS: (ROWS, INTS)}.get(known[name].type, known[name].type)
            node = self.parse(text, place, want, scope)
            if node is None:
                continue
            out[name] = node
            if known[name].required:
                cure = "write ... if present({0}) else ..., or 'present({0})' in 'when'"
                self._needed(op, name, node, given, place, cure)
        return {p: out[p] for p in known if p in out}

    def _needed(self, op: CompiledOp, name: str, node: Node, given: set[str], at: Place, cure: str) -> None:
        """Adds a fault if a required slot or parameter depends on an argument that may be None."""
        for argument in may_be_none(node, self.scope, given)[:1]:
            why = f"'{argument}' may be None, and {op.name} needs '{name}'"
            self.fault(at, f"{why}; {cure.format(argument)}")

    def outputs(self, op: CompiledOp, texts: Mapping[str, str], at: Place) -> dict[str, Node]:
        out: dict[str, Node] = {}
        slots = {s.name: s for s in op.outputs}
        for name, text in texts.items():
            place = (*at, "outputs", name)
            if name not in slots:
                self.fault(place, f"{op.name} has no output '{name}'; known: {', '.join(slots)}")
            elif text.isdigit():
                self._number(int(text), place)
                out[name] = result_node(int(text))
            else:
                node = self.parse(text, place, TENSORS if slots[name].variadic else TENSOR)
                if node is not None:
                    out[name] = node
        numbers = results_read(list(out.values()))
        if any(plain_type(r)[0] != "Tensor" for r in self.schema.returns) and numbers:
            self.fault((*at, "outputs"), "the target returns a list of tensors; write 'results'")
        return {s: out[s] for s in slots if s in out}

    def _number(self, number: int, place: Place) -> None:
        count = len(self.schema.returns)
        if number >= count:
            results = counted(count, "result")
            self.fault(place, f"the target has {results}, counted from 0; there is no number {number}")

    def intermediates(self, definition: Decomposition) -> list[str]:
        """The tensors that ops write and that are not results, in the order of writing."""
        written = dict.fromkeys(t for step in definition.ops for t in step.outputs.values())
        names = [t for t in written if t.isidentifier() and t not in self.scope.names]
        for name in definition.tensors:
            if name not in names:
                self.fault(("tensors", name), f"no op writes '{name}'")
        return names

    def stated(self, name: str, t: Intermediate) -> tuple[Node | None, Node | None]:
        """The shape and the type that the definition states for an intermediate."""
        text = f"[{', '.join(t.shape)}]" if isinstance(t.shape, list) else t.shape
        shape = None if text is None else self.parse(text, ("tensors", name, "shape"), INTS)
        like = None if t.like is None else self.parse(t.like, ("tensors", name, "like"), (TENSOR, DTYPE))
        return shape, like

    def typed(
        self,
        names: Sequence[str],
        stated: Mapping[str, tuple[Node | None, Node | None]],
        steps: Sequence[CompiledStep],
    ) -> list[CompiledIntermediate]:
        """The intermediates with their types; adds a fault if a type or shape is neither stated nor inferred."""
        likes: dict[str, Node] = {}
        found = {}
        for i, step in enumerate(steps):
            for slot, node in step.outputs.items():
                name = str(node.value) if node.kind == "name" else ""
                if name not in names:
                    continue
                shape, like = stated.get(name, (None, None))
                like = like or self._like(step, slot, likes)
                if like is not None and like.value in names:
                    like = likes.get(like.value)
                inferred = {x.output for x in step.op.inferences if x.count is None}
                if like is None:
                    cure = f"state it: tensors: {{{name}: {{like: f32}}}}"
                    self.fault(("ops", i, "outputs", slot), f"the type of '{name}' does not follow; {cure}")
                elif shape is None and slot not in inferred:
                    cure = f"state it: tensors: {{{name}: {{shape: ...}}}}"
                    self.fault(("ops", i, "outputs", slot), f"{step.op.name} infers no shape; {cure}")
                else:
                    likes[name] = like
                    found[name] = CompiledIntermediate(name, shape, like)
        return [*found.values()]

    def _like(self, step: CompiledStep, slot: str, likes: Mapping[str, Node]) -> Node | None:
        """A node with the type of an output: a data type, or a tensor that an input of the op reads."""
        source = type_of_output(step.op, slot)
        if isinstance(source, str):
            return Node("const", DTYPE, value=source)
        for name in source:
            read = free_names(step.inputs[name]) if name in step.inputs else ()
            for n in read:
                if n in self.scope.names and self.scope.names[n].type in (TENSOR, TENSORS):
                    return likes.get(n) or first_tensor(n, self.scope)
        return None

    def flow(self, definition: Decomposition, names: Sequence[str]) -> None:
        """Checks that each intermediate is written once, before it is read."""
        written: set[str] = set()
        for i, step in enumerate(definition.ops):
            for group in (step.inputs, step.absent):
                for slot, text in group.items():
                    words = set(re.findall(r"[A-Za-z_]\w*", text))
                    for name in sorted(words & set(names) - written):
                        self.fault(("ops", i, "inputs", slot), f"'{name}' is read before an op writes it")
            for slot, name in step.outputs.items():
                if name in written:
                    self.fault(("ops", i, "outputs", slot), f"'{name}' is written twice")
                written.add(name)


def number_tensor(node: Node, like: Node) -> Node:
    """``full([1], node, like)``: the tensor for a number given instead of a tensor."""
    one = Node("list", INTS, (Node("const", INT, value=1, range=(1, 1)),), range=(1, 1))
    if node.type == INT and node.kind == "const":
        node = Node("const", FLOAT, value=float(node.value))
    elif node.type == INT:
        node = Node("call", FLOAT, (node,), "to_float")
    return Node("call", TENSOR, (one, node, like), "full")


def first_tensor(name: str, scope: Scope) -> Node:
    """The node for the tensor ``name``, or for the first one of a list."""
    if scope.names[name].type == TENSOR:
        return Node("name", TENSOR, value=name)
    zero = Node("const", INT, value=0, range=(0, 0))
    return Node("index", TENSOR, (Node("name", TENSORS, value=name), zero))


def type_of_output(op: CompiledOp, slot: str) -> str | tuple[str, ...]:
    """The data type that an output always has, or the inputs whose type it may have, most likely first.

    The slot fixes it, a rule ``y.dtype == x.dtype`` states it, or the first type row shows it.
    """
    fixed = next(s for s in op.outputs if s.name == slot).definition.dtype
    if len(fixed) == 1:
        return fixed[0]
    inputs = [s.name for s in op.inputs]
    said: list[str] = []
    for rule in op.rules:
        sides = [n.args[0].value for n in rule.require.args if n.kind == "attr" and n.value == "dtype"]
        if rule.when is None and rule.require.value == ("==",) and len(sides) == 2 and slot in sides:
            said += [s for s in sides if s in inputs]
    found = tuple(dict.fromkeys([*said, *alike(op, slot)]))
    row = _first_row(op)
    return found or (row.cells[slot][0] if row and len(row.cells[slot]) == 1 else ())


def alike(op: CompiledOp, slot: str) -> list[str]:
    """The inputs with the data types of a slot in the op's first type row; all inputs if there are no rows."""
    row = _first_row(op)
    names = [s.name for s in op.inputs]
    return names if row is None else [name for name in names if row.cells[name] == row.cells[slot]]


def _first_row(op: CompiledOp) -> TypeRow | None:
    return next((rows[0] for rows in op.type_rows.values() if rows), None)


def unaccounted(
    mapping: CompiledMapping | CompiledDecomposition, schema: Schema, shared: bool = False
) -> list[Fault]:
    """Faults for everything ``mapping`` leaves open: unmentioned arguments, slots and parameters without a value.

    ``shared``: its text also serves other targets, whose arguments it may list under ``ignored``.
    """
    if isinstance(mapping, CompiledMapping):
        at: Place = ("torch", mapping.target)
        ignored: Mapping[str, str] = mapping.ignored
        steps: list[tuple[Place, CompiledMapping | CompiledStep]] = [(at, mapping)]
    else:
        at, ignored = (), mapping.definition.ignored
        steps = [(("ops", i), s) for i, s in enumerate(mapping.steps)]
    faults = [fault for place, step in steps for fault in _unfilled(step, place)]
    read = {name for node in _nodes(mapping) for name in free_names(node)}
    known = {a.name for a in schema.arguments}
    for name in known:
        if name not in read and not ignored.get(name, "").strip():
            what = f"the argument '{name}' of {mapping.target} is neither read nor ignored"
            cure = "map it, restrict it in 'when', or give the reason under 'ignored'"
            faults.append(Fault(at, f"{what}; {cure}"))
    for name in ignored:
        if name not in known:
            if shared:
                continue
            listed = ", ".join(a.name for a in schema.arguments)
            what = f"{mapping.target} has no argument '{name}'; known: {listed}"
            faults.append(Fault((*at, "ignored", name), what))
        elif name in read and not shared:
            faults.append(Fault((*at, "ignored", name), f"'{name}' is read, so it is not ignored"))
    return sorted(faults, key=lambda f: (tuple(map(str, f.at)), f.message))


def _unfilled(step: CompiledMapping | CompiledStep, at: Place) -> list[Fault]:
    name = step.op.name
    inputs = [s for s in step.op.inputs if not s.optional and s.name not in step.inputs]
    params = [p for p in step.op.params if p.required and p.name not in step.params]
    missing = [f"the input '{s.name}'" for s in inputs] + [f"the parameter '{p.name}'" for p in params]
    outputs = [s for s in step.op.outputs if not s.optional and s.name not in step.outputs]
    missing += [f"the output '{s.name}'" for s in outputs]
    return [Fault(at, f"{name} needs {what}") for what in missing]
