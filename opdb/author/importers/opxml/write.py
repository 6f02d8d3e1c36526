"""Writes a ``Collection`` as the text of an XML file."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from opdb.author.importers.opxml.collection import BACKEND_SPECIFIC, Collection, OpXml, Supplement, Tensor
from opdb.core.dtypes import BY_SHORT


def write(found: Collection) -> str:
    """The XML in UTF-8, indented by two spaces; equal collections give equal texts."""
    root = ET.Element(
        "OpDefCollection", PackageName=found.package, Domain=found.domain, Version=found.version
    )
    ops = ET.SubElement(root, "OpDefList")
    for op in found.ops:
        _op(ops, op)
    for supplement in found.supplements:
        _supplement(root, supplement)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _text(parent: ET.Element, tag: str, text: str | None) -> None:
    if text:
        ET.SubElement(parent, tag).text = text


def _flag(parent: ET.Element, tag: str, value: bool) -> None:
    _text(parent, tag, str(value).lower())


def _description(parent: ET.Element, content: str | None, code: tuple[str, ...]) -> None:
    if content or code:
        element = ET.SubElement(parent, "Description")
        _text(element, "Content", content)
        for line in code:
            _text(element, "Code", line)


def _op(parent: ET.Element, op: OpXml) -> None:
    element = ET.SubElement(parent, "OpDef")
    _text(element, "Name", op.name)
    _description(element, op.description, op.code)
    for source, url in op.references:
        ET.SubElement(element, "Reference", Source=source, Url=url)
    for tensor in op.tensors:
        _tensor(element, tensor)
    if op.default_translation is not None:
        _flag(element, "UseDefaultTranslation", op.default_translation)
    for backend in op.backends:
        _text(element, "SupportedBackend", backend)


def _tensor(parent: ET.Element, t: Tensor) -> None:
    element = ET.SubElement(parent, t.role)
    _text(element, "Name", t.name)
    _description(element, t.description, t.code)
    _flag(element, "Mandatory", t.mandatory)
    _constraints(element, t)
    for dtype in t.dtypes:
        _text(element, "Datatype", BY_SHORT[dtype].macro)
    if not t.dtypes:
        _text(element, "Datatype", BACKEND_SPECIFIC)
    shape = ET.SubElement(element, "Shape")
    _text(shape, "Rank", t.rank)
    _text(shape, "Layout", t.layout)
    _text(shape, "Text", t.text)
    _text(element, "Default", t.default)
    if t.repeated:
        _flag(element, "Repeated", True)
    if t.static:
        _flag(element, "IsStaticTensor", True)
    if t.enum:
        enumeration = ET.SubElement(element, "Enumeration")
        for name in t.enum:
            _text(enumeration, "Enum", name)


def _constraints(parent: ET.Element, t: Tensor) -> None:
    for c in t.constraints:
        ET.SubElement(parent, "Constraint", id=str(c.number), Type=c.kind).text = c.text


def _supplement(parent: ET.Element, supplement: Supplement) -> None:
    element = ET.SubElement(parent, "SupplementalOpDefList", Backend=supplement.backend)
    supported = ET.SubElement(element, "SupportedOps")
    for name in supplement.ops:
        _text(supported, "OpName", name)
    for name, tensors in supplement.tensors.items():
        part = ET.SubElement(element, "SupplementalOpDef")
        _text(part, "Name", name)
        for t in tensors:
            tensor = ET.SubElement(part, t.role)
            _text(tensor, "Name", t.name)
            _constraints(tensor, t)
            for dtype in t.dtypes:
                _text(tensor, "Datatype", BY_SHORT[dtype].macro)
            if t.only_default:
                _flag(tensor, "OnlyDefaultSupported", True)
