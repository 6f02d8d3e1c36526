"""Reads libQnnSaver's output: a C program of initializers and calls, and the data that it reads."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: A string, a number, a name (with members), or one of the punctuation marks of an initializer; casts and & are skipped.
TOKEN = re.compile(
    r'\s*(?:\((?:void\*|Qnn\w+)\)|&)*\s*("(?:[^"\\]|\\.)*"|[-+]?\d+\.?\d*(?:e[-+]\d+)?|[\w.]+|[{},=])'
)
ASSIGNED = re.compile(r"(?:const |static )*\w+\*? (\w+)(?:\[\])? = (.+);")
READ = re.compile(r"fread\((\w+), (\d+), (\d+), fp\);")
CALLED = re.compile(r"VALIDATE\(error, interface\.(\w+)\((.*)\)\);")


@dataclass
class RecordedTensor:
    name: str
    id: str  # the C expression: "0", or the id that another tensor was given
    type: int
    dtype: int
    dims: list[int]
    quant: list[Any]  # definition, encoding, {member: values}
    data: bytes | None


@dataclass
class RecordedNode:
    name: str
    package: str
    op: str
    params: dict[str, Any]  # a tensor, or [data type, {member: value}]
    inputs: list[RecordedTensor]
    outputs: list[RecordedTensor]


@dataclass
class RecordedGraph:
    """``tensors`` by the C name of the variable, ``nodes`` in order; ``order`` is the calls of this graph."""

    name: str
    tensors: dict[str, RecordedTensor] = field(default_factory=dict)
    nodes: list[RecordedNode] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    executed: list[tuple[list[RecordedTensor], list[RecordedTensor]]] = field(default_factory=list)


class Program:
    """Interprets the program: each call uses the variables' values at that time."""

    def __init__(self, folder: Path) -> None:
        self.variables: dict[str, Any] = {}
        self.calls: list[tuple[str, list[str]]] = []
        self.graphs: dict[str, RecordedGraph] = {}
        data = (folder / "params.bin").read_bytes()
        at = 0
        source = (folder / "saver_output.c").read_text().split("->QNN_INTERFACE_VER_NAME;")[1]
        for line in map(str.strip, source.splitlines()):
            if read := READ.fullmatch(line):
                size = int(read[2]) * int(read[3])
                self.variables[read[1]] = data[at : at + size]
                at += size
            elif call := CALLED.fullmatch(line):
                self._call(call[1], initializer(f"{{{call[2]}}}"))
            elif assigned := ASSIGNED.fullmatch(line):
                self.variables[assigned[1]] = initializer(assigned[2])
        self.unread = len(data) - at

    def _call(self, function: str, arguments: list[Any]) -> None:
        if function.startswith("log"):
            return
        self.calls.append((function, [str(a) for a in arguments]))
        graph = self.graphs.get(arguments[0])
        if graph is not None:
            graph.order.append(function)
        if function == "graphCreate":
            self.graphs[arguments[3]] = RecordedGraph(arguments[1], order=[function])
        elif function == "tensorCreateGraphTensor" and graph is not None:
            graph.tensors[arguments[1]] = self.tensor(arguments[1])
        elif function == "graphAddNode" and graph is not None:
            graph.nodes.append(self._node(arguments[1]))
        elif function == "graphExecute" and graph is not None:
            graph.executed.append((self._tensors(arguments[1]), self._tensors(arguments[3])))

    def _node(self, variable: str) -> RecordedNode:
        version, member = self.variables[variable]
        assert version == 1
        name, package, op, n_params, params, n_inputs, inputs, n_outputs, outputs = self.variables[
            member["v1"]
        ]
        made = RecordedNode(
            name, package, op, self._params(params), self._tensors(inputs), self._tensors(outputs)
        )
        assert (n_params, n_inputs, n_outputs) == (len(made.params), len(made.inputs), len(made.outputs))
        return made

    def _params(self, variable: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for param in self.variables[variable]:
            kind, name, member = self.variables[param]
            assert kind == ("tensorParam" in member)
            found[name] = (
                self.tensor(member["tensorParam"]) if kind else self.variables[member["scalarParam"]]
            )
        return found

    def _tensors(self, variable: str) -> list[RecordedTensor]:
        return [self.tensor(name) for name in self.variables[variable]]

    def tensor(self, variable: str) -> RecordedTensor:
        version, member = self.variables[variable]
        assert version == 1
        id_, name, type_, format_, dtype, quant, rank, dims, memory, buffer = self.variables[member["v1"]]
        assert (format_, memory) == (0, 0)
        dims = self.variables[dims] if dims else []
        assert len(dims) == rank
        data, size = self.variables[buffer]
        data = self.variables[data] if data else None
        assert size == len(data or b"")
        return RecordedTensor(name, str(id_), type_, dtype, dims, self._flat(self.variables[quant]), data)

    def _flat(self, value: Any) -> Any:
        """Variables in an initializer replaced by their values."""
        if isinstance(value, dict):
            return {key: self._flat(v) for key, v in value.items()}
        if isinstance(value, list):
            return [self._flat(v) for v in value]
        return self._flat(self.variables[value]) if value in self.variables else value


def initializer(text: str) -> Any:
    """A C initializer: braces as lists, `.member = value` as {member: value}, names as text, NULL as None."""
    tokens = TOKEN.findall(text)
    value, rest = _value(tokens)
    assert not rest, text
    return value


def _value(tokens: list[str]) -> tuple[Any, list[str]]:
    first, rest = tokens[0], tokens[1:]
    if first == "{":
        values = []
        while rest[0] != "}":
            value, rest = _value(rest)
            values.append(value)
            if rest[0] == ",":
                rest = rest[1:]
        return values, rest[1:]
    if first.startswith(".") and rest and rest[0] == "=":
        value, rest = _value(rest[1:])
        return {first[1:]: value}, rest
    if first.startswith('"'):
        return first[1:-1], rest
    if re.fullmatch(r"[-+]?\d+", first):
        return int(first), rest
    if re.fullmatch(r"[-+]?[\d.]+(e[-+]\d+)?", first):
        return float(first), rest
    return None if first == "NULL" else first, rest
