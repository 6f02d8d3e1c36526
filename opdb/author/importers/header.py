"""Reads QnnOpDef.h: names of ops and parameters, values of enums; and compares it with the catalog."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opdb.author.importers.markup import read_bytes
from opdb.catalog import facts
from opdb.codegen.constants import PACKAGE, op_macro
from opdb.core.errors import OpdbError, Problem, SpecError
from opdb.spec import files as spec
from opdb.spec.catalog import Catalog
from opdb.spec.model import OpDef

DEFINE = re.compile(r"#\s*define\s+(QNN_OP\w*)\s+(.+)")
NAME = re.compile(r"[A-Za-z_]\w{0,59}", re.ASCII)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
VERSION = ("MAJOR", "MINOR", "PATCH")
COLUMNS = ("op", "what", "name", "change", "header", "catalog")


@dataclass
class HeaderOp:
    macro: str
    params: dict[str, dict[str, int]] = field(default_factory=dict)  # name -> values of its enum


@dataclass(frozen=True)
class Header:
    opset: str  # e.g. 1.33.0
    ops: Mapping[str, HeaderOp]


def read(path: Path) -> Header:
    """Raises OpdbError for a file that is not such a header, SpecError with all unreadable macros."""
    try:
        text = read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise OpdbError(f"{path}: not UTF-8 at byte {error.start}; expected QnnOpDef.h") from None
    text = COMMENT.sub(lambda m: "\n" * m[0].count("\n") or " ", text)
    defined = [
        (line, match[1], match[2].strip())
        for line, row in enumerate(text.splitlines(), 1)
        if (match := DEFINE.match(row.strip()))
    ]
    if not any(name.startswith("QNN_OP_") for _, name, _ in defined):
        raise OpdbError(f"{path}: defines no QNN_OP_ macro; expected QnnOpDef.h of a QNN SDK")
    depth = sum(len(re.findall(rf"^\s*#\s*{word}", text, re.MULTILINE)) * step
                for word, step in (("if", 1), ("endif", -1)))  # fmt: skip
    if depth > 0 or "/*" in text:
        raise OpdbError(
            f"{path}:{len(text.splitlines())}: the file ends inside #if or a comment; it is cut off"
        )
    return _header(path, defined)


def _header(path: Path, defined: list[tuple[int, str, str]]) -> Header:
    problems: list[Problem] = []
    ops: dict[str, HeaderOp] = {}
    version: dict[str, str] = {}
    macros: dict[str, str] = {}  # macro -> op
    params: dict[str, list[tuple[str, str]]] = {}  # op -> prefix of an enum's macros, and its parameter
    for line, macro, value in defined:
        text = re.fullmatch(r'"([^"\\]+)"', value)
        if macro.startswith("QNN_OPSET_VERSION_"):
            version[macro.removeprefix("QNN_OPSET_VERSION_")] = value.rstrip("uUlL")
        elif macro.startswith("QNN_OP_PACKAGE_NAME"):
            continue
        elif text and not NAME.fullmatch(text[1]):
            problems.append(Problem(str(path), line, 1, f"{macro}: {text[1]!r} is not a name"))
        elif text and "_PARAM_" in macro:
            owner = macros.get(macro.partition("_PARAM_")[0])
            if owner is None:
                problems.append(
                    Problem(str(path), line, 1, f"{macro}: no op of that macro is defined before it")
                )
            else:
                ops[owner].params.setdefault(text[1], {})
                params[owner].append((f"{macro.replace('_PARAM_', '_', 1)}_", text[1]))
        elif text:
            if text[1] in ops:
                problems.append(Problem(str(path), line, 1, f"{macro}: the op {text[1]!r} is there already"))
            ops[text[1]], macros[macro], params[text[1]] = HeaderOp(macro), text[1], []
        else:
            fault = _enum(macro, value, macros, params, ops)
            if fault:
                problems.append(Problem(str(path), line, 1, f"{macro}: {fault}"))
    missing = [part for part in VERSION if not version.get(part, "").isdigit()]
    if missing:
        problems.append(
            Problem(str(path), 0, 0, f"no number QNN_OPSET_VERSION_{missing[0]}; is the file whole?")
        )
    if problems:
        raise SpecError(problems)
    return Header(".".join(version[part] for part in VERSION), ops)


def _enum(
    macro: str, value: str, macros: Mapping[str, str], params: Mapping[str, list[tuple[str, str]]],
    ops: Mapping[str, HeaderOp],
) -> str | None:  # fmt: skip
    """Adds one value of an enum; returns the problem, if any."""
    try:
        number = int(value.strip("()").rstrip("uUlL"), 0)
    except ValueError:
        return f"{value!r} is neither a text nor a number"
    owners = [m for m in macros if macro.startswith(f"{m}_")]
    found = [
        (start, name, macros[m])
        for m in owners
        for start, name in params[macros[m]]
        if macro.startswith(start)
    ]
    if not found:
        return "belongs to no parameter that is defined before it"
    start, name, op = max(found, key=lambda entry: len(entry[0]))
    ops[op].params[name][macro.removeprefix(start)] = number
    return None


def compare(header: Header, catalog: Catalog) -> list[dict[str, Any]]:
    """Rows of COLUMNS for everything new in the header, gone from it, or different in the catalog."""
    rows: list[dict[str, Any]] = []
    ours = {name: op for name, op in catalog.ops.items() if op.package == PACKAGE}
    graphs = _graphs()
    for name in sorted({*header.ops, *ours}):
        theirs = header.ops.get(name)
        if theirs is not None and name not in ours and graphs.get(name) == set(theirs.params):
            continue
        if theirs is None or name not in ours:
            rows.append(
                _row(name, "op", name, theirs.macro if theirs else None, name if name in ours else None)
            )
            continue
        if theirs.macro != op_macro(name):
            rows.append(_row(name, "macro", name, theirs.macro, op_macro(name)))
        rows += _params(name, theirs, ours[name])
    return rows


def _graphs() -> dict[str, set[str]]:
    """The documented ops without tensors, which have no spec: their parameters are names of graphs."""
    ops = (facts.documented_op(name) for name in facts.documented_ops())
    return {op.name: {p.name for p in op.params} for op in ops if not op.outputs}


def _params(name: str, theirs: HeaderOp, ours: OpDef) -> list[dict[str, Any]]:
    rows = []
    for param in dict.fromkeys((*theirs.params, *ours.params)):
        if param not in theirs.params or param not in ours.params:
            rows.append(
                _row(
                    name, "parameter", param, param if param in theirs.params else None,
                    param if param in ours.params else None,
                )
            )  # fmt: skip
            continue
        values, known = theirs.params[param], ours.params[param].enum
        for value in dict.fromkeys((*values, *known)):
            if values.get(value) != known.get(value):
                rows.append(_row(name, "value", f"{param}.{value}", values.get(value), known.get(value)))
    return rows


def _row(op: str, what: str, name: str, header: Any, catalog: Any) -> dict[str, Any]:
    change = "gone" if header is None else "new" if catalog is None else "other"
    return dict(zip(COLUMNS, (op, what, name, change, header, catalog), strict=True))


def drafts(header: Header, catalog: Catalog, document: str) -> dict[str, str]:
    """Drafts by op: for ops missing in the catalog, and next versions of specs with different parameters or enums.

    A header lacks types, defaults, and slots: open points become comments at the end.
    """
    source = f"{document}@opset-{header.opset}"
    out: dict[str, str] = {}
    graphs = _graphs()
    for name, op in header.ops.items():
        own = catalog.own.get(name)
        if own is None and graphs.get(name) == set(op.params):
            continue
        if own is None:
            out[name] = _new(name, op, source)
        elif own.package == PACKAGE:
            text = _next(own, catalog.ops[name], op, source)
            if text is not None:
                out[name] = text
    return out


def _new(name: str, op: HeaderOp, source: str) -> str:
    params = {param: _type(values) for param, values in op.params.items()}
    data = {"op": name, "source": f"{source}#{op.macro}", "params": params}
    words = ["its inputs and outputs", *_open(op.params)]
    return _text(data, words, source)


def _next(own: OpDef, whole: OpDef, op: HeaderOp, source: str) -> str | None:
    data = own.model_dump(mode="json")
    fresh = {n: v for n, v in op.params.items() if n not in whole.params}
    changed = {
        n: {**whole.params[n].enum, **v}
        for n, v in op.params.items()
        if n in whole.params and any(whole.params[n].enum.get(e) != i for e, i in v.items())
    }
    if not fresh and not changed:
        return None
    params = data.setdefault("params", {})
    words = _open(fresh)
    for name, values in changed.items():
        old = whole.params[name]
        if not old.enum:
            words.append(f"{name} is an enum: {', '.join(f'{n} = {i}' for n, i in values.items())}")
            continue
        if len(set(values.values())) != len(values):
            words.append(f"{name}: two values of {source} and of the spec have one number")
            continue
        entry: Any = old.model_dump(mode="json")
        before = entry if isinstance(entry, str) else entry["type"]
        after = re.sub(r"\{.*?\}", _braces(values), before, count=1)
        params[name] = after if isinstance(entry, str) else {**entry, "type": after}
    params |= {name: _type(values) for name, values in fresh.items()}
    return _text(data, words, source)


def _type(values: Mapping[str, int]) -> str:
    return f"enum {_braces(values)}?" if values else "u32?"


def _braces(values: Mapping[str, int]) -> str:
    return "{" + ", ".join(f"{n}: {i}" for n, i in values.items()) + "}"


def _open(params: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Facts about parameters that a header lacks."""
    return [
        f"whether {name} is mandatory, its default" + ("" if values else " and its type (u32 stands for it)")
        for name, values in params.items()
    ]


def _text(data: Mapping[str, Any], words: list[str], source: str) -> str:
    text = spec.dump(OpDef.model_validate(data))
    return text + "".join(f"# not known from {source}: {word}\n" for word in words)
