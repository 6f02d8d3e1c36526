"""Reads UDO packages of SNPE (Qualcomm Neural Processing SDK), in the JSON format of snpe-udo-package-generator.

The fields are those of "Defining a UDO" and "Defining a UDO Package" in the SDK's reference guide.  The file has neither shapes nor
ranks, so a draft accepts any; it has data types, and their cores.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field

from opdb.author.importers.documents import Lenient, inside, read_documents
from opdb.author.importers.opxml.collection import Collection, OpXml, Supplement, Tensor
from opdb.core.errors import OpdbError
from opdb.generated.constants.backends import DEFAULT
from opdb.spec.document import Document
from opdb.spec.fields import IDENTIFIER
from opdb.spec.files import load

#: Data types in the file -> short names; FIXED ones are quantized.  QNN has no separate type for FIXED_4.
TYPES = {
    "FLOAT_16": "f16", "FLOAT_32": "f32", "FIXED_4": "uq8", "FIXED_8": "uq8", "FIXED_16": "uq16",
    "INT_8": "i8", "INT_16": "i16", "INT_32": "i32", "UINT_8": "u8", "UINT_16": "u16", "UINT_32": "u32",
    "STRING": "str",
}  # fmt: skip
DataType = Literal[
    "FLOAT_16", "FLOAT_32", "FIXED_4", "FIXED_8", "FIXED_16", "INT_8", "INT_16", "INT_32", "UINT_8", "UINT_16",
    "UINT_32", "STRING",
]  # fmt: skip
Core = Literal["CPU", "GPU", "DSP"]  # SNPE's names
DSP = get_args(Core)[-1]
PACKAGE = re.compile(r"UdoPackage_\d+")
#: The generator's output path and SNPE's root, which say nothing about an op.
PLACES = ("UDO_PACKAGE_PATH", "SNPE_UDO_ROOT")
#: The first Hexagon version with HTP, which SNPE also calls DSP.
FIRST_HTP = 68


class _Tensor(Lenient):
    name: str = ""
    data_type: DataType | None = None
    per_core_data_types: dict[Core, DataType] = Field(default_factory=dict)
    static: bool = False
    tensor_layout: str | None = None


class _Operator(Lenient):
    type: str = Field(pattern=IDENTIFIER)
    inputs: list[_Tensor] = Field(default_factory=list)
    outputs: list[_Tensor]
    scalar_params: list[_Tensor] = Field(default_factory=list)
    tensor_params: list[_Tensor] = Field(default_factory=list)
    core_types: list[Core] = Field(default_factory=list)
    dsp_arch_types: list[str] = Field(default_factory=list)


class _Package(Lenient):
    Operators: list[_Operator]
    UDO_PACKAGE_NAME: str = Field(pattern=IDENTIFIER)


def read(path: Path) -> list[Collection]:
    """The packages in a file.  Raises OpdbError with the place of the fault."""
    found = []
    for document in read_documents(path):
        packages = document.data if isinstance(document.data, dict) else {}
        for name in packages:
            if PACKAGE.fullmatch(name):
                part = inside(document, (name,))
                found.append(_collection(load(_Package, part), part))
    if not found:
        raise OpdbError(f'{path}: no "UdoPackage_0": expected the JSON of a UDO package')
    return found


def _collection(package: _Package, document: Document) -> Collection:
    notes = [f"{name} is not known, and left out" for name in package.unknown() if name not in PLACES]
    ops, supplements = [], list[Supplement]()
    for i, operator in enumerate(package.Operators):
        line = document.places.get(("Operators", i), (0, 0))[0]
        tensors = list(_tensors(operator, line, notes))
        if not operator.outputs:
            raise OpdbError(
                f"{document.path}:{line}: {operator.type}: outputs is empty; an op has one at least"
            )
        notes += [f"{operator.type}: {name} is not known, and left out" for name in operator.unknown()]
        backends = _backends(operator)
        ops.append(OpXml(operator.type, tuple(tensors), backends=tuple(backends.values()), line=line))
        for core, backend in backends.items():
            own = tuple(_of_core(operator, core, line, notes))
            supplements.append(Supplement(backend, (operator.type,), {operator.type: own}, line))
    return Collection(package.UDO_PACKAGE_NAME, "", "1", tuple(ops), tuple(supplements), notes=tuple(notes))


def _backends(operator: _Operator) -> dict[str, str]:
    """Maps cores to QNN's names.  A DSP without HTP has another backend."""
    versions = [int(v) for a in operator.dsp_arch_types if (v := re.sub(r"\D", "", a))]
    dsp = DSP if versions and max(versions) < FIRST_HTP else DEFAULT
    return {core: dsp if core == DSP else core for core in operator.core_types}


def _roles(operator: _Operator) -> Iterator[tuple[str, str, _Tensor, str]]:
    """Role, name, tensor, and rank of each input, output, and parameter."""
    for i, t in enumerate(operator.inputs):
        yield "Input", t.name or f"in[{i}]", t, "ND"
    for i, t in enumerate(operator.outputs):
        yield "Output", t.name or f"out[{i}]", t, "ND"
    for kind, rank in (("scalar_params", "SCALAR"), ("tensor_params", "1D")):
        for i, t in enumerate(getattr(operator, kind)):
            yield "Parameter", t.name or f"{kind}_{i}", t, rank


def _tensors(operator: _Operator, line: int, notes: list[str]) -> Iterator[Tensor]:
    for role, name, t, rank in _roles(operator):
        about = f"{operator.type}: {name}"
        notes += [f"{about}: {field} is not known, and left out" for field in t.unknown()]
        if t.data_type == "FIXED_4":
            notes.append(f"{about}: FIXED_4 is taken as 8 bits, in which QNN stores it")
        if t.tensor_layout not in (None, "NHWC"):
            notes.append(
                f"{about}: the layout {t.tensor_layout} is left out; QNN's images have their channels last"
            )
        dtypes = (TYPES[t.data_type],) if t.data_type else ()
        if not dtypes and not t.per_core_data_types:
            notes.append(f"{about}: no data type is given")
        layout = "NHWC" if t.tensor_layout == "NHWC" and role != "Parameter" else None
        yield Tensor(role, name, True, dtypes, rank, layout, static=t.static, line=line)


def _of_core(operator: _Operator, core: str, line: int, notes: list[str]) -> Iterator[Tensor]:
    """The tensors with a data type for this core, or for all cores."""
    for role, name, t, _ in _roles(operator):
        per_core: dict[Any, str] = dict(t.per_core_data_types)
        kind = per_core.get(core, t.data_type)
        if kind and role != "Parameter":
            yield Tensor(role, name, True, (TYPES[kind],), line=line)
