"""The view for the template of a C validator: texts of every part of one op's rules, and its kernel call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from opdb.codegen.emit_c import COMPARE_UP, Block, c_type, parts
from opdb.codegen.environment import c_string
from opdb.codegen.names import local
from opdb.codegen.rules import (
    Needs,
    RuleView,
    all_rules,
    need_name,
    needs,
    of_target,
    rank_rule,
    read_on,
    rule_nodes,
    rule_view,
    same_dtype,
    sdk_range,
    snake,
    unchecked,
)
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.runtime.checks import RuleStrength
from opdb.spec.definitions import CompiledErratum, CompiledOp, CompiledRule, Inference, Param, Slot
from opdb.spec.lang.analyze import atoms, free_names
from opdb.spec.lang.nodes import (
    BOOL,
    ENCODING,
    FLOAT,
    INT,
    INTS,
    ROWS,
    TENSOR,
    TENSOR_TYPE,
    TENSORS,
    Name,
    Node,
    is_enum,
)
from opdb.spec.lang.printer import IF, to_text

#: Texts for conditions on the target: the prefix of its fields, a comparison with a backend, "and", "or".
WORDS = ("target->", "target->backend == OPDB_BACKEND_{}", "&&", "||")
#: The functions that read the value of a parameter; opdb_param_int also reads enums.
TAKEN = {FLOAT: "opdb_param_real", BOOL: "opdb_param_bool", INTS: "opdb_param_ints", ROWS: "opdb_param_rows"}
MAX_SLOTS = 64  # OPDB_MAX_SLOTS of runtime/include/opdb/binding.h
GOT = {INT: "int", FLOAT: "real", BOOL: "bool", INTS: "ints", ROWS: "rows"}


@dataclass
class Emitted:
    """One C block: list temporaries, statements, and a result expression."""

    lists: list[str]
    lines: list[str]
    result: str

    @property
    def partial(self) -> bool:
        """True if the flag ``ok`` is used."""
        return any("&ok" in line or "ok &&" in line or "ok = " in line for line in (*self.lines, self.result))


class _Op:
    def __init__(self, op: CompiledOp) -> None:
        self.op = op
        self.names: dict[str, Name] = dict(op.scope.names)
        self.enums = {name: number for name, (_, number) in op.scope.enums.items()}
        self.enum_params = {p.name: p.definition.enum for p in op.params if is_enum(p.type)}
        self.real_lists = {p.name for p in op.params if _of_reals(p)}

    def emit(
        self,
        node: Node,
        names: Mapping[str, Name] | None = None,
        *,
        prefix: str = "",
        lasting: bool = False,
        at_least: int = IF,
    ) -> Emitted:
        """Emits ``node``.  ``lasting``: a list may be read after the block; ``at_least``: minimum binding strength."""
        block = Block(names or self.names, self.enums, prefix=prefix, lasting=lasting)
        result = block.expression(node, at_least)
        return Emitted(block.lists, block.lines, result)

    # -- values in messages

    def got(self, atom: Node, scope: Mapping[str, Name] | None = None) -> tuple[str, str]:
        """The code that appends one value to the violation ``$v``: its condition, and the call."""
        names = scope or self.names
        label = c_string(to_text(atom))
        if atom.kind == "attr":
            slot = local(atom.args[0].value)
            known = names.get(atom.args[0].value)
            guarded = known is not None and known.optional
            return f"if ({slot} != NULL) " if guarded else "", self._got_attribute(atom, label, slot)
        name = local(atom.value)
        if atom.value in self.enum_params:
            listed = f"{atom.value}_values, {atom.value}_names"
            call = f"opdb_got_name($v, {label}, opdb_enum_name({name}, {listed}, {len(self.enum_params[atom.value])}));"
        elif atom.value in self.real_lists:
            call = f"opdb_got_reals($v, {label}, {name});"
        else:
            call = f"opdb_got_{GOT.get(atom.type, 'int')}($v, {label}, {name});"
        known = names.get(atom.value)
        guarded = known is not None and (known.absent or known.let)
        return f"if ({name}_known) " if guarded else "", call

    @staticmethod
    def _got_attribute(atom: Node, label: str, slot: str) -> str:
        value = {
            "rank": f"{slot}->rank",
            "shape": f"opdb_shape({slot})",
            "sparse": f"{slot}->is_sparse",
            "static": f"{slot}->type == OPDB_TENSOR_STATIC",
            "scale": f"opdb_scale({slot})",
            "offset": f"opdb_offset({slot})",
        }.get(atom.value, f"{slot}->{atom.value}")
        if atom.value == "dtype":
            return f"opdb_got_name($v, {label}, opdb_dtype_name({value}));"
        if atom.value == "values":
            return f"opdb_got_values($v, {label}, {slot});"
        if atom.type == TENSOR_TYPE:
            return f"opdb_got_name($v, {label}, opdb_tensor_type_name({value}));"
        if atom.type == ENCODING:
            return f"opdb_got_name($v, {label}, opdb_encoding_name({value}));"
        return f"opdb_got_{GOT[atom.type]}($v, {label}, {value});"

    def witness(self, node: Node) -> Emitted:
        """Emits loops to the first failing iteration that show its values."""
        loops, body = node.value[1], node.args[0]
        scope = dict(self.names)
        block = Block(scope, self.enums)
        block.put("bool found = false;")
        inner = block
        closing: list[Block] = []
        readers = (body, *parts(loops))
        for loop in loops:
            source = inner.fresh("from")
            inner.put(f"const {c_type(loop.source.type)}{source} = {inner.expression(loop.source)};")
            position = f"{local(loop.var)}_i"
            inner.put(f"for (int64_t {position} = 0; !found && {position} < {source}.n; ++{position}) {{")
            closing.append(inner)
            scope[loop.var] = Name(TENSOR if loop.source.type == TENSORS else INT)
            inner = inner.child()
            inner.element(
                loop, source, readers if loop.source.type == TENSORS else (Node("name", INT, value=loop.var),)
            )
            for c in loop.conditions:
                text = inner.expression(c, 8)
                inner.put(f"if (!{text}) continue;")
        inner.put(f"if ({inner.expression(body)}) continue;")
        inner.put("found = true;")
        for loop in loops:
            inner.put(self._got_loop(loop.var, loop.source))
        variables = {loop.var for loop in loops}
        for a in dict.fromkeys(atoms(body)):
            if a.kind != "name" and variables & set(free_names(a)):
                inner.put("".join(self.got(a, scope)).replace("$v", "v"))
        for outer in reversed(closing):
            outer.lines += inner.lines
            outer.put("}")
            inner = outer
        return Emitted(block.lists, block.lines, "")

    @staticmethod
    def _got_loop(var: str, source: Node) -> str:
        text, name = c_string(to_text(source)), local(var)
        if source.type == TENSORS:
            return f'opdb_got_element(v, "{var}", {text}, {name}_i);'
        if source.kind in ("name", "attr"):
            return f'opdb_got_element_of(v, "{var}", {name}, {text}, {name}_i);'
        return f'opdb_got_int(v, "{var}", {name});'

    def rule(self, rule: CompiledRule) -> dict[str, Any]:
        """One call of ``opdb_rank`` or ``opdb_same_dtype``; otherwise the denied condition and the values to show."""
        view = rule_view(self.op, rule)
        rank, alike = rank_rule(self.op, view), same_dtype(self.op, view)
        strength = _strength(self.op, rule.id, rule.strength)
        if rank is not None:
            high = "UINT32_MAX" if rank.high is None else str(rank.high)
            given = [local(rank.slot), c_string(f"{rank.slot}.rank"), str(rank.low), high]
            return {"of": "rank", "given": given, "strength": strength} | self._words(view)
        if alike:
            given = [text for n in alike for text in (local(n), c_string(f"{n}.dtype"))]
            return {"of": "same_dtype", "given": given, "strength": strength} | self._words(view)
        return {"of": "check", "strength": strength} | self._texts(view)

    def _words(self, view: RuleView) -> dict[str, Any]:
        return {"id": f"{self.op.name}.{view.rule.id}", "sentence": view.sentence, "why": view.rule.why or ""}

    def _texts(self, view: RuleView, scoped: bool = False) -> dict[str, Any]:
        """The texts of a rule.  ``scoped``: a condition on the target is tested too."""
        denied = self.emit(view.denied)
        if denied.partial or scoped:  # ``ok`` is tested too
            denied = self.emit(view.denied, at_least=COMPARE_UP)
        witness = self.witness(view.witness) if view.witness is not None else None
        return self._words(view) | {
            "denied": denied,
            "got": [self.got(a) for a in view.atoms],
            "witness": witness,
            "partial": denied.partial or (witness is not None and witness.partial),
        }

    def erratum(self, erratum: CompiledErratum) -> dict[str, Any]:
        record = erratum.definition
        found = self._texts(rule_view(self.op, erratum.rule), erratum.scope is not None) | {
            "id": record.erratum,
            "sentence": record.title,
            "why": record.detail or "",
            "effect": record.effect,
            "scope": None,
        }
        if erratum.scope is not None:
            # Comparisons of numbers need no statements.
            found["scope"] = self.emit(erratum.scope).result
        return found

    # -- from op to named arguments

    def unpack(self, used: Needs, outputs: bool = True) -> list[str]:
        """Declarations of the slots and parameters that are used."""
        bound = {n for b in self.op.binds if b.symbol in used.values for n in free_names(b.value)}
        lines = []
        for group, tensors in ((self.op.inputs, "inputs"), (self.op.outputs if outputs else (), "outputs")):
            for i, slot in enumerate(group):
                if slot.name in used.values | bound:
                    lines.append(_slot_line(slot, i, group, tensors))
        for p in self.op.params:
            if p.name in used.values | used.asked:
                lines += self._param_lines(p, p.name in used.values, p.name in used.asked)
        return lines

    def _param_lines(self, p: Param, read: bool, asked: bool) -> list[str]:
        """Declares the used parts of a parameter: its value and known flag (``read``), its presence (``asked``)."""
        name, kind, found = local(p.name), _param_type(p), f"opdb_find_param(op, {c_string(p.name)})"
        taken = "opdb_param_reals" if _of_reals(p) else TAKEN.get(p.type, "opdb_param_int")
        sure = p.default is not None and self.names[p.name].sure
        of_list = p.type in (INTS, ROWS)
        zero = "" if of_list else ", false" if p.type == BOOL else ", 0"
        unknown = not p.required and not sure and read
        lines: list[str] = []
        if asked or unknown or (sure and of_list and read):
            lines.append(f"const opdb_param *const {name}_param = {found};")
            found = f"{name}_param"
        if asked:
            lines.append(f"const bool {name}_given = {found} != NULL;")
        if not read:
            return lines
        if sure:
            assert p.default is not None
            if of_list:
                return lines + self._default_list(p, kind, found, f"{taken}({found})")
            return [*lines, f"const {kind}{name} = {taken}({found}, {self.emit(p.default).result});"]
        value = f"{taken}({found}{zero})"
        if not unknown:
            return [*lines, f"const {kind}{name} = {value};"]
        const = "" if p.default is not None else "const "
        lines.append(f"{const}bool {name}_known = {found} != NULL;")
        if p.default is None and not of_list:  # nothing else may read the flag
            value = f"{name}_known ? {value} : {zero.removeprefix(', ')}"
        elif p.default is None:
            value = f"{taken}({name}_known ? {found} : NULL)"
        return [*lines, f"{const}{kind}{name} = {value};"]

    def _default_list(self, p: Param, kind: str, source: str, value: str) -> list[str]:
        """A literal default of numbers: a static array."""
        assert p.default is not None
        name = local(p.name)
        values = [a.value for a in p.default.args]
        size = f"{len(values)}"
        if p.type == ROWS:
            values = [a.value for row in p.default.args for a in row.args]
            size += f", {len(p.default.args[0].args) if p.default.args else 0}"
        literal = f"({kind.strip()}){{{size}, {name}_default}}"
        element = "double" if _of_reals(p) else "int64_t"
        return [
            f"static const {element} {name}_default[] = {{{', '.join(map(str, values)) or '0'}}};",
            f"const {kind}{name} = {source} != NULL ? {value} : {literal};",
        ]

    def prepare(self, needed: Needs) -> list[dict[str, Any]]:
        """Bindings, computed defaults, and named expressions, in order."""
        used = needed.values
        out: list[dict[str, Any]] = []
        for b in self.op.binds:
            if b.symbol in used and not b.sure:
                out.append(self._let(b.symbol, b.value))
            elif b.symbol in used:
                kind = c_type(self.names[b.symbol].type)
                out.append({"kind": "bind", "line": f"const {kind}{local(b.symbol)} = {_reading(b.value)};"})
        for p in self.op.params:
            if p.name in used and p.default is not None and not self.names[p.name].sure:
                default = self.emit(p.default, prefix=f"{p.name}_", lasting=True)
                out.append({"kind": "default", "name": local(p.name), "value": default})
        for name, node in self.op.lets:
            if name in used:
                out.append(self._let(name, node))
        return out

    def _let(self, name: str, node: Node) -> dict[str, Any]:
        """The code that computes a named value and clears its ``_known`` flag if it is undecidable."""
        made, known = self.emit(node, prefix=f"{name}_", lasting=True), f"{local(name)}_known"
        lines = [re.sub(r"\bok\b", known, text) for text in (*made.lines, made.result)]
        return {"kind": "let", "name": local(name), "type": c_type(node.type),
                "partial": made.partial, "value": Emitted(made.lists, lines[:-1], lines[-1])}  # fmt: skip


def _strength(op: CompiledOp, ident: str, strength: RuleStrength) -> str:
    """The C expression of a rule's strength; a rule that the target does not check becomes ``expect``."""
    unless = unchecked(op, ident, *WORDS) if strength == "require" else ""
    plain = f"OPDB_{strength.upper()}"
    return f"{unless} ? OPDB_EXPECT : {plain}" if unless else plain


