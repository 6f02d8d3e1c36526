"""Reads custom-op configurations of Qualcomm Cloud AI (custom_op_config.yaml), in the forms in use.

A file of the current form has ``version`` and the list ``CustomOps``; the first form has one document per op (pytorch/glow
PR 5208).  Fields are those of the Cloud AI SDK's page "Custom operations".  The file gives the maximum number of dimensions
of a tensor and no data types, so a draft has any shape and float32.  Libraries, kernels, and buffers are listed as left out:
opdb generates its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from opdb.author.importers.documents import Lenient, inside, read_documents
from opdb.author.importers.opxml.collection import Collection, OpXml, Tensor, package_of
from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.spec.document import At, Document
from opdb.spec.fields import IDENTIFIER
from opdb.spec.files import load

TYPES = {"float": "f32", "int": "i32", "i32": "i32", "bool": "bool8", "string": "str"}


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _listed(value: Any) -> Any:
    """Turns ``parameters:`` without a value into an empty list."""
    return [] if value is None else value


class _Part(Lenient):
    model_config = ConfigDict(alias_generator=to_camel)


class _Tensor(_Part):
    name: str
    max_dims: int | None = None
    constant: bool = False


class _Parameter(_Part):
    name: str
    data_type: Annotated[Literal["float", "int", "i32", "bool", "string"], BeforeValidator(_lower)]
    scalar: bool = False
    size: int | None = None


class _Implementation(_Part):
    backend: str
    type: str
    impl: str


class _Named(_Part):
    name: str


class _Op(_Part):
    type: str = Field(pattern=IDENTIFIER)
    package: str
    name: str = ""
    inputs: Annotated[list[_Tensor], BeforeValidator(_listed)] = Field(default_factory=list)
    outputs: Annotated[list[_Tensor], BeforeValidator(_listed)]
    parameters: Annotated[list[_Parameter], BeforeValidator(_listed)] = Field(default_factory=list)
    scratch_buffers: Annotated[list[_Named], BeforeValidator(_listed)] = Field(default_factory=list)
    functions_library: str | None = None
    implementations: Annotated[list[_Implementation], BeforeValidator(_listed)] = Field(default_factory=list)


def read(path: Path) -> list[Collection]:
    """One collection for each package (ONNX domain) of a file.  Raises OpdbError with the place of the fault."""
    ops: dict[str, list[OpXml]] = {}
    notes: list[str] = []
    for document in read_documents(path):
        for at in _places(document):
            part = inside(document, at)
            op = load(_Op, part)
            line = document.places.get(at, (1, 1))[0]
            if not op.outputs:
                raise OpdbError(f"{path}:{line}: {op.type}: outputs is empty; an op has one at least")
            ops.setdefault(op.package, []).append(OpXml(op.type, tuple(_tensors(op, line)), line=line))
            notes += _left_out(op)
    if not ops:
        raise OpdbError(f"{path}: no custom op: expected the list CustomOps, or a document for each op")
    return [
        Collection(package_of(name), name, "1", tuple(found), notes=tuple(notes) if i == 0 else ())
        for i, (name, found) in enumerate(ops.items())
    ]


def _places(document: Document) -> Iterator[At]:
    """The places of the ops in a document."""
    data = document.data
    if isinstance(data, dict) and isinstance(data.get("CustomOps"), list):
        yield from (("CustomOps", i) for i in range(len(data["CustomOps"])))
    elif isinstance(data, dict) and "type" in data:
        yield ()
    elif not (isinstance(data, dict) and "CustomOps" in data):
        raise OpdbError(
            f"{document.path}:{document.places.get((), (1, 1))[0]}: neither the list CustomOps nor an op with a type"
        )


def _tensors(op: _Op, line: int) -> Iterator[Tensor]:
    for role, tensors in (("Input", op.inputs), ("Output", op.outputs)):
        for t in tensors:
            yield Tensor(
                role, t.name, True, rank="1D" if t.max_dims == 1 else "ND", static=t.constant, line=line
            )
    for p in op.parameters:
        vector = not p.scalar
        text = f"[{p.size}]" if vector and p.size else None
        rank = "1D" if vector else "SCALAR"
        yield Tensor("Parameter", p.name, True, (TYPES[p.data_type],), rank, text=text, line=line)


def _left_out(op: _Op) -> Iterator[str]:
    """Notes on what the draft leaves out."""
    for t in (*op.inputs, *op.outputs):
        if t.max_dims is not None and t.max_dims > 1:
            yield f"{op.type}: {t.name} has at most {counted(t.max_dims, 'dimension')}; write it as a constraint if it matters"
    if op.functions_library:
        yield f"{op.type}: functionsLibrary {op.functions_library} is left out"
    for i in op.implementations:
        yield f"{op.type}: the kernel {i.type} for {i.backend} ({i.impl}) is left out; write 'kernel' and its C"
    for b in op.scratch_buffers:
        yield f"{op.type}: the scratch buffer {b.name} is left out"
    for part in (op, *op.inputs, *op.outputs, *op.parameters):
        yield from (f"{op.type}: {name} is not known, and left out" for name in part.unknown())
