"""The C++ of an ExecuTorch kernel: converts an out variant's arguments to the QNN op of a torch mapping.

Forms come from the ``torch`` sections of specs: mappings to one QNN op on the target's own tensors, without a change of
layout and without data made at compile time.  ``kernel`` raises NoForm with what else each mapping of the target needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from opdb.codegen.emit_c import Block
from opdb.codegen.emit_english import sentence
from opdb.codegen.environment import c_string
from opdb.codegen.names import local
from opdb.core.dtypes import BY_SHORT
from opdb.core.names import counted
from opdb.spec.definitions import CompiledOp, Param
from opdb.spec.lang.analyze import free_names
from opdb.spec.lang.functions import FUNCTIONS
from opdb.spec.lang.nodes import BOOL, ENCODING, FLOATS, INTS, ROWS, STR, TENSOR, TENSORS, Name, Node, walk
from opdb.spec.lang.printer import ATOM
from opdb.spec.mapping import CompiledMapping, guarded, may_be_none, plain_type, results_read

#: Functions of torch mappings -> their C++.
TORCH_FUNCTIONS = {
    "is_float": "opdb::is_float", "is_real": "opdb::is_float", "is_whole": "opdb::is_whole",
    "power": "opdb::power", "root": "opdb::root", "to_float": "static_cast<double>",
}  # fmt: skip
MAKERS = {"full": None, "ones": "1.0", "zeros": "0.0"}
#: Types of schema arguments (without "?") -> C++ type of the argument, C++ type of its local value, the conversion.
SIMPLE = {
    "int": ("int64_t", "int64_t", "{0}"), "SymInt": ("int64_t", "int64_t", "{0}"),
    "float": ("double", "double", "{0}"), "bool": ("bool", "bool", "{0}"),
    "str": ("std::string_view", "std::string_view", "{0}"),
    "int[]": ("ArrayRef<int64_t>", "opdb_ints", "opdb::ints({0})"),
    "SymInt[]": ("ArrayRef<int64_t>", "opdb_ints", "opdb::ints({0})"),
    "Scalar": ("const Scalar &", "double", "opdb::number({0})"),
    "ScalarType": ("ScalarType", "enum opdb_dtype", "opdb::dtype_of({0})"),
}  # fmt: skip
#: Arguments that no form reads: only their C++ types.
UNREAD = {"MemoryFormat": "executorch::aten::MemoryFormat", "Layout": "executorch::aten::Layout",
          "Device": "executorch::aten::Device", "float[]": "ArrayRef<double>", "bool[]": "ArrayRef<bool>"}  # fmt: skip
ZERO = {"opdb_ints": "opdb_ints{0, nullptr}", "enum opdb_dtype": "OPDB_NO_DTYPE"}


class NoForm(Exception):
    """The reason why a mapping cannot be a kernel of ExecuTorch."""


@dataclass(frozen=True)
class OutVariant:
    """An operator by its name in a .pte."""

    name: str  # e.g. aten::gelu.out
    schema: str  # e.g. aten::gelu.out(Tensor self, *, str approximate='none', Tensor(a!) out) -> Tensor(a!)
    target: str  # the functional variant; e.g. aten.gelu.default
    arguments: tuple[tuple[str, str], ...]  # name, type; without the outs
    outs: tuple[str, ...]

    @property
    def function(self) -> str:
        """The name of the function, e.g. gelu_out; with the library's name unless it is ATen: qnn_gelu_out."""
        library, _, rest = self.name.partition("::")
        return ("" if library == "aten" else f"{library}_") + rest.lower().replace(".", "_")

    @property
    def returns(self) -> str:
        return (
            "Tensor &" if len(self.outs) == 1 else f"std::tuple<{', '.join('Tensor &' for _ in self.outs)}> "
        )

    def parameters(self) -> list[str]:
        """The C++ parameters, starting with the context."""
        own = [f"{cpp_type(t)}{' ' * (not cpp_type(t).endswith('&'))}et_{n}" for n, t in self.arguments]
        return ["KernelRuntimeContext &context", *own, *(f"Tensor &et_{n}" for n in self.outs)]


