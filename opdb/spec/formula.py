"""A chain of ops as a formula: each line becomes ops, in the order of evaluation.

    share = 1 + tanh(0.8 * self * (1 + 0.04 * self * self))
    0.5 * self * share

Every operator is one op, and so are the functions of FUNCTIONS and QNN's ops by name, with their inputs in
order and their parameters as ``name=value``.  ``a if present(b) else c`` is an input with its fallback.
Numbers, names, and functions of the rule language are operands.  The tensors that a line writes come before `` = ``:
new tensors (``name: like`` gives one another type than the op infers) or results; by default ``result``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from opdb.core.names import counted
from opdb.spec.lang.functions import FUNCTIONS as RULE_FUNCTIONS
from opdb.spec.lang.nodes import TENSOR
from opdb.spec.lang.parse import ExpressionError, tree_of
from opdb.spec.model import OpDef

#: Python's operators -> ops.
OPERATORS: Mapping[type[ast.AST], str] = {
    ast.Add: "ElementWiseAdd", ast.Sub: "ElementWiseSubtract", ast.Mult: "ElementWiseMultiply",
    ast.Div: "ElementWiseDivide", ast.FloorDiv: "ElementWiseFloorDiv", ast.Mod: "ElementWiseMod",
    ast.Pow: "ElementWisePower", ast.USub: "ElementWiseNeg", ast.Not: "ElementWiseNot",
    ast.And: "ElementWiseAnd", ast.Or: "ElementWiseOr", ast.Eq: "ElementWiseEqual",
    ast.NotEq: "ElementWiseNotEqual", ast.Lt: "ElementWiseLess", ast.LtE: "ElementWiseLessEqual",
    ast.Gt: "ElementWiseGreater", ast.GtE: "ElementWiseGreaterEqual", ast.IfExp: "ElementWiseSelect",
}  # fmt: skip
#: Functions -> ops, with the function names of kernels (opdb.spec.lang.element).
FUNCTIONS: Mapping[str, str] = {
    "abs": "ElementWiseAbs", "asin": "ElementWiseAsin", "atan": "ElementWiseAtan", "ceil": "ElementWiseCeil",
    "cos": "ElementWiseCos", "exp": "ElementWiseExp", "floor": "ElementWiseFloor", "fmod": "ElementWiseFmod",
    "log": "ElementWiseLog", "maximum": "ElementWiseMaximum", "minimum": "ElementWiseMinimum",
    "round": "ElementWiseRound", "sign": "ElementWiseSign", "sin": "ElementWiseSin",
    "sqrt": "ElementWiseSquareRoot", "tanh": "Tanh",
    "relu": "Relu", "rsqrt": "ElementWiseRsqrt", "sigmoid": "Sigmoid", "xor": "ElementWiseXor",
}  # fmt: skip


@dataclass
class FormulaStep:
    """One op, with the fields of ``opdb.spec.model.Step``, and its line."""

    op: str
    line: str
    inputs: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)


@dataclass
class Formula:
    steps: list[FormulaStep] = field(default_factory=list)
    likes: dict[str, str] = field(default_factory=dict)  # types of new tensors


def read_formula(text: str, ops: Mapping[str, OpDef]) -> Formula:
    """Parses a formula into ops; ``ops`` provides the order of their slots.  Raises ExpressionError."""
    formula = Formula()
    for line in _lines(text):
        _Line(line, ops, formula).read()
    return formula


def _lines(text: str) -> Iterator[str]:
    """The lines; a line with open brackets continues on the next."""
    held: list[str] = []
    for line in text.splitlines():
        held.append(line.strip())
        whole = " ".join(held)
        if sum(whole.count(c) for c in "([{") <= sum(whole.count(c) for c in ")]}"):
            held = []
            if whole:
                yield whole
    if held:
        raise ExpressionError("a bracket is not closed", " ".join(held))


def _split(text: str, at: str) -> list[str]:
    """Splits ``text`` at the marks ``at`` outside brackets."""
    depth, parts, start = 0, [], 0
    for match in re.finditer(rf"[(\[{{]|[)\]}}]|\"[^\"]*\"|(?P<mark>{at})", text):
        if match[0] in "([{":
            depth += 1
        elif match[0] in ")]}":
            depth -= 1
        elif depth == 0 and match["mark"]:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    return [*parts, text[start:].strip()]


class _Line:
    def __init__(self, line: str, ops: Mapping[str, OpDef], formula: Formula) -> None:
        self.line, self.ops, self.formula = line, ops, formula
        *writes, self.text = _split(line, r"(?<= )=(?= )")
        if len(writes) > 1:
            raise ExpressionError("a line has one ' = '", line)
        self.writes = _split(writes[0], ",") if writes else ["result"]

    def fail(self, message: str, at: ast.expr) -> NoReturn:
        raise ExpressionError(message, self.text, at.col_offset)

    def read(self) -> None:
        tree = tree_of(self.text)
        name = self.op_of(tree)
        if name is None:
            self.fail("a line is an op: an operator, one of its functions, or QNN's name", tree)
        outputs = []
        for written in self.writes:
            target, *like = _split(written, ":")
            if like:
                self.formula.likes[target] = like[0]
            outputs.append(target)
        self.step(name, tree, outputs)

    def op_of(self, tree: ast.expr) -> str | None:
        """The op of a part; None for an operand."""
        match tree:
            case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.Compare(ops=[op]) if type(op) in OPERATORS:
                return OPERATORS[type(op)]
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
                return None
            case ast.UnaryOp(op=op) if type(op) in OPERATORS:
                return OPERATORS[type(op)]
            case ast.IfExp(test=test) if not _asks(test):
                return OPERATORS[ast.IfExp]
            case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
                return FUNCTIONS[name]
            case ast.Call(func=ast.Name(id=name)) if name in self.ops or name[:1].isupper():
                return name
        return None

    def operand(self, tree: ast.expr) -> str:
        """The text of an operand; adds the ops inside it first."""
        name = self.op_of(tree)
        if name is not None:
            return self.step(name, tree, [])
        match tree:
            case ast.Call(func=ast.Name(id=function), args=args) if function in RULE_FUNCTIONS:
                kinds = RULE_FUNCTIONS[function].params
                texts = [
                    self.operand(a) if kinds[i : i + 1] == ((TENSOR,),) else self.source(a)
                    for i, a in enumerate(args)
                ]
                texts += [f"{k.arg}={self.source(k.value)}" for k in tree.keywords]
                return f"{function}({', '.join(texts)})"
        return self.source(tree)

    def source(self, tree: ast.expr) -> str:
        return ast.get_source_segment(self.text, tree) or ast.unparse(tree)

    def step(self, name: str, tree: ast.expr, outputs: list[str]) -> str:
        """Adds an op and returns its first output tensor."""
        op = self.ops.get(name)
        if op is None:
            self.fail(f"no op '{name}' in ops/", tree)
        made = FormulaStep(name, self.line)
        given, keywords = self.parts(tree)
        if len(given) > len(op.inputs):
            self.fail(f"{name} has {counted(len(op.inputs), 'input')}: {', '.join(op.inputs)}", tree)
        for slot, part in zip(op.inputs, given, strict=False):
            self.input(made, slot, part)
        for keyword in keywords:
            word = keyword.arg or "**"
            if word in op.inputs:
                self.input(made, word, keyword.value)
            elif word in op.params:
                made.params[word] = self.source(keyword.value)
            else:
                known = ", ".join([*op.inputs, *op.params])
                self.fail(f"{name} has no input or parameter '{word}'; known: {known}", keyword.value)
        self.formula.steps.append(made)
        if not outputs:
            short = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removeprefix("ElementWise")).lower()
            outputs = [f"{short}_{len(self.formula.steps)}"]
        if len(outputs) > len(op.outputs):
            self.fail(f"{name} has {counted(len(op.outputs), 'output')}: {', '.join(op.outputs)}", tree)
        made.outputs.update(zip(op.outputs, outputs, strict=False))
        return outputs[0]

    def parts(self, tree: ast.expr) -> tuple[list[ast.expr], list[ast.keyword]]:
        """The inputs in order, and the keyword arguments."""
        match tree:
            case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
                return [left, right], []
            case ast.BoolOp(op=op, values=[*first, last]) if first:
                before = first[0] if len(first) == 1 else ast.copy_location(ast.BoolOp(op, first), tree)
                return [before, last], []
            case ast.UnaryOp(operand=operand):
                return [operand], []
            case ast.IfExp(test=test, body=body, orelse=other):
                return [test, body, other], []
            case ast.Call(args=args, keywords=keywords):
                return list(args), keywords
        raise ExpressionError("not in the language of formulas", self.text, tree.col_offset)

    def input(self, step: FormulaStep, slot: str, tree: ast.expr) -> None:
        if isinstance(tree, ast.IfExp) and _asks(tree.test):
            step.inputs[slot] = self.operand(tree.body)
            step.absent[slot] = self.operand(tree.orelse)
        else:
            step.inputs[slot] = self.operand(tree)


def _asks(test: ast.expr) -> bool:
    """True if a condition is ``present(...)``, which tests an argument, not elements."""
    return isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "present"