def _of_reals(p: Param) -> bool:
    """True for a list of real numbers, of which rules may only read the length."""
    return p.type == INTS and p.definition.base.startswith(("f", "bf"))


def _param_type(p: Param) -> str:
    return "opdb_reals " if _of_reals(p) else c_type(p.type)


def _slot_line(slot: Slot, i: int, group: tuple[Slot, ...], tensors: str) -> str:
    before = [s for s in group[:i] if s.variadic]
    name, count = local(slot.name), f"op->{tensors}, op->num_{tensors}"
    if slot.variadic:
        return f"const opdb_tensors {name} = opdb_slot_tensors({count}, {i}, {len(group) - i - 1});"
    position = str(i) if not before else f"op->num_{tensors} - {len(group) - i}"
    return f"const opdb_tensor *const {name} = opdb_slot_tensor({count}, {position});"


def _reading(node: Node) -> str:
    if node.kind == "index":
        at, tensor = node.args[1].value, local(node.args[0].args[0].value)
        return f"{tensor}->dims[{at}]" if at >= 0 else f"{tensor}->dims[{tensor}->rank - {-at}]"
    if node.kind == "slice":
        return f"opdb_slice(opdb_shape({local(node.args[0].args[0].value)}), false, 0, true, {node.args[1].value})"
    return f"opdb_shape({local(node.args[0].value)})"


