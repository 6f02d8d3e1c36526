"""YAML files <-> models, with positions.  The only module that knows the YAML library.

``read_folder`` reads everything and reports all faults of all files together (SpecError).
"""

from __future__ import annotations

import difflib
import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, NodeEvent, ScalarEvent
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from opdb.errors import Problem, SpecError
from opdb.model import BaseDef, Decomposition, OpDef, resolve

MAX_BYTES = 256 * 1024
MAX_NESTING = 24
#: What under specs/ defines the catalogue: folders of one model per file, and files of their own form.
KINDS = ("bases", "decompositions", "ops")
SIDE_FILES = ("backends", "retired", "socs")
M = TypeVar("M", bound=BaseModel)
Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """One YAML file: its data as plain Python, and where each path in it stands (line, column from 1)."""

    path: str  # as shown in messages: relative to the folder that was read
    text: str
    data: Any
    places: Mapping[Path_, tuple[int, int]] = field(repr=False)

    def problem(self, at: Path_, message: str, offset: int = 0) -> Problem:
        """A fault at a path of the data, or at the nearest enclosing place that has a position."""
        while at and at not in self.places:
            at = at[:-1]
        line, column = self.places.get(at, (1, 1))
        return Problem(self.path, line, column + offset, message)


@dataclass(frozen=True)
class SpecSet:
    """Everything under specs/, validated by the models but not yet by the rule compiler."""

    ops: dict[str, OpDef]  # with bases merged
    own: dict[str, OpDef]  # as each file says it
    bases: dict[str, BaseDef]
    decompositions: dict[str, Decomposition]
    documents: dict[str, Document]  # by path
    backends: Any
    socs: Any
    retired: Any

    def document(self, kind: str, name: str) -> Document:
        return self.documents[f"{kind}/{name}.yaml"]


