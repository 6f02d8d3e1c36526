"""YAML files -> models, with the places of faults.

``read_folder`` reads everything and reports all faults of all files together (SpecError).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from opdb.core.errors import Problem, SpecError
from opdb.core.guess import did_you_mean
from opdb.spec.backend import BACKEND, LETTER, Backend
from opdb.spec.document import At, Document, parse_document
from opdb.spec.erratum import DATE, ID, NAME, Erratum
from opdb.spec.family import FamilyDef
from opdb.spec.fields import IDENTIFIER, SOURCE
from opdb.spec.model import KERNEL, BaseDef, Body, OpDef, resolve
from opdb.spec.paths import spec_files, spec_name
from opdb.spec.rules import dump as dump
from opdb.spec.spelling import expanded

M = TypeVar("M", bound=BaseModel)
__all__ = [
    "Document",
    "SpecSet",
    "dump",
    "gather",
    "load",
    "parse_document",
    "read_folder",
    "reread",
    "spec_files",
    "spec_name",
]


@dataclass(frozen=True)
class SpecSet:
    """Everything under specs/, validated by the models but not yet by the rule compiler."""

    ops: dict[str, OpDef]  # with bases merged
    own: dict[str, OpDef]  # as in each file
    bases: dict[str, BaseDef]
    families: dict[str, FamilyDef]
    errata: dict[str, Erratum]
    backends: dict[str, Backend]
    documents: dict[str, Document]  # by path
    socs: Any
    retired: Any

    def document(self, kind: str, name: str) -> Document:
        return self.documents[f"{kind}/{name}.yaml"]


def load(model: type[M], document: Document) -> M:
    """Validates a document as a model.  Raises SpecError with all faults and their places."""
    if not isinstance(document.data, dict):
        raise SpecError([Problem(document.path, 1, 1, "expected a mapping; e.g. op: Relu")])
    try:
        if issubclass(model, Body):
            document = expanded(document)
        return model.model_validate(document.data)
    except ValidationError as error:
        raise SpecError([_pydantic_problem(document, model, dict(e)) for e in error.errors()]) from None


def _pydantic_problem(document: Document, model: type[BaseModel], error: dict[str, Any]) -> Problem:
    at: At = tuple(p for p in error["loc"] if p != "[key]")
    surplus = error["type"] == "extra_forbidden"
    # Unions add the name of the alternative to the path; drop parts that are not in the file.
    while at and at not in document.places:
        at = at[:-1]
    key = (*at, "__key__")
    named = (surplus or "[key]" in error["loc"]) and key in document.places
    return document.problem(key if named else at, _pydantic_message(model, error))


#: The patterns of opdb.spec.model in words.
FORMS = {
    IDENTIFIER: "is not a name: letters, digits and _, no digit first",
    SOURCE: "is not a source; e.g. MasterOpDef.html@2.25.0#Relu, or 'probe' with the run",
    KERNEL: "is not a kernel: the name of its function begins with opdb_",
    ID: "is not the id of an erratum: the backend in capitals, a hyphen and four digits; e.g. HTP-0042",
    NAME: "is not the name of a workaround: small letters, digits and hyphens; e.g. other-candidate, reject",
    BACKEND: "is not the name of a backend: capitals and digits, no digit first; e.g. HTP",
    LETTER: "is not one capital letter, with which the ids of the backend's rules begin; e.g. H",
    DATE: "is not a date; e.g. '2026-11-20'",
}
#: pydantic's error type -> the expected value.
EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a mapping (name: value)",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "a mapping (name: value)",
    "string_type": "a text",
}
QUOTES = "an expression with [ ] { } or ', ' inside {...} needs quotes"


def _pydantic_message(model: type[BaseModel], error: dict[str, Any]) -> str:
    kind, given = str(error["type"]), error["input"]
    if kind == "extra_forbidden":
        name = str(error["loc"][-1])
        known = _fields_at(model, error["loc"][:-1])
        hint = did_you_mean(name, known, f"known: {', '.join(known)}" if known else "")
        return f"unknown field '{name}'{hint}" + ("" if name.isidentifier() else f"; {QUOTES}")
    if kind == "missing":
        return f"the field '{error['loc'][-1]}' is missing"
    if kind == "string_pattern_mismatch":
        return f"{given!r} {FORMS[error['ctx']['pattern']]}"
    if kind == "literal_error":
        return f"{given!r} is not one of {error['ctx']['expected'].replace(' or ', ', ')}"
    if kind in EXPECTED:
        shown = (
            "a list" if isinstance(given, list) else "a mapping" if isinstance(given, dict) else repr(given)
        )
        return f"expected {EXPECTED[kind]}, got {shown}"
    return str(error["msg"]).removeprefix("Value error, ")


def _fields_at(model: type[BaseModel], loc: tuple[Any, ...]) -> list[str]:
    """The field names of the model at ``loc``, as far as annotations show."""
    current: Any = model
    for part in loc:
        if isinstance(current, type) and issubclass(current, BaseModel) and part in current.model_fields:
            current = current.model_fields[part].annotation
        args = getattr(current, "__args__", None)
        if args:
            models = [a for a in args if isinstance(a, type) and issubclass(a, BaseModel)]
            current = models[-1] if models else current
    return (
        [f.alias or n for n, f in current.model_fields.items()]
        if isinstance(current, type) and issubclass(current, BaseModel)
        else []
    )


def read_folder(folder: Path, drafts: bool = False) -> SpecSet:
    """Reads everything under ``folder`` (a specs/ tree); ``drafts`` as in ``gather``.

    Raises SpecError with all faults of all files.
    """
    specs, problems = gather(folder, drafts=drafts)
    if problems:
        raise SpecError(problems)
    return specs


def gather(
    folder: Path, known: Mapping[str, Any] = MappingProxyType({}), drafts: bool = False
) -> tuple[SpecSet, list[Problem]]:
    """Reads everything readable under ``folder``, plus the faults of the rest.  Raises SpecError if there is no such folder.

    ``known`` (path -> model, or data of a side file) replaces files that were read before; a compiled ``Family``
    does too, but is not in the result.  With ``drafts`` a file of drafts/ replaces the file of ops/ with the same
    name, or is added.
    """
    if not folder.is_dir():
        raise SpecError(
            [Problem(str(folder), 0, 0, "no such folder; give the folder that holds ops/ and backends/")]
        )
    reader = _Reader(folder, known, drafts)
    bases = reader.models("bases", BaseDef, "base")
    own = reader.models("ops", OpDef, "op")
    families = reader.models("torch", FamilyDef, "family")
    errata = reader.models("errata", Erratum, "erratum")
    backends = reader.models("backends", Backend, "backend")
    if (folder / "backends.yaml").exists():
        cure = "each backend has a file of its own, e.g. backends/HTP.yaml; move its fields there"
        reader.problems.append(Problem("backends.yaml", 1, 1, cure))
    ops = reader.resolved(own, bases)
    socs, retired = reader.side_file("socs"), reader.side_file("retired")
    specs = SpecSet(ops, own, bases, families, errata, backends, reader.documents, socs, retired)
    return specs, reader.problems


class _Reader:
    """The documents of a folder that could be parsed, and the faults found so far."""

    def __init__(self, folder: Path, known: Mapping[str, Any], drafts: bool) -> None:
        self.folder, self.known = folder, known
        self.names = spec_files(folder)
        if drafts:
            self.names |= {f"ops/{path.name}": path for path in sorted((folder / "drafts").glob("*.yaml"))}
        self.problems: list[Problem] = []
        self.documents: dict[str, Document] = {}
        for name, path in self.names.items():
            if name not in known:
                self._parse(name, path)

    def _parse(self, name: str, path: Path) -> None:
        try:
            self.documents[name] = expanded(parse_document(path.read_text(encoding="utf-8"), name))
        except SpecError as error:
            self.problems += error.problems
        except (OSError, UnicodeDecodeError) as error:
            self.problems.append(Problem(name, 0, 0, f"cannot read: {error}"))

    def models(self, kind: str, model: type[M], key: str) -> dict[str, M]:
        """The models of one folder by name: those that are known, and those that can be loaded."""
        found: dict[str, M] = {}
        for name in (name for name in self.names if name.startswith(f"{kind}/")):
            known = self.known.get(name)
            item = known if isinstance(known, model) else self._loaded(name, kind, model, key)
            if item is not None:
                found[getattr(item, key)] = item
        return found

    def _loaded(self, name: str, kind: str, model: type[M], key: str) -> M | None:
        document = self.documents.get(name)
        if document is None:
            return None
        try:
            item = load(model, document)
        except SpecError as error:
            self.problems += error.problems
            return None
        proper = spec_name(kind, getattr(item, key))
        if proper != name:
            self.problems.append(document.problem((key,), f"the file must be named {proper}"))
            if kind == "errata":
                return None  # it would replace another record
        return item

    def resolved(self, own: Mapping[str, OpDef], bases: Mapping[str, BaseDef]) -> dict[str, OpDef]:
        """The ops merged with their bases."""
        ops = {}
        for name, op in own.items():
            if op.extends is None or op.extends in bases:
                ops[name] = resolve(op, bases)
            elif f"bases/{op.extends}.yaml" not in self.names:  # otherwise the base's own faults are reported
                hint = did_you_mean(op.extends, bases)
                file = f"ops/{name}.yaml"
                document = self.documents.get(file) or reread(self.folder, file)
                self.problems.append(
                    document.problem(("extends",), f"no base '{op.extends}' in bases/{hint}")
                )
        return ops

    def side_file(self, name: str) -> Any:
        """The data of a file such as socs.yaml; None if there is none, or it could not be parsed."""
        file = f"{name}.yaml"
        if file in self.known:
            return self.known[file]
        return self.documents[file].data if file in self.documents else None


def reread(folder: Path, name: str) -> Document:
    """Parses a file known to be valid again, for the places in it."""
    return expanded(parse_document(spec_files(folder)[name].read_text(encoding="utf-8"), name))
