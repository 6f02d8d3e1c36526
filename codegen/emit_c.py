"""Typed nodes -> C99: statements plus a result expression over runtime/include/opdb/checked.h.

A ``Block`` is the body of one rule.  Partial operations clear its flag ``ok``; computed lists are stored in
temporaries declared at the top of the block, because C passes around views that point into them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opdb.codegen.names import local
from opdb.core.dtypes import BY_SHORT
from opdb.spec.lang.analyze import free_names
from opdb.spec.lang.functions import FUNCTIONS
from opdb.spec.lang.nodes import (
    BOOL,
    FLOAT,
    INT,
    INTS,
    ROWS,
    TENSOR,
    TENSOR_TYPE,
    TENSORS,
    Loop,
    Name,
    Node,
    is_enum,
)
from opdb.spec.lang.printer import ADD, AND, ATOM, IF, MULTIPLY, NEGATE, OR

Names = Mapping[str, Name]
TYPES = {BOOL: "bool", INT: "int64_t", FLOAT: "double", INTS: "opdb_ints", ROWS: "opdb_rows",
         TENSOR: "const opdb_tensor *", TENSORS: "opdb_tensors", "dtype": "enum opdb_dtype",
         "encoding": "opdb_encoding", TENSOR_TYPE: "enum opdb_tensor_type"}  # fmt: skip
CHECKED = {
    "+": "opdb_add",
    "-": "opdb_sub",
    "*": "opdb_mul",
    "//": "opdb_floordiv",
    "%": "opdb_floormod",
    "/": "opdb_divide",
}
STRENGTH = {"+": ADD, "-": ADD, "*": MULTIPLY, "//": MULTIPLY, "%": MULTIPLY, "/": MULTIPLY}
GUARDED = {FLOAT: "opdb_real_if", BOOL: "opdb_bool_if", INTS: "opdb_ints_if", ROWS: "opdb_rows_if"}
PLAIN = {"//": "/", "%": "%"}


def c_type(type_: str) -> str:
    """The C type of a value of the rule language, ready for a name to follow."""
    text = TYPES.get(type_, "int64_t")
    return text if text.endswith("*") else text + " "


@dataclass
class Block:
    """Lowers expressions into one C block.  ``enums`` maps an enum value to its number."""

    names: Names
    enums: Mapping[str, int]
    lines: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)  # list temporaries to declare at the top
    depth: int = 1
    used: list[int] = field(default_factory=lambda: [0])
    prefix: str = ""  # prefix of temporaries
    lasting: bool = False  # a list may be read after the block has ended

    def put(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def fresh(self, prefix: str) -> str:
        self.used[0] += 1
        return f"{self.prefix}{prefix}{self.used[0]}"

    def child(self, lasting: bool = False) -> Block:
        lasting = lasting or self.lasting
        return Block(self.names, self.enums, [], self.lists, self.depth + 1, self.used, self.prefix, lasting)

    # -- expressions

    def expression(self, node: Node, at_least: int = IF) -> str:
        """The C text of ``node``; statements it needs first go to ``lines``."""
        text, binds = self._text(node)
        return f"({text})" if binds < at_least else text

    def _text(self, node: Node) -> tuple[str, int]:
        kind, args = node.kind, node.args
        method = getattr(self, f"_{kind}", None)
        if method is not None:
            result: tuple[str, int] = method(node)
            return result
        if kind == "index":
            function = {INT: "opdb_at", INTS: "opdb_row", TENSOR: "opdb_nth"}[node.type]
            return f"{function}({self.expression(args[0])}, {self.expression(args[1])}, &ok)", ATOM
        if kind == "slice":
            bounds = [self.expression(a) for a in args[1:]]
            low = bounds.pop(0) if node.value[0] else "0"
            high = bounds[0] if node.value[1] else "0"
            flags = [str(f).lower() for f in node.value]
            return f"opdb_slice({self.expression(args[0])}, {flags[0]}, {low}, {flags[1]}, {high})", ATOM
        if kind == "not":
            return f"!{self.expression(args[0], NEGATE)}", NEGATE
        assert kind == "neg", kind
        if node.checked:
            return f"opdb_neg({self.expression(args[0])}, &ok)", ATOM
        return f"-{self.expression(args[0], ATOM)}", NEGATE

    def _const(self, node: Node) -> tuple[str, int]:
        if node.type == "dtype":
            return BY_SHORT[node.value].enumerator, ATOM
        if node.type == "encoding":
            return f"OPDB_ENCODING_{node.value}", ATOM
        if node.type == TENSOR_TYPE:
            return f"OPDB_TENSOR_{node.value}", ATOM
        if node.type == BOOL:
            return str(node.value).lower(), ATOM
        if is_enum(node.type):
            return f"{self.enums[node.value]} /* {node.value} */", ATOM
        if node.type == FLOAT:
            return repr(node.value), ATOM if node.value >= 0 else NEGATE
        if node.value == -(2**63):
            return "INT64_MIN", ATOM
        text = str(node.value) if abs(node.value) < 2**31 else f"INT64_C({node.value})"
        return text, ATOM if node.value >= 0 else NEGATE

    def _name(self, node: Node) -> tuple[str, int]:
        known, name = self.names.get(node.value), local(node.value)
        if known is None or not (known.absent or known.let):
            return name, ATOM
        if node.type == TENSOR and not known.let:
            return f"opdb_given({name}, &ok)", ATOM
        return f"{GUARDED.get(node.type, 'opdb_int_if')}({name}, {name}_known, &ok)", ATOM

    def _attr(self, node: Node) -> tuple[str, int]:
        base = self.expression(node.args[0], ATOM)
        if node.value == "static":
            return f"{base}->type == OPDB_TENSOR_STATIC", COMPARE_UP
        text = {
            "rank": f"(int64_t){base}->rank",
            "shape": f"opdb_shape({base})",
            "sparse": f"{base}->is_sparse",
            "axis": f"(int64_t){base}->axis",
            "scale": f"opdb_scale({base})",
            "offset": f"opdb_offset({base})",
            "values": f"opdb_values({base}, &ok)",
        }.get(node.value, f"{base}->{node.value}")
        return text, NEGATE if text.startswith("(") else ATOM

    def _arith(self, node: Node) -> tuple[str, int]:
        left, right = node.args
        if node.type == INT and node.value in PLAIN:
            small = (left.range or (-1, 0))[0] >= 0 and (right.range or (0, 0))[0] > 0
            if not small:
                return f"{CHECKED[node.value]}({self.expression(left)}, {self.expression(right)}, &ok)", ATOM
        elif node.checked:
            return f"{CHECKED[node.value]}({self.expression(left)}, {self.expression(right)}, &ok)", ATOM
        own, symbol = STRENGTH[node.value], PLAIN.get(node.value, node.value)
        wide = "(int64_t)" if is_narrow(left) and is_narrow(right) else ""
        return (
            f"{wide}{self.expression(left, NEGATE if wide else own)} {symbol} {self.expression(right, own + 1)}",
            own,
        )

    def _and(self, node: Node) -> tuple[str, int]:
        return self._junction(node, "&&", "")

    def _or(self, node: Node) -> tuple[str, int]:
        return self._junction(node, "||", "!")

    def _junction(self, node: Node, symbol: str, negate: str) -> tuple[str, int]:
        own = AND if symbol == "&&" else OR
        texts = [self.expression(node.args[0], COMPARE_UP)]
        for arg in node.args[1:]:
            inner = self.child()
            texts = self._then(texts, symbol, negate, inner, inner.expression(arg, COMPARE_UP))
        return f" {symbol} ".join(texts), own if len(texts) > 1 else ATOM

    def _then(self, texts: list[str], symbol: str, negate: str, inner: Block, text: str) -> list[str]:
        """Joins ``texts`` and ``text`` by ``symbol``; statements of ``inner`` run only if ``text`` is reached."""
        if not inner.lines:
            return [*texts, text]
        held = self.fresh("held")
        self.put(f"bool {held} = {f' {symbol} '.join(texts)};")
        self.put(f"if ({negate}{held}) {{")
        self.lines += inner.lines
        self.put(f"    {held} = {text};")
        self.put("}")
        return [held]

    def _compare(self, node: Node) -> tuple[str, int]:
        terms = node.args
        if terms[0].type == INTS:
            same = f"opdb_same({self.expression(terms[0])}, {self.expression(terms[1])})"
            return (f"!{same}", NEGATE) if node.value[0] == "!=" else (same, ATOM)
        left, right = (self.expression(t, ADD) for t in terms[:2])
        parts = [f"{left} {node.value[0]} {right}"]
        for op, before, term in zip(node.value[1:], terms[1:], terms[2:], strict=False):
            inner = self.child()
            left = inner.expression(before, ADD)
            parts = self._then(parts, "&&", "", inner, f"{left} {op} {inner.expression(term, ADD)}")
        return " && ".join(parts), AND if len(parts) > 1 else COMPARE_UP

    def _in(self, node: Node) -> tuple[str, int]:
        left = self.expression(node.args[0], ADD)
        op, join, own = ("!=", " && ", AND) if node.value else ("==", " || ", OR)
        choices = [self.expression(a, ADD) for a in node.args[1:]]
        if any("&ok" in c for c in choices):  # all choices are evaluated, as in Python
            cast = "(int)"  # tells the compiler that & and | are intended
            return f" {join[1]} ".join(f"{cast}({left} {op} {c})" for c in choices), IF
        return join.join(f"{left} {op} {c}" for c in choices), own if len(choices) > 1 else COMPARE_UP

    def _if(self, node: Node) -> tuple[str, int]:
        then, test, other = node.args
        condition = self.expression(test, COMPARE_UP)
        left, right = (self.child(lasting=node.type == INTS) for _ in range(2))
        a, b = left.expression(then, COMPARE_UP), right.expression(other, COMPARE_UP)
        if not left.lines and not right.lines:
            return f"{condition} ? {a} : {b}", IF
        chosen = self.fresh("chosen")
        self.put(f"{c_type(node.type)}{chosen};")
        self.put(f"if ({condition}) {{")
        self.lines += [*left.lines, "    " * left.depth + f"{chosen} = {a};"]
        self.put("} else {")
        self.lines += [*right.lines, "    " * right.depth + f"{chosen} = {b};"]
        self.put("}")
        return chosen, ATOM

    def _list(self, node: Node) -> tuple[str, int]:
        assert node.type == INTS, "rows are only parameters"
        if not self.lasting:
            values = ", ".join(self.expression(a) for a in node.args)
            return (
                f"(opdb_ints){{{len(node.args)}, {f'(const int64_t[]){{{values}}}' if values else 'NULL'}}}",
                ATOM,
            )
        name = self.fresh("list")
        self.lists.append(name)
        self.put(f"{name}.n = {len(node.args)};")
        for i, a in enumerate(node.args):
            self.put(f"{name}.v[{i}] = {self.expression(a)};")
        return f"opdb_view(&{name})", ATOM

    def _call(self, node: Node) -> tuple[str, int]:
        name, args = node.value, node.args
        if name == "present":
            absent = local(args[0].value)
            return (f"{absent} != NULL", COMPARE_UP) if args[0].type == TENSOR else (f"{absent}_given", ATOM)
        if name == "len":
            return f"{self.expression(args[0], ATOM)}.n", ATOM
        texts = [self.expression(a) for a in args]
        if name == "range" and len(texts) == 1:
            texts.insert(0, "0")
        if name in ("min", "max") and node.type == FLOAT:
            return f"opdb_real_{name}({', '.join(texts)})", ATOM
        row = FUNCTIONS[name]
        call = f"{row.c}({', '.join([*texts, *(['&ok'] if row.partial else [])])})"
        if row.result != INTS:
            return call, ATOM
        result = self.fresh("list")
        self.lists.append(result)
        self.put(f"{result} = {call};")
        return f"opdb_view(&{result})", ATOM

    # -- comprehensions

    def _comp(self, node: Node) -> tuple[str, int]:
        function, loops = node.value
        result = self.fresh("all" if function == "all" else "result")
        if function == "list":
            self.lists.append(result)
            self.put(f"{result}.n = 0;")
        elif function in ("all", "any"):
            self.put(f"bool {result} = {'true' if function == 'all' else 'false'};")
        else:
            self.put(f"int64_t {result} = 0;")
            if function in ("min", "max"):
                self.put(f"bool some_{result} = false;")
        going = {"all": result, "any": f"!{result}"}.get(function)
        self._loop(function, node.args[0], loops, result, going)
        if function in ("min", "max"):
            self.put(f"if (!some_{result}) ok = false;")
        return (f"opdb_view(&{result})", ATOM) if function == "list" else (result, ATOM)

    def _loop(
        self, function: str, body: Node, loops: tuple[Loop, ...], result: str, going: str | None
    ) -> None:
        loop, rest = loops[0], loops[1:]
        position, source = f"{local(loop.var)}_i", self.fresh("source")
        self.put(f"const {c_type(loop.source.type)}{source} = {self.expression(loop.source)};")
        condition = " && ".join(["ok", *([going] if going else []), f"{position} < {source}.n"])
        self.put(f"for (int64_t {position} = 0; {condition}; ++{position}) {{")
        inner = self.child()
        inner.element(loop, source, (*loop.conditions, *parts(rest), body))
        for c in loop.conditions:
            text = inner.expression(c, NEGATE)
            inner.put(f"if (!{text}) continue;")
        if rest:
            inner._loop(function, body, rest, result, going)
        else:
            inner._accumulate(function, body, result)
        self.lines += inner.lines
        self.put("}")

    def element(self, loop: Loop, source: str, readers: tuple[Node, ...]) -> None:
        """Declares the loop variable, unless nothing reads it, because C warns about unused variables."""
        read = any(loop.var in free_names(n) for n in readers)
        if loop.source.type == TENSORS:
            declared = f"const opdb_tensor *{local(loop.var)} = " if read else ""
            self.put(f"{declared}opdb_nth({source}, {local(loop.var)}_i, &ok);")
        elif read:
            self.put(f"const int64_t {local(loop.var)} = {source}.v[{local(loop.var)}_i];")

    def _accumulate(self, function: str, body: Node, result: str) -> None:
        text = self.expression(body)
        if function in ("all", "any"):
            self.put(f"{result} = {text};")
        elif function == "sum":
            self.put(f"{result} = opdb_add({result}, {text}, &ok);")
        elif function == "list":
            self.put(f"opdb_push(&{result}, {text}, &ok);")
        else:
            self.put(f"{result} = some_{result} ? opdb_{function}({result}, {text}) : {text};")
            self.put(f"some_{result} = true;")


def is_narrow(node: Node) -> bool:
    """True if the C text of an int has C's type int, which must not be used for arithmetic."""
    if node.kind == "if":
        return is_narrow(node.args[0]) and is_narrow(node.args[2])
    return (node.kind == "const" and node.type == INT and abs(node.value) < 2**31) or (
        node.kind == "neg" and is_narrow(node.args[0])
    )


def parts(loops: tuple[Loop, ...]) -> tuple[Node, ...]:
    return tuple(n for loop in loops for n in (loop.source, *loop.conditions))


COMPARE_UP = AND + 2  # operands of && and || : a comparison needs no parentheses, a junction does
