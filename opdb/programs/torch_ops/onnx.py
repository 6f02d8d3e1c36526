"""Exports opdb's operators with torch.onnx.export, as nodes of the domain that `opdb package ort` gave its ops.

    torch.onnx.export(model, inputs, "model.onnx", custom_translation_table=opdb.programs.torch_ops.onnx.table("com.opdb"))

ONNX Runtime runs the file with that library, and QNN with an op package (opdb package onnx).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import opdb.programs.torch_ops  # noqa: F401  defines the operators
from opdb.core.errors import MissingExtra
from opdb.runtime.binding import Param
from opdb.runtime.direct import libraries, signature

REAL = ("f16", "f32", "f64")
#: ONNX's names of the data types that a tensor of an op may have.
TYPES = ("float", "float16", "double", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
         "uint64", "bool")  # fmt: skip


def table(domain: str = "com.opdb") -> dict[Any, Callable[..., Any]]:
    """The translation of each operator whose number of results is fixed, for ``custom_translation_table``.

    Enums, which are names in torch, become the numbers that the library takes; lists of rows are flat in both.
    Raises MissingExtra without onnxscript.
    """
    try:
        from onnxscript import values
    except ImportError:
        raise MissingExtra("onnxscript", "onnx") from None
    opset = values.Opset(domain, 1)
    return {
        getattr(getattr(torch.ops, library), op).default: _translation(
            op, values.Op(opset, op, _schema(op, domain))
        )
        for library, schemas in libraries().items()
        for op in schemas
        if not any(s.variadic for s in signature(op).outputs)
    }


def _translation(op: str, make: Callable[..., Any]) -> Callable[..., Any]:
    def translation(*tensors: Any, **given: Any) -> Any:
        return _node(op, make, tensors, given)

    return translation


def _node(op: str, make: Callable[..., Any], tensors: tuple[Any, ...], given: dict[str, Any]) -> Any:
    own = signature(op)
    named = dict(zip([s.name for s in own.inputs], tensors, strict=False)) | given
    flat: list[Any] = []
    for slot in own.inputs:
        value = named.get(slot.name)
        flat += value if isinstance(value, (list, tuple)) else [value]
    while flat and flat[-1] is None:
        flat.pop()
    attributes = {p.name: _value(p, named[p.name]) for p in own.params if named.get(p.name) is not None}
    return make(*flat, **attributes)


def _value(param: Param, value: Any) -> Any:
    if param.enum and isinstance(value, str):
        return {name: number for number, name in param.enum.items()}[value]
    if param.dtype in REAL:
        return [float(v) for v in value] if param.dims else float(value)
    return [int(v) for v in value] if param.dims else int(value)


def _schema(op: str, domain: str) -> Any:
    """The schema that the library of `opdb package ort` gives ONNX Runtime, for the exporter."""
    from onnx.defs import OpSchema

    own = signature(op)
    types = [f"tensor({t})" for t in TYPES]
    tensors = (*own.inputs, *own.outputs)
    kinds = OpSchema.FormalParameterOption

    def slot(i: int, s: Any) -> Any:
        kind = kinds.Variadic if s.variadic else kinds.Optional if s.optional else kinds.Single
        return OpSchema.FormalParameter(s.name, f"T{i}", param_option=kind, is_homogeneous=False)

    def attribute(p: Param) -> Any:
        kind = ("FLOAT" if p.dtype in REAL else "INT") + "S" * bool(p.dims)
        return OpSchema.Attribute(p.name, getattr(OpSchema.AttrType, kind), "", required=False)

    slots = [slot(i, s) for i, s in enumerate(tensors)]
    return OpSchema(
        op,
        domain,
        1,
        inputs=slots[: len(own.inputs)],
        outputs=slots[len(own.inputs) :],
        attributes=[attribute(p) for p in own.params],
        type_constraints=[(f"T{i}", types, "") for i in range(len(tensors))],
    )