def kernel_declaration(op: CompiledOp) -> str:
    """The declaration of the op's kernel; it is defined in runtime/src/kernels, or generated."""
    assert op.definition.kernel is not None
    return f"opdb_status {op.definition.kernel.function}({', '.join(kernel_parameters(op))});"


def kernel_parameters(op: CompiledOp) -> list[str]:
    """The parameter declarations of the kernel's C function."""

    def tensor(s: Slot) -> str:
        return f"opdb_tensors {local(s.name)}" if s.variadic else f"const opdb_tensor *{local(s.name)}"

    assert op.definition.kernel is not None
    known = {s.name: tensor(s) for s in op.slots}
    known |= {p.name: f"{_param_type(p)}{local(p.name)}" for p in op.params}
    known |= {name: f"{c_type(node.type)}{local(name)}" for name, node in op.lets}
    return [known[name] for name in kernel_arguments(op)] + ["void *scratch"] * (op.scratch is not None)


def kernel_enums(op: CompiledOp) -> list[tuple[str, Mapping[str, int]]]:
    """The enum values for a handwritten kernel: (prefix, names); empty for a generated one."""
    kernel = op.definition.kernel
    if kernel is None or kernel.each is not None:
        return []
    prefix = f"OPDB_{snake(op.name).upper()}"
    return [(prefix, p.definition.enum) for p in op.params if p.definition.enum]


