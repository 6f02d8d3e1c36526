"""Collects the nodes of foreign domains in an ONNX model into collections, from which specs are drafted.

A model has no definition of such an op, only uses of it: ranks, data types, and attributes are what its nodes have in
common.  A dim that is equal in an input and an output of every node becomes one symbol.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opdb.author.importers.onnx_model import OWN, load, nodes, onnx
from opdb.author.importers.opxml.collection import RANKS, Collection, OpXml, Tensor, package_of
from opdb.core.errors import OpdbError
from opdb.generated.constants.backends import BACKENDS

AttributeProto, TensorProto = onnx.AttributeProto, onnx.TensorProto
#: Element types -> short names; 64-bit integers become 32-bit, the type of QNN's indices.
DTYPES = {
    TensorProto.FLOAT: "f32", TensorProto.FLOAT16: "f16", TensorProto.BFLOAT16: "bf16", TensorProto.DOUBLE: "f32",
    TensorProto.INT8: "i8", TensorProto.UINT8: "u8", TensorProto.INT16: "i16", TensorProto.UINT16: "u16",
    TensorProto.INT32: "i32", TensorProto.UINT32: "u32", TensorProto.INT64: "i32", TensorProto.UINT64: "u32",
    TensorProto.BOOL: "bool8",
}  # fmt: skip
NARROWED = (TensorProto.DOUBLE, TensorProto.INT64, TensorProto.UINT64)
#: Kinds of attributes -> data type and rank of the parameter.
ATTRIBUTES = {
    AttributeProto.INT: ("i32", "SCALAR"), AttributeProto.FLOAT: ("f32", "SCALAR"),
    AttributeProto.INTS: ("i32", "1D"), AttributeProto.FLOATS: ("f32", "1D"),
}  # fmt: skip
Dim = int | str | None
RANK_WORDS = {n: word for word, n in RANKS.items()}
#: A use with more elements in a tensor does not become a sample.
MOST = 2**18
LETTERS = "ABDEFGJKLMOPQRTUVWXYZ"


@dataclass
class _Value:
    """The known facts of a tensor in the graph."""

    dtype: int = 0
    shape: list[Dim] | None = None
    constant: bool = False


@dataclass
class _Uses:
    """All nodes of one op: their tensors by place, None for omitted ones, and their attributes."""

    domain: str
    inputs: list[list[_Value | None]] = field(default_factory=list)
    outputs: list[list[_Value | None]] = field(default_factory=list)
    attributes: list[Mapping[str, Any]] = field(default_factory=list)


def read(path: Path) -> list[Collection]:
    """One collection for each foreign domain of a model.  Raises OpdbError for another file, or without such nodes."""
    model = load(path)
    uses: dict[str, _Uses] = {}
    functions = {(f.domain, f.name) for f in model.functions}
    _collect(model.graph, uses)
    if not uses:
        raise OpdbError(f"{path}: all nodes are ONNX's own; expected one of another domain, e.g. com.example")
    by_domain: dict[str, list[tuple[OpXml, list[str]]]] = {}
    for name, found in uses.items():
        op, notes = _op(name, found)
        if (found.domain, name) in functions:
            notes.append(f"{name}: the model has a function of that name, which says what it computes")
        by_domain.setdefault(found.domain, []).append((op, notes))
    return [
        Collection(
            package_of(domain),
            domain,
            "1",
            tuple(op for op, _ in ops),
            notes=tuple(n for _, notes in ops for n in notes),
            rows="onnx",
        )
        for domain, ops in by_domain.items()
    ]


def _collect(graph: Any, uses: dict[str, _Uses]) -> None:
    for node, known in nodes(graph):
        if node.domain in OWN:
            continue
        found = uses.setdefault(node.op_type, _Uses(node.domain))
        for rows, names in ((found.inputs, node.input), (found.outputs, node.output)):
            rows.append([_value(known.get(n)) if n else None for n in names])
        found.attributes.append({a.name: a for a in node.attribute})


def _value(proto: Any) -> _Value:
    if proto is None:
        return _Value()
    if hasattr(proto, "dims"):  # a weight
        return _Value(proto.data_type, list(proto.dims), True)
    if not proto.HasField("shape"):
        return _Value(proto.elem_type)
    dims: list[Dim] = [
        d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in proto.shape.dim
    ]
    return _Value(proto.elem_type, dims)


def _op(name: str, uses: _Uses) -> tuple[OpXml, list[str]]:
    notes: list[str] = []
    columns = [
        ("Input", i, _column(uses.inputs, i)) for i in range(max(map(len, uses.inputs), default=0))
    ] + [("Output", i, _column(uses.outputs, i)) for i in range(max(map(len, uses.outputs), default=0))]
    symbols = _symbols([c for _, _, c in columns])
    tensors = [
        _tensor(name, role, i, column, texts, notes)
        for (role, i, column), texts in zip(columns, symbols, strict=True)
    ]
    tensors += list(_parameters(name, uses.attributes, notes))
    made = tuple(b.name for b in BACKENDS.values() if b.op_packages == "opdb")
    return OpXml(name, tuple(tensors), backends=made, examples=tuple(_examples(uses, tensors))), notes


def _examples(uses: _Uses, tensors: Sequence[Tensor]) -> Iterator[dict[tuple[str, str], Any]]:
    """The op's uses in the model's nodes; a dim without a number becomes 2."""
    params = [t.name for t in tensors if t.role == "Parameter"]
    made: list[dict[tuple[str, str], Any]] = []
    for inputs, attributes in zip(uses.inputs, uses.attributes, strict=True):
        given = [(i, v.shape) for i, v in enumerate(inputs) if v is not None]
        if any(shape is None for _, shape in given):
            continue
        sizes = {i: [d if isinstance(d, int) else 2 for d in shape or ()] for i, shape in given}
        if max(map(math.prod, sizes.values()), default=0) > MOST:
            continue
        use: dict[tuple[str, str], Any] = {("Input", f"in[{i}]"): shape for i, shape in sizes.items()}
        for name in params:
            if name in attributes:
                use["Parameter", name] = onnx.helper.get_attribute_value(attributes[name])
        if use not in made:
            made.append(use)
            yield use


def _column(rows: Sequence[Sequence[_Value | None]], place: int) -> list[_Value | None]:
    """The values at one place in all nodes."""
    return [row[place] if place < len(row) else None for row in rows]


def _symbols(columns: Sequence[Sequence[_Value | None]]) -> list[list[str] | None]:
    """The dims at each place in the notation of specs; None if the rank is unknown or differs.

    Dims that are equal in every node become one symbol.
    """
    names: dict[tuple[Dim, ...], str] = {}
    out: list[list[str] | None] = []
    for column in columns:
        shapes = [v.shape if v is not None else None for v in column]
        known = [s for s in shapes if s is not None]
        if len(known) != len(shapes) or len({len(s) for s in known}) != 1:
            out.append(None)
            continue
        dims: list[str] = []
        for i in range(len(known[0])):
            key = tuple(s[i] for s in known)
            if None in key:
                key = (f"{len(out)}.{i}",)
            dims.append(names.setdefault(key, _letter(len(names))))
        out.append(dims)
    return out


def _letter(n: int) -> str:
    """The n-th symbol: A, B, D, ..., A1, ..."""
    return LETTERS[n % len(LETTERS)] + (str(n // len(LETTERS)) if n >= len(LETTERS) else "")


def _tensor(
    op: str, role: str, place: int, column: Sequence[_Value | None], dims: list[str] | None, notes: list[str]
) -> Tensor:
    name = f"{'in' if role == 'Input' else 'out'}[{place}]"
    given = [v for v in column if v is not None]
    dtypes = list(dict.fromkeys(DTYPES[v.dtype] for v in given if v.dtype in DTYPES))
    if any(v.dtype in NARROWED for v in given):
        notes.append(
            f"{op}: {name} has 64 bits in the model; taken as {dtypes[0]}, since backends have no more"
        )
    if not dtypes:
        dtypes = ["f32"]
        notes.append(f"{op}: the model does not say the type of {name}; taken as f32")
    if dims is None and role == "Input":
        notes.append(f"{op}: the model does not say one rank of {name}; any is taken")
    if dims is None and role == "Output":
        notes.append(f"{op}: the model does not say the shape of {name}; taken as that of in[0]")
    if dims is not None and not dims:
        dims = None
    rank = "ND" if dims is None else RANK_WORDS.get(len(dims), "ND")
    text = f"[{', '.join(dims)}]" if dims else "same as in[0]" if role == "Output" else None
    static = bool(given) and all(v.constant for v in given) and role == "Input"
    return Tensor(role, name, None not in column, tuple(dtypes), rank, text=text, static=static)  # fmt: skip


def _parameters(op: str, nodes: Sequence[Mapping[str, Any]], notes: list[str]) -> Iterator[Tensor]:
    for name in dict.fromkeys(n for attributes in nodes for n in attributes):
        found = [attributes[name] for attributes in nodes if name in attributes]
        kind = ATTRIBUTES.get(found[0].type)
        if kind is None or any(a.type != found[0].type for a in found):
            word = AttributeProto.AttributeType.Name(found[0].type)
            notes.append(
                f"{op}: the attribute {name} ({word}) is left out: op packages take numbers and lists"
            )
            continue
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            notes.append(f"{op}: the attribute {name!r} is left out: it is no name in C")
            continue
        values = [onnx.helper.get_attribute_value(a) for a in found]
        seen = ", ".join(dict.fromkeys(_written(v) for v in values))
        dtype, rank = kind
        yield Tensor(
            "Parameter", name, len(found) == len(nodes), (dtype,), rank, description=f"In the model: {seen}."
        )


def _written(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"
    return f"[{', '.join(map(_written, value))}]" if isinstance(value, list) else str(value)