@dataclass(frozen=True)
class KernelForm:
    """One QNN op with its condition, as C++ statements."""

    op: str
    guard: str | None  # expression
    why: str
    lists: tuple[str, ...]
    before: tuple[str, ...]  # statements of the guard
    steps: tuple[str, ...]  # statements that set inputs and parameters
    outs: tuple[str, ...]
    reads: frozenset[str]  # arguments, and "result"

    @property
    def partial(self) -> bool:
        return any("&ok" in line or "ok = " in line for line in (*self.before, self.guard or "", *self.steps))


def cpp_type(type_: str) -> str:
    """The C++ type that ExecuTorch's generator uses for an argument.  Raises NoForm."""
    bare, optional = plain_type(type_)
    if bare == "Tensor":
        return "const std::optional<Tensor> &" if optional else "const Tensor &"
    if bare == "Tensor[]":
        return "ArrayRef<Tensor>"
    known = SIMPLE[bare][0] if bare in SIMPLE else UNREAD.get(bare)
    if known is None:
        raise NoForm(f"arguments of type {type_}")
    if not optional:
        return known
    return f"std::optional<{known.removeprefix('const ').removesuffix(' &')}>"


def declaration(name: str, type_: str) -> list[str]:
    """Statements that define an argument's local value under its name in mappings."""
    bare, optional = plain_type(type_)
    own, given, et = local(name), f"et_{name}", c_string(name)
    if bare == "Tensor":
        return [f"const opdb::View {own}_shown(call, {et}, {given});",
                f"const opdb_tensor *const {own} = {own}_shown;"]  # fmt: skip
    if bare == "Tensor[]":
        return [
            f"const opdb::Views {own}_shown(call, {et}, {given});",
            f"const opdb_tensors {own} = {own}_shown;",
        ]
    _, kind, made = SIMPLE[bare]
    if not optional:
        return [f"const {kind} {own} = {made.format(given)};"]
    value = made.format(f"*{given}")
    return [f"const bool {own}_given = {given}.has_value(), {own}_known = {own}_given;",
            f"const {kind} {own} = {own}_given ? {value} : {ZERO.get(kind, f'{kind}()')};",
            f"(void){own}_known;"]  # fmt: skip


class _Cpp(Block):
    """C++ of expressions in torch mappings; ``like``: the C++ expression for the type of created tensors."""

    like: str = "result->dtype"

    def child(self, lasting: bool = True) -> _Cpp:
        made = _Cpp(
            self.names, self.enums, [], self.lists, self.depth + 1, self.used, self.prefix, lasting=True
        )
        made.like = self.like
        return made

    def _const(self, node: Node) -> tuple[str, int]:
        return (c_string(node.value), ATOM) if node.type == STR else super()._const(node)

    def _name(self, node: Node) -> tuple[str, int]:
        if node.value == "results":
            raise NoForm("all results as a list")
        if node.value == "result":
            return "result", ATOM
        own = local(node.value)
        if node.type == STR and self.names[node.value].absent:
            return f"opdb::text_if({own}, {own}_known, &ok)", ATOM
        return super()._name(node)

    def _index(self, node: Node) -> tuple[str, int]:
        if node.args[0].value == "results":
            raise NoForm("an attribute of a second result")
        function = {"int": "opdb_at", INTS: "opdb_row", TENSOR: "opdb_nth"}[node.type]
        return f"{function}({self.expression(node.args[0])}, {self.expression(node.args[1])}, &ok)", ATOM

    def _attr(self, node: Node) -> tuple[str, int]:
        if node.value == "shape" and "result" in free_names(node):
            raise NoForm("the shape of the result")
        return super()._attr(node)

    def _call(self, node: Node) -> tuple[str, int]:
        name = node.value
        if name in MAKERS:
            return self._made(node), ATOM
        if name in TORCH_FUNCTIONS:
            return f"{TORCH_FUNCTIONS[name]}({', '.join(map(self.expression, node.args))})", ATOM
        if name not in ("present", "len") and not FUNCTIONS[name].c:
            raise NoForm(f"{name}()")
        return super()._call(node)

    def _made(self, node: Node) -> str:
        args, value = list(node.args), MAKERS[node.value]
        if value is None:
            value = f"static_cast<double>({self.expression(args.pop(1))})"
        if len(args) > 1:
            like = self.expression(args[1], ATOM)
            dtype = like if args[1].type != TENSOR else f"{like}->dtype"
        else:
            dtype = self.like
        return f"call.full({self.expression(args[0])}, {value}, {dtype})"