def kernel_arguments(op: CompiledOp) -> list[str]:
    """The names of the kernel's arguments, without scratch."""
    assert op.definition.kernel is not None
    return op.definition.kernel.arguments or [
        *(s.name for s in op.inputs), *(p.name for p in op.params), *(s.name for s in op.outputs)
    ]  # fmt: skip


def view(op: CompiledOp) -> dict[str, Any]:
    """The view of ``validator.c.j2``."""
    if len(op.slots) > MAX_SLOTS:
        raise OpdbError(
            f"{op.name} has {len(op.slots)} inputs and outputs; generated C takes at most {MAX_SLOTS}"
        )
    texts = _Op(op)
    for node in rule_nodes(all_rules(op)):
        for free in free_names(node):
            texts.names.setdefault(free, Name(INT))
    for name in op.definition.backends:
        for node in read_on(op, name):
            for free in free_names(node):
                texts.names.setdefault(free, Name(INT))
    used = needs(op, rule_nodes([*op.ranks, *all_rules(op)]))
    shape_nodes = [n for i in op.inferences for n in (i.shape, *([i.count] if i.count is not None else []))]
    used_by_infer = needs(op, [*shape_nodes, *rule_nodes(op.ranks)])
    rules = [texts.rule(r) for r in op.rules]
    backends = [_backend(op, name, texts) for name in op.definition.backends]
    return {
        "op": op.name,
        "snake": snake(op.name),
        "summary": op.definition.summary or "",
        "enums": [
            (
                p.name,
                p.definition.enum,
                _shows(p.name, [*rules, *(r for b in backends for r in (*b["rules"], *b["errata"]))]),
            )
            for p in op.params
            if p.definition.enum
        ],
        "inputs": op.inputs,
        "outputs": op.outputs,
        "params": [_param_slot(p) for p in op.params],
        "ranks": [texts.rule(r) for r in op.ranks],
        "unpack": texts.unpack(used),
        "steps": texts.prepare(used),
        "unknown_strength": _strength(op, "UNKNOWN_PARAMS", "require"),
        "rules": rules,
        "backends": backends,
        "infer": {
            "unpack": texts.unpack(used_by_infer, outputs=False),
            "prepare": texts.prepare(used_by_infer),
            "outputs": [_inference(i, texts) for i in op.inferences],
            "settled": len(op.inferences) == len(op.outputs),
        },
        "kernel": _kernel(op, texts),
    }


