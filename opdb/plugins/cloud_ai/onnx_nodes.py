"""Summarizes the nodes of foreign domains in an ONNX file, op by op, for Cloud AI's packages.

Attributes become parameters in the mapping of Cloud AI's first generation of custom ops (pytorch/glow PR 5208): a float, an
int, a list of either, or a one-dimensional tensor.  An op that the file defines as a function of others is still a custom
op.  ``opdb.author.importers.onnx_nodes`` drafts ops of QNN packages from the same files, and omits what QNN cannot express.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opdb.author.importers.onnx_model import OWN, load, nodes, onnx
from opdb.author.importers.opxml.collection import Collection, OpXml, Tensor
from opdb.core.errors import OpdbError

TYPES = {1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 9: "bool8", 10: "f16", 11: "f64",
         12: "u32", 13: "u64", 16: "bf16"}  # fmt: skip
#: Kind of attribute -> data type; True for a list.
ATTRIBUTES = {"FLOAT": ("f32", False), "INT": ("i32", False), "FLOATS": ("f32", True), "INTS": ("i32", True)}


@dataclass
class Port:
    """An input or output across all nodes of an op: its known types, and its shape in each node that has it."""

    dtypes: list[str] = field(default_factory=list)
    shapes: list[tuple[int | str, ...] | None] = field(default_factory=list)

    @property
    def rank(self) -> int | None:
        """The common rank; None if it is unknown or differs."""
        ranks = {None if s is None else len(s) for s in self.shapes}
        return ranks.pop() if len(ranks) == 1 else None


@dataclass
class Attribute:
    base: str
    listed: bool
    counts: set[int] = field(default_factory=set)  # lengths of a list
    nodes: int = 0


@dataclass
class Foreign:
    """An op of a foreign domain.  ``first``: the name of its first node."""

    domain: str
    name: str
    first: str
    nodes: int = 0
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    attributes: dict[str, Attribute] = field(default_factory=dict)

    def always(self, port: Port) -> bool:
        return len(port.shapes) == self.nodes


def read(path: Path, domain: str | None = None) -> list[Foreign]:
    """The ops of ``domain``, or of all domains except ONNX's own.

    Raises MissingExtra, and OpdbError: the file is not an ONNX model, has no such nodes, or an attribute cannot be a parameter.
    """
    model = load(path)
    found: dict[tuple[str, str], Foreign] = {}
    others: set[str] = set()
    for node, known in nodes(model.graph):
        others.add(node.domain)
        if node.domain in OWN or (domain is not None and node.domain != domain):
            continue
        name = node.name or f"the {node.op_type} that makes {node.output[0] if node.output else 'nothing'}"
        if not re.fullmatch(r"[A-Za-z]\w*", node.op_type):
            raise OpdbError(
                f"{path}: {name}: the op {node.op_type!r} is not a valid C name; rename it in the model"
            )
        op = found.setdefault((node.domain, node.op_type), Foreign(node.domain, node.op_type, name))
        _add(path, name, op, node, known)
    if not found:
        there = ", ".join(sorted(d or "ai.onnx" for d in others))
        what = "a foreign domain" if domain is None else f"the domain {domain}"
        raise OpdbError(f"{path}: no node of {what}; its nodes are of {there or 'none'}")
    return list(found.values())


def _add(path: Path, name: str, op: Foreign, node: Any, known: Mapping[str, Any]) -> None:
    op.nodes += 1
    for names, ports in ((node.input, op.inputs), (node.output, op.outputs)):
        for i, tensor in enumerate(names):
            while len(ports) <= i:
                ports.append(Port())
            if tensor:
                dtype, shape = _type(known.get(tensor))
                ports[i].shapes.append(shape)
                if dtype is not None and dtype not in ports[i].dtypes:
                    ports[i].dtypes.append(dtype)
    for attribute in node.attribute:
        base, listed, count = _attribute(path, name, attribute)
        seen = op.attributes.setdefault(attribute.name, Attribute(base, listed))
        if (seen.base, seen.listed) != (base, listed):
            raise OpdbError(
                f"{path}: {name}: the attribute {attribute.name} has another type here than in other nodes; give it one type"
            )
        seen.nodes += 1
        seen.counts.add(count)


def _type(of: Any) -> tuple[str | None, tuple[int | str, ...] | None]:
    if of is None:
        return None, None
    if hasattr(of, "dims"):  # a weight
        return TYPES.get(of.data_type), tuple(of.dims)
    shape = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in of.shape.dim)
    return TYPES.get(of.elem_type), shape if of.HasField("shape") else None


def _attribute(path: Path, name: str, attribute: Any) -> tuple[str, bool, int]:
    """Data type, True if it is a list, and the number of values."""
    kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
    if kind in ATTRIBUTES:
        base, listed = ATTRIBUTES[kind]
        values = attribute.ints if kind == "INTS" else attribute.floats if kind == "FLOATS" else (0,)
        if kind in ("INT", "INTS"):
            for value in attribute.ints if listed else (attribute.i,):
                if not -(2**31) <= value < 2**31:
                    raise OpdbError(
                        f"{path}: {name}: the attribute {attribute.name} = {value} has more than 32 bits"
                    )
        return base, listed, len(values)
    if kind == "TENSOR" and len(attribute.t.dims) == 1 and attribute.t.data_type in (1, 6):
        return TYPES[attribute.t.data_type], True, int(attribute.t.dims[0])
    raise OpdbError(
        f"{path}: {name}: the attribute {attribute.name} is of kind {kind}; a custom op takes floats, ints, lists of them "
        "and tensors of one dimension of float or int32"
    )


def collection(ops: list[Foreign]) -> Collection:
    """The collection for drafts; ``ops`` have one domain.  An output with the shape of an input in every node is taken to follow it."""
    domain = ops[0].domain
    package = re.sub(r"\W", "_", domain, flags=re.ASCII)
    package = package if re.match(r"[A-Za-z]", package) else f"P{package}"
    return Collection(package, domain, "1", tuple(OpXml(op.name, tuple(_tensors(op))) for op in ops))


def names(ports: list[Port], alone: str, many: str) -> list[str]:
    """``alone`` for a single port, else ``many`` with a number: x, or in1, in2; y, or out1, out2."""
    return [alone] if len(ports) == 1 else [f"{many}{i + 1}" for i in range(len(ports))]


def _tensors(op: Foreign) -> Iterator[Tensor]:
    given = names(op.inputs, "x", "in")
    for name, port in zip(given, op.inputs, strict=True):
        yield Tensor("Input", name, op.always(port), tuple(port.dtypes), _rank(port))
    for name, port in zip(names(op.outputs, "y", "out"), op.outputs, strict=True):
        same = next((n for n, p in zip(given, op.inputs, strict=True) if _same(p, port)), None)
        text = None if same is None else f"same as {same}"
        dtypes = tuple(port.dtypes) or (tuple(op.inputs[0].dtypes) if op.inputs else ())
        yield Tensor("Output", name, op.always(port), dtypes, "ND" if text else _rank(port), text=text)
    for name, a in op.attributes.items():
        known = f"[{next(iter(a.counts))}]" if a.listed and len(a.counts) == 1 else None
        yield Tensor(
            "Parameter", name, a.nodes == op.nodes, (a.base,), "1D" if a.listed else "SCALAR", text=known
        )


def _rank(port: Port) -> str:
    rank = port.rank
    return f"{rank}D" if rank is not None and 1 <= rank <= 5 else "ND"


def _same(a: Port, b: Port) -> bool:
    return len(a.shapes) > 0 and None not in a.shapes and a.shapes == b.shapes
