"""Reads an XML file into a ``Collection``.  Every fault has file, line, and element; all faults of a file are raised together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from opdb.author.importers.markup import Element, parse_xml, words
from opdb.author.importers.opxml.collection import (
    BACKEND_SPECIFIC,
    KINDS,
    RANKS,
    ROLES,
    Collection,
    Constraint,
    OpXml,
    Supplement,
    Tensor,
)
from opdb.core.dtypes import lookup
from opdb.core.errors import OpdbError, Problem, SpecError
from opdb.core.names import counted

#: The known children of a tensor and of an op.
OF_TENSOR = {"Name", "Description", "Mandatory", "Datatype", "Shape", "Default", "Repeated", "IsStaticTensor",
             "Constraint", "Enumeration", "OnlyDefaultSupported"}  # fmt: skip
OF_OP = {"Name", "Description", "Reference", "UseDefaultTranslation", "SupportedBackend", *ROLES}
NAME = re.compile(r"[A-Za-z_]\w{0,59}", re.ASCII)
FLAGS = {"true": True, "1": True, "false": False, "0": False}


def read(path: Path) -> Collection:
    """Raises OpdbError if the file is not XML, SpecError with all other faults."""
    root = parse_xml(path)
    reader = _Reader(str(path))
    found = reader.collection(root)
    if reader.problems:
        raise SpecError(reader.problems)
    return found


class _Reader:
    def __init__(self, path: str) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.notes: list[str] = []

    def fault(self, element: Element, message: str) -> None:
        tag = element.tag if isinstance(element.tag, str) else "?"
        self.problems.append(Problem(self.path, element.sourceline or 1, 1, f"<{tag}>: {message}"))

    def collection(self, root: Element) -> Collection:
        if root.tag != "OpDefCollection":
            raise OpdbError(
                f"{self.path}:{root.sourceline}: the root is <{root.tag}>, not <OpDefCollection>; "
                "expected the XML of an op package"
            )
        given = {name: root.get(name, "") for name in ("PackageName", "Domain", "Version")}
        for name in ("PackageName", "Version"):
            if not given[name].strip():
                self.fault(root, f"the attribute {name} is missing")
        if given["PackageName"] and not re.fullmatch(r"[A-Za-z][\w.]{0,99}", given["PackageName"], re.ASCII):
            self.fault(root, f"PackageName {given['PackageName']!r} is not a name")
        lists = root.findall("OpDefList")
        if len(lists) != 1:
            self.fault(root, f"{counted(len(lists), 'element')} <OpDefList>, expected one")
        ops = tuple(self.op(e) for part in lists[:1] for e in self.children(part, "OpDef"))
        if lists and not ops:
            self.fault(lists[0], "no <OpDef> in it")
        self.unique(root, "op", [op.name for op in ops])
        known = {op.name: op for op in ops}
        supplements = tuple(self.supplement(e, known) for e in root.findall("SupplementalOpDefList"))
        self.unique(root, "supplement of backend", [s.backend for s in supplements])
        qhpi = root.get("UseQHPI", "false").strip().lower()
        if qhpi not in FLAGS:
            self.fault(root, f"UseQHPI is {qhpi!r}, neither true nor false")
        return Collection(
            given["PackageName"],
            given["Domain"],
            given["Version"],
            ops,
            supplements,
            FLAGS.get(qhpi, False),
            tuple(self.notes),
        )

    def ignored(self, element: Element, name: str) -> None:
        """Notes an op that only a supplement names: Qualcomm's generator accepts such files (packages of LLaMA have them)."""
        self.notes.append(
            f"line {element.sourceline}: <{element.tag}>: the op {name!r} is not in <OpDefList>; ignored"
        )

    def children(self, element: Element, tag: str) -> Iterator[Element]:
        for child in element:
            if child.tag == tag:
                yield child
            else:
                self.fault(child, f"expected <{tag}> in <{element.tag}>")

    def unique(self, element: Element, what: str, names: list[str]) -> None:
        for name in sorted({n for n in names if names.count(n) > 1 and n}):
            self.fault(element, f"the {what} {name!r} is there {names.count(name)} times")

    def op(self, element: Element) -> OpXml:
        name = self.text(element, "Name", required=True)
        if name and not NAME.fullmatch(name):
            self.fault(element, f"the op's name {name!r} is not a name in C")
        tensors = tuple(self.tensor(e) for role in ROLES for e in element.findall(role))
        for role in ("Input", "Output"):
            if not any(t.role == role for t in tensors):
                self.fault(element, f"{name}: no <{role}>; an op has at least one")
        for role, word in ROLES.items():
            self.unique(element, f"{word} of {name}", [t.name for t in tensors if t.role == role])
        backends = tuple(words(e) for e in element.findall("SupportedBackend"))
        flag = self.flag(element, "UseDefaultTranslation")
        references = tuple((e.get("Source", ""), e.get("Url", "")) for e in element.findall("Reference"))
        unread = tuple(f"<{e.tag}> in line {e.sourceline}" for e in element if e.tag not in OF_OP)
        unread += tuple(
            f"<{e.tag}> in line {e.sourceline}"
            for role in ROLES
            for t in element.findall(role)
            for e in t
            if e.tag not in OF_TENSOR
        )
        description, code = self.description(element)
        return OpXml(
            name, tensors, description, code, references, flag, backends, unread, element.sourceline or 0
        )

    def description(self, element: Element) -> tuple[str | None, tuple[str, ...]]:
        """The Content elements as one text, and the Code elements as lines."""
        contents = [words(e) for e in element.findall("Description/Content")]
        code = tuple(filter(None, (words(e) for e in element.findall("Description/Code"))))
        return " ".join(filter(None, contents)) or None, code

    def tensor(self, element: Element, supplement: bool = False) -> Tensor:
        mandatory = self.flag(element, "Mandatory", required=not supplement)
        shape = element.find("Shape")
        if shape is None and not supplement:
            self.fault(element, "the element <Shape> is missing")
        rank, layout, text = self.shape(shape, supplement)
        description, code = self.description(element)
        enum = tuple(words(e) for e in element.findall("Enumeration/Enum"))
        self.enum(element, enum)
        name = self.text(element, "Name", required=True)
        if name and element.tag == "Parameter" and not NAME.fullmatch(name):
            self.fault(element, f"the parameter's name {name!r} is not a name in C")
        constraints = tuple(self.constraint(e) for e in element.findall("Constraint"))
        return Tensor(
            element.tag,
            name,
            mandatory is not False,
            self.dtypes(element, supplement),
            rank,
            layout,
            text,
            description,
            code,
            self.text(element, "Default") or None,
            bool(self.flag(element, "Repeated")),
            bool(self.flag(element, "IsStaticTensor")),
            enum,
            constraints,
            bool(self.flag(element, "OnlyDefaultSupported")),
            element.sourceline or 0,
        )

    def enum(self, element: Element, enum: tuple[str, ...]) -> None:
        for name in enum:
            if not NAME.fullmatch(name):
                self.fault(element, f"the enum value {name!r} is not a name")
        self.unique(element, "enum value", list(enum))

    def dtypes(self, element: Element, supplement: bool) -> tuple[str, ...]:
        out: list[str] = []
        given = element.findall("Datatype")
        if not given and not supplement:
            self.fault(element, "the element <Datatype> is missing")
        for e in given:
            name = words(e)
            found = lookup(name)
            if name == BACKEND_SPECIFIC:
                if supplement or len(given) > 1:
                    self.fault(e, "BACKEND_SPECIFIC stands alone, and not in a supplement")
            elif found is None:
                self.fault(e, f"{name!r} is not a data type; e.g. QNN_DATATYPE_FLOAT_32")
            elif found.short not in out:
                out.append(found.short)
        return tuple(out)

    def shape(self, element: Element | None, supplement: bool) -> tuple[str | None, str | None, str | None]:
        if element is None:
            return None, None, None
        rank = self.text(element, "Rank", required=not supplement)
        rank = f"{rank}D" if rank.isdigit() else rank  # some examples omit the D
        rank = "SCALAR" if rank == "0D" else rank
        if rank and rank not in RANKS:
            self.fault(element, f"the rank {rank!r} is not one of {', '.join(RANKS)}")
        return rank or None, self.text(element, "Layout") or None, self.text(element, "Text") or None

    def constraint(self, element: Element) -> Constraint:
        kind, number = element.get("Type", ""), element.get("id", "0")
        if kind not in KINDS:
            self.fault(element, f"the type {kind!r} is not one of {', '.join(KINDS)}")
        if not number.isdigit():
            self.fault(element, f"the id {number!r} is not a number")
            number = "0"
        return Constraint(int(number), kind, words(element), element.sourceline or 0)

    def supplement(self, element: Element, known: dict[str, OpXml]) -> Supplement:
        backend = element.get("Backend", "")
        if not backend:
            self.fault(element, "the attribute Backend is missing")
        named = [words(e) for e in element.findall("SupportedOps/OpName")]
        for name in named:
            if name not in known:
                self.ignored(element, name)
        ops = tuple(name for name in named if name in known)
        tensors: dict[str, tuple[Tensor, ...]] = {}
        for part in element.findall("SupplementalOpDef"):
            name = self.text(part, "Name", required=True)
            if name not in known:
                self.ignored(part, name)
                continue
            if name in tensors:
                self.fault(part, f"the op {name!r} is there twice")
            found = tuple(self.tensor(e, True) for role in ROLES for e in part.findall(role))
            slots = {(t.role, t.name) for t in known[name].tensors}
            for t in found:
                if (t.role, t.name) not in slots:
                    self.fault(part, f"{name} has no {ROLES[t.role]} {t.name!r}")
            tensors[name] = found
        return Supplement(backend, ops, tensors, element.sourceline or 0)

    def text(self, element: Element, tag: str, required: bool = False) -> str:
        found = element.findall(tag)
        if len(found) > 1:
            self.fault(found[1], f"<{tag}> is given twice in <{element.tag}>")
        text = words(found[0]) if found else ""
        if required and not text:
            self.fault(element, f"the element <{tag}> is missing or empty")
        return text

    def flag(self, element: Element, tag: str, required: bool = False) -> bool | None:
        text = self.text(element, tag, required)
        if not text:
            return None
        if text.lower() not in FLAGS:
            self.fault(element, f"<{tag}> is {text!r}, neither true nor false")
        return FLAGS.get(text.lower())