def mapped(mapping: CompiledMapping, variant: OutVariant) -> KernelForm:
    """The form of a torch mapping.  Raises NoForm."""
    if len(mapping.op.inferences) < len(mapping.op.outputs):
        raise NoForm("shapes of results that its inputs do not settle")
    enums = {name: number for name, (_, number) in mapping.op.scope.enums.items()}
    block = _Cpp(mapping.scope.names, enums, depth=2, lasting=True)  # C++ has no compound literals
    block.like = _like(mapping)
    when = None if mapping.when is None else _unquantized(mapping.when)
    if when is not None and when.kind == "const":
        if not when.value:
            raise NoForm("a quantized tensor")
        when = None
    guard = None if when is None else block.expression(when)
    before, block.lines = tuple(block.lines), []
    _inputs(mapping, block)
    _params(mapping, block)
    nodes = [*mapping.inputs.values(), *mapping.absent.values(), *mapping.params.values()]
    nodes += [] if when is None else [when]
    reads = {name for node in nodes for name in free_names(node)}
    reads |= {"result"} if "result->" in " ".join((*before, guard or "", *block.lines)) else set()
    why = mapping.why or ("" if mapping.when is None else sentence(mapping.when))
    known = {n for n, _ in variant.arguments} | {"result"}
    return KernelForm(mapping.op.name, guard, why, tuple(block.lists), before, tuple(block.lines),
                      _outs(mapping, variant), frozenset(reads & known))  # fmt: skip


def _unquantized(node: Node) -> Node:
    """Simplifies a condition for ExecuTorch's runtime, where no tensor has an encoding."""
    if node.kind in ("and", "or"):
        parts = [_unquantized(a) for a in node.args]
        if any(p.kind == "const" and p.value == (node.kind == "or") for p in parts):
            return Node("const", BOOL, value=node.kind == "or")
        left = tuple(p for p in parts if p.kind != "const")
        if len(left) > 1:
            return replace(node, args=left)
        return left[0] if left else Node("const", BOOL, value=node.kind == "and")
    if node.kind == "not":
        inner = _unquantized(node.args[0])
        return (
            Node("const", BOOL, value=not inner.value)
            if inner.kind == "const"
            else replace(node, args=(inner,))
        )
    if node.kind == "compare" and len(node.args) == 2 and node.args[0].type == ENCODING:
        left_, right = ("NONE" if a.kind == "attr" else a.value for a in node.args)
        return Node("const", BOOL, value=(left_ == right) == (node.value[0] == "=="))
    return node


def _like(mapping: CompiledMapping) -> str:
    for node in mapping.inputs.values():
        for name in free_names(node):
            if mapping.scope.names[name].type == TENSOR and name not in ("result", "results"):
                return f"{local(name)}->dtype"
    return "result->dtype"


def _missing(names: Iterable[str], scope: Mapping[str, Name]) -> str:
    return " && ".join(
        f"{local(n)} != nullptr" if scope[n].type == TENSOR else f"{local(n)}_given" for n in names
    )


def _inputs(mapping: CompiledMapping, block: _Cpp) -> None:
    scope, given = mapping.scope, guarded(mapping.when)
    for slot in mapping.op.inputs:
        node = mapping.inputs.get(slot.name)
        if node is None:
            block.put("call.input(nullptr);")
            continue
        missing = may_be_none(node, scope, given)
        if node.type == TENSORS:
            block.put(f"call.inputs({block.expression(node)});")
        elif slot.name in mapping.absent and missing:
            inner, other = block.child(), block.child()
            block.put(f"if ({_missing(missing, scope.names)}) {{")
            inner.put(f"call.input({inner.expression(node)});")
            other.put(f"call.input({other.expression(mapping.absent[slot.name])});")
            block.lines += inner.lines
            block.put("} else {")
            block.lines += other.lines
            block.put("}")
        elif node.kind == "name" and missing:
            block.put(f"call.input({local(node.value)});")
        else:
            block.put(f"call.input({block.expression(node)});")


def _params(mapping: CompiledMapping, block: _Cpp) -> None:
    known = {p.name: p for p in mapping.op.params}
    for name, node in mapping.params.items():
        missing = may_be_none(node, mapping.scope, guarded(mapping.when))
        if node.type in (ROWS, FLOATS):
            raise NoForm(f"the parameter {name}, a table")
        if missing:
            inner = block.child()
            block.put(f"if ({_missing(missing, mapping.scope.names)}) {{")
            inner.put(_param(known[name], inner.expression(node)))
            block.lines += inner.lines
            block.put("}")
        else:
            block.put(_param(known[name], block.expression(node)))