def parse_document(text: str, path: str) -> Document:
    """The data of one YAML text.  Raises SpecError for what is not plain YAML 1.2 data."""
    if len(text.encode()) > MAX_BYTES:
        raise SpecError([Problem(path, 0, 0, f"a spec file has at most {MAX_BYTES // 1024} KiB")])
    _refuse_features(text, path)
    yaml = YAML(typ="rt", pure=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            node: Node | None = yaml.compose(io.StringIO(text))
            loaded = yaml.load(io.StringIO(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise SpecError([Problem(path, line, column, _yaml_message(error))]) from None
    except (YAMLError, ValueError, RecursionError) as error:
        raise SpecError([Problem(path, 1, 1, f"not YAML: {error}")]) from None
    places: dict[Path_, tuple[int, int]] = {}
    if node is not None:
        _places(node, (), places)
    return Document(path, text, _plain(loaded), places)


def _refuse_features(text: str, path: str) -> None:
    yaml = YAML(typ="rt", pure=True)
    depth = 0
    try:
        for event in yaml.parse(io.StringIO(text)):
            anchored = isinstance(event, NodeEvent) and getattr(event, "anchor", None)
            tagged = getattr(event, "tag", None) if not isinstance(event, ScalarEvent) or event.tag else None
            line, column = event.start_mark.line + 1, event.start_mark.column + 1
            if isinstance(event, AliasEvent) or anchored:
                raise SpecError(
                    [
                        Problem(
                            path,
                            line,
                            column,
                            "anchors and aliases (& and *) are not allowed; write [S...], not [*S]",
                        )
                    ]
                )
            if tagged and not str(tagged).startswith("tag:yaml.org,2002:"):
                raise SpecError([Problem(path, line, column, f"tags are not allowed: {tagged}")])
            name = type(event).__name__
            depth += name.endswith("StartEvent") - name.endswith("EndEvent")
            if depth > MAX_NESTING:
                raise SpecError([Problem(path, line, column, f"nested deeper than {MAX_NESTING} levels")])
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise SpecError([Problem(path, line, column, _yaml_message(error))]) from None
    except (YAMLError, ValueError, RecursionError) as error:
        raise SpecError([Problem(path, 1, 1, f"not YAML: {str(error).splitlines()[0]}")]) from None


def _yaml_message(error: MarkedYAMLError) -> str:
    problem = (error.problem or "not YAML").split("\n")[0]
    if "duplicate key" in problem:
        return problem.split(" with value")[0].replace("found duplicate key", "the key is given twice:")
    return f"not YAML: {problem}" + "; an expression with [ ] { } or ', ' inside {...} needs quotes" * (
        "flow" in str(error)
    )


def _places(node: Node, at: Path_, out: dict[Path_, tuple[int, int]]) -> None:
    out.setdefault(at, (node.start_mark.line + 1, node.start_mark.column + 1))
    if isinstance(node, MappingNode):
        for key, value in node.value:
            name = key.value
            _places(value, (*at, name), out)
            out[(*at, name, "__key__")] = (key.start_mark.line + 1, key.start_mark.column + 1)
    elif isinstance(node, SequenceNode):
        for i, value in enumerate(node.value):
            _places(value, (*at, i), out)


def _plain(value: Any) -> Any:
    if isinstance(value, (dict, CommentedMap)):
        return {(k if isinstance(k, str) else str(k)): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, CommentedSeq)):
        return [_plain(v) for v in value]
    if isinstance(value, bool) or value is None:
        return value
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return str(value)


def load(model: type[M], document: Document) -> M:
    """The model in a document; SpecError with all faults and their places."""
    if not isinstance(document.data, dict):
        raise SpecError([Problem(document.path, 1, 1, "expected a mapping; ex) op: Relu")])
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        raise SpecError([_pydantic_problem(document, model, dict(e)) for e in error.errors()]) from None


def _pydantic_problem(document: Document, model: type[BaseModel], error: dict[str, Any]) -> Problem:
    at: Path_ = tuple(p for p in error["loc"] if (p in ("[key]",)) is False)
    message = str(error["msg"]).removeprefix("Value error, ")
    # Unions add the name of the alternative to the place; drop what is not in the file.
    while at and at not in document.places:
        shorter = at[:-1]
        if error["type"] == "extra_forbidden" and (*shorter, at[-1], "__key__") in document.places:
            break
        at = shorter
    if error["type"] == "extra_forbidden":
        key = str(error["loc"][-1])
        known = _fields_at(model, error["loc"][:-1])
        close = difflib.get_close_matches(key, known, 1)
        hint = f"; did you mean '{close[0]}'?" if close else (f"; known: {', '.join(known)}" if known else "")
        message = f"unknown field '{key}'{hint}"
    elif error["type"] == "missing":
        message = f"the field '{error['loc'][-1]}' is missing"
    elif error["type"] == "string_pattern_mismatch":
        message = f"{error['input']!r} does not have the form that is needed here ({error['ctx']['pattern']})"
    key_place = (*at, "__key__")
    return document.problem(
        key_place if error["type"] == "extra_forbidden" and key_place in document.places else at, message
    )


def _fields_at(model: type[BaseModel], loc: tuple[Any, ...]) -> list[str]:
    """The field names of the model that stands at ``loc``, as far as annotations tell."""
    current: Any = model
    for part in loc:
        if isinstance(current, type) and issubclass(current, BaseModel) and part in current.model_fields:
            current = current.model_fields[part].annotation
        args = getattr(current, "__args__", None)
        if args:
            models = [a for a in args if isinstance(a, type) and issubclass(a, BaseModel)]
            current = models[-1] if models else current
    return list(current.model_fields) if isinstance(current, type) and issubclass(current, BaseModel) else []


def read_folder(folder: Path) -> SpecSet:
    """Everything under ``folder`` (a specs/ tree).  Raises SpecError with all faults of all files."""
    specs, problems = gather(folder)
    if problems:
        raise SpecError(problems)
    return specs


def spec_paths(folder: Path) -> list[Path]:
    """The files that define the catalogue, in order of name."""
    side = [folder / f"{name}.yaml" for name in SIDE_FILES]
    return sorted(
        [p for kind in KINDS for p in (folder / kind).glob("*.yaml")] + [p for p in side if p.is_file()]
    )


def gather(folder: Path, known: Mapping[str, Any] = MappingProxyType({})) -> tuple[SpecSet, list[Problem]]:
    """What can be read under ``folder``, and the faults of the rest; SpecError if there is no such folder.

    ``known`` (path -> model, or data of a side file) stands for files that have been read before.
    """
    if not folder.is_dir():
        raise SpecError(
            [Problem(str(folder), 0, 0, "no such folder; give the folder that holds ops/ and backends.yaml")]
        )
    problems: list[Problem] = []
    documents: dict[str, Document] = {}
    names = {path.relative_to(folder).as_posix(): path for path in spec_paths(folder)}
    for name, path in names.items():
        if name in known:
            continue
        try:
            documents[name] = parse_document(path.read_text(encoding="utf-8"), name)
        except SpecError as error:
            problems += error.problems
        except (OSError, UnicodeDecodeError) as error:
            problems.append(Problem(name, 0, 0, f"cannot read: {error}"))

    def each(kind: str, model: type[M], key: str) -> dict[str, M]:
        out: dict[str, M] = {}
        for name in names:
            if not name.startswith(f"{kind}/"):
                continue
            if name in known:
                out[getattr(known[name], key)] = known[name]
            document = documents.get(name)
            if document is None:
                continue
            try:
                item = load(model, document)
            except SpecError as error:
                problems.extend(error.problems)
                continue
            if f"{kind}/{getattr(item, key)}.yaml" != name:
                problems.append(document.problem((key,), f"the file must be named {getattr(item, key)}.yaml"))
            out[getattr(item, key)] = item
        return out

    bases = each("bases", BaseDef, "base")
    own = each("ops", OpDef, "op")
    decompositions = each("decompositions", Decomposition, "decomposition")
    ops = {}
    for name, op in own.items():
        if op.extends is not None and op.extends not in bases:
            if f"bases/{op.extends}.yaml" in names:
                continue  # the base's own faults say what is wrong
            close = difflib.get_close_matches(op.extends, bases, 1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            document = documents.get(f"ops/{name}.yaml") or reread(folder, f"ops/{name}.yaml")
            problems.append(document.problem(("extends",), f"no base '{op.extends}' in bases/{hint}"))
        else:
            ops[name] = resolve(op, bases)
    side = {n: known[f"{n}.yaml"] if f"{n}.yaml" in known else documents[f"{n}.yaml"].data if f"{n}.yaml" in documents else None
            for n in SIDE_FILES}  # fmt: skip
    return SpecSet(
        ops, own, bases, decompositions, documents, side["backends"], side["socs"], side["retired"]
    ), problems


def reread(folder: Path, name: str) -> Document:
    """The document of a file that is known to be sound, for the places in it."""
    return parse_document((folder / name).read_text(encoding="utf-8"), name)


def dump(model: BaseModel) -> str:
    """The canonical YAML of a model: short spellings, fields in the order of the file format."""
    data = model.model_dump(mode="json")
    first = ("op", "base", "decomposition", "package", "extends")
    data = {k: data[k] for k in first if k in data} | {k: v for k, v in data.items() if k not in first}
    yaml = YAML(typ="rt", pure=True)
    yaml.width, yaml.default_flow_style = 4096, False
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    yaml.dump(_styled(data, ()), out)
    return out.getvalue()


def _styled(value: Any, at: Path_) -> Any:
    """Shapes, rows and samples in flow style; the rest in block style."""
    if isinstance(value, dict):
        flow = (len(at) >= 2 and at[0] == "samples") or (len(at) == 5 and at[2] == "dtypes")
        out = CommentedMap((k, _styled(v, (*at, k))) for k, v in value.items())
        if flow:
            out.fa.set_flow_style()
        return out
    if isinstance(value, list):
        seq = CommentedSeq(_styled(v, (*at, i)) for i, v in enumerate(value))
        if all(not isinstance(v, (dict, list)) for v in value) or (at and at[0] == "samples" and len(at) > 1):
            seq.fa.set_flow_style()
        return seq
    return value