def _shows(enum: str, rules: list[dict[str, Any]]) -> bool:
    """True if a message shows the name of a value of ``enum``."""
    shown = [r for r in rules if "got" in r]
    calls = [call for r in shown for _, call in r["got"]]
    lines = [line for r in shown if r["witness"] is not None for line in r["witness"].lines]
    return any(f"{enum}_names" in line for line in (*calls, *lines))


def _param_slot(p: Param) -> dict[str, Any]:
    dims = [-1 if d is None else d for d in p.definition.dims] + [0, 0]
    return {"name": p.name, "dtype": BY_SHORT[p.definition.base].enumerator, "rank": len(p.definition.dims),
            "dims": dims[:2], "required": p.required, "values": list(p.definition.enum.values())}  # fmt: skip


def _backend(op: CompiledOp, name: str, texts: _Op) -> dict[str, Any]:
    table = []
    for row in op.type_rows[name]:
        cells = [_types(cell) for cell in row.cells.values()]
        table.append((row.id, cells, sdk_range(row), need_name(name, row.needs) if row.needs else "0"))
    return {
        "name": name,
        "rules": [texts.rule(r) for r in op.backend_rules[name]],
        "errata": [texts.erratum(e) for e in op.errata.get(name, ())],
        "context": of_target(op, read_on(op, name)),
        "rows": table,
        "needs": any(row.needs for row in op.type_rows[name]),
    }


def _types(cell: Iterable[str]) -> str:
    """A set of data types, e.g. T_UQ8 | T_SQ8."""
    return " | ".join(map(_type, cell)) or "0"


def _type(short: str) -> str:
    return BY_SHORT[short].enumerator.replace("OPDB_", "T_")


def _inference(inference: Inference, texts: _Op) -> dict[str, Any]:
    names = dict(texts.names)
    if inference.index:
        names[inference.index] = Name(INT)
    count = texts.emit(inference.count) if inference.count is not None else None
    return {
        "output": inference.output,
        "shape": texts.emit(inference.shape, names),
        "count": count,
        "index": local(inference.index) if inference.index else None,
    }


def _kernel(op: CompiledOp, texts: _Op) -> dict[str, Any] | None:
    kernel = op.definition.kernel
    if kernel is None:
        return None
    arguments = kernel_arguments(op)
    used = needs(op, [], also=arguments)
    lets = {name for name, _ in op.lets}
    scratch = None
    if op.scratch is not None:
        measured = needs(op, [op.scratch])
        scratch = {"unpack": texts.unpack(measured), "prepare": texts.prepare(measured),
                   "bytes": texts.emit(op.scratch)}  # fmt: skip
    return {
        "function": kernel.function,
        "dtypes": [_type(d) for d in kernel.dtypes],
        "unpack": texts.unpack(used),
        "prepare": texts.prepare(used),
        "surely": [f"{local(a)}_known" for a in arguments if a in lets],
        "arguments": [local(a) for a in arguments] + ["op->scratch"] * (scratch is not None),
        "in_floats": kernel.computes is not None,
        "scratch": scratch,
    }