def _param(param: Param, text: str) -> str:
    base, listed = param.definition.base, bool(param.definition.dims)
    if base == "str" or (listed and len(param.definition.dims or ()) > 1):
        raise NoForm(f"the parameter {param.name}, {'a text' if base == 'str' else 'a table'}")
    real = base in ("f16", "f32", "f64")
    if listed and real:
        raise NoForm(f"the parameter {param.name}, a list of real numbers")
    value = text if listed else f"static_cast<{'double' if real else 'int64_t'}>({text})"
    return f"call.param({c_string(param.name)}, {BY_SHORT[base].enumerator}, {value});"


def _outs(mapping: CompiledMapping, variant: OutVariant) -> tuple[str, ...]:
    found = []
    for node in mapping.outputs.values():
        plain = (node.kind == "name" and node.value == "result") or node.kind == "index"
        numbers = results_read([node])
        if not plain or node.type != TENSOR or numbers is None or len(numbers) != 1:
            called = next((n.value for n in walk(node) if n.kind == "call"), None)
            raise NoForm(f"{called}() of a result" if called else "a list of results")
        found += [variant.outs[n] for n in numbers if n < len(variant.outs)]
    if sorted(found) != sorted(variant.outs):
        raise NoForm(f"{counted(len(variant.outs), 'result')}, of which the op makes {len(found)}")
    return tuple(found)


def direct(op: CompiledOp, variant: OutVariant) -> KernelForm:
    """A QNN op as an operator of its own (torch.ops.qnn.<op>).  Raises NoForm."""
    known = dict(variant.arguments)
    if any(name.endswith("_shape") and name[:-6] in {s.name for s in op.outputs} for name in known):
        raise NoForm("shapes of results that its inputs do not settle")
    if any(s.variadic or s.optional for s in op.outputs):
        raise NoForm("results whose number is open")
    if any(s.definition.shape == [] for s in op.inputs):
        raise NoForm("inputs without a dimension")
    steps = []
    for slot in op.inputs:
        steps.append(f"call.input{'s' * slot.variadic}({local(slot.name)});")
    for p in op.params:
        own = local(p.name)
        put = _enum(p, own) if p.definition.enum else [_param(p, own)]
        optional = plain_type(known[p.name])[1]
        steps += [f"if ({own}_given) {{", *(f"    {line}" for line in put), "}"] if optional else put
    reads = frozenset(n for n in known if n != "dtype")
    lines = tuple(f"        {line}" for line in steps)
    return KernelForm(op.name, None, "", (), (), lines, variant.outs, reads)


def _enum(param: Param, own: str) -> list[str]:
    chosen = " : ".join(f"{own} == {c_string(n)} ? {v}" for n, v in param.definition.enum.items())
    # INT32_MAX, for a name that the enum lacks, is a value that the op's rules refuse with a list of the allowed ones.
    return [f"call.param({c_string(param.name)}, OPDB_U32, static_cast<int64_t>({chosen} : INT32_MAX));"]


def forms(
    variant: OutVariant, mappings: Sequence[CompiledMapping], own: CompiledOp | None = None
) -> tuple[KernelForm, ...]:
    """The forms of ``variant`` as one QNN op, in the order to try: ops that a required enum parameter selects come last,
    one form for each condition.  Raises NoForm with what each of them needs.
    """
    for _, type_ in variant.arguments:
        cpp_type(type_)
    if own is not None:
        try:
            return (direct(own, variant),)
        except NoForm as error:
            raise NoForm(f"{own.name} needs {error}") from None
    found: dict[str | None, KernelForm] = {}
    needs = []
    for mapping in sorted(mappings, key=lambda m: any(p.definition.enum and p.required for p in m.op.params)):
        try:
            if mapping.op.definition.kernel is None:
                raise NoForm("a kernel")
            form = mapped(mapping, variant)
        except NoForm as error:
            needs.append(f"{mapping.op.name} needs {error}")
            continue
        if None not in found:
            found.setdefault(form.guard, form)
    if not found:
        raise NoForm("; ".join(needs) or "no QNN op of its own")
    return tuple(found.values())
