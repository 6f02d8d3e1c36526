"""Turns a ``Collection`` into drafts of specs, each with comments on what the rule language cannot express."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from opdb.author.importers import samples
from opdb.author.importers.naming import symbol
from opdb.author.importers.opxml.collection import LAYOUTS, RANKS, Collection, OpXml, Supplement, Tensor
from opdb.author.importers.opxml.specs import BACKEND_RULES, EXPECTED, split
from opdb.author.importers.settle import settle
from opdb.author.importers.slots import KINDS
from opdb.catalog import facts
from opdb.core.errors import OpdbError
from opdb.judge import trial
from opdb.spec import files as spec
from opdb.spec.backend import Backend
from opdb.spec.fields import RESERVED, SOURCE
from opdb.spec.lang.functions import FUNCTIONS
from opdb.spec.model import OpDef

NAME = re.compile(r"[A-Za-z_]\w*")
SAME = re.compile(r"(?:the )?same (?:shape |size |dimensions? )?as (.+)", re.IGNORECASE)
ABSENT = re.compile(r"none|null|n/?a", re.IGNORECASE)


@dataclass(frozen=True)
class XmlDraft:
    """The text of a spec that compiles.  ``words``: parts of the XML that it does not express."""

    op: str
    text: str
    words: tuple[str, ...]


def drafts(found: Collection, document: str, backends: Mapping[str, Backend]) -> list[XmlDraft]:
    """A draft of each op.  ``document`` is the file's name, for sources.

    Raises OpdbError for a backend that is not in ``backends``, or an op that cannot become a spec.
    """
    for supplement in found.supplements:
        _known_backend(supplement.backend, backends, supplement.line, document)
    return [_draft(found, op, document, backends) for op in found.ops]


def _known_backend(name: str, backends: Mapping[str, Backend], line: int, document: str) -> str:
    """The base name of a known backend, e.g. HTP for HTP and HTP_V75.  Raises OpdbError for an unknown one."""
    base = name.partition("_")[0].upper()
    if base not in backends:
        raise OpdbError(f"{document}:{line}: the backend {name!r} is not known; known: {', '.join(backends)}")
    return base


def _draft(found: Collection, op: OpXml, document: str, backends: Mapping[str, Backend]) -> XmlDraft:
    maker = _Maker(found, op, document, backends)
    data = maker.data()
    try:
        compiled = settle(data, maker.words)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"]))
        raise OpdbError(f"{document}:{op.line}: <OpDef>: {op.name}: {at}: {first['msg']}") from None
    judge = trial.valid(compiled)
    seen = [{maker.names[slot]: v for slot, v in use.items()} for use in op.examples]
    made = [*seen, *(s for s in samples.samples(compiled.definition) if s not in seen)]
    data["samples"] = [s for s in made if judge(s)]
    words = tuple(dict.fromkeys(maker.words))
    text = spec.dump(OpDef.model_validate(data))
    return XmlDraft(op.name, text + "".join(f"# not expressed: {w}\n" for w in words), words)


class _Maker:
    def __init__(self, found: Collection, op: OpXml, document: str, backends: Mapping[str, Backend]) -> None:
        self.found, self.op, self.document, self.backends = found, op, document, backends
        self.words: list[str] = [f"{e}: no such element is known" for e in op.unread]
        file, version = (re.sub(r"[@#\s]", "_", part) for part in (document, found.version))
        self.source = f"{file}@{version}#{op.name}"
        self.names = self._names()
        self.lets: dict[str, str] = {}
        for line in op.code:
            match = re.fullmatch(r"([A-Za-z_]\w*) = (.+)", line)
            if match:
                self.lets[match[1]] = match[2]
            else:
                self.words.append(f"code: {line}")

    def data(self) -> dict[str, Any]:
        op = self.op
        source = next((s for s, _ in op.references if re.match(SOURCE, s)), self.source)
        self.words += [f"reference: {s} {u}".rstrip() for s, u in op.references if s != source]
        if op.default_translation not in (None, op.name in facts.documented_ops()):
            self.words.append(f"UseDefaultTranslation is {str(op.default_translation).lower()}")
        data: dict[str, Any] = {"op": op.name, "package": self.found.package}
        data |= {"summary": op.description, "source": source}
        data |= {
            "inputs": {self.names[t.role, t.name]: self._slot(t) for t in op.of("Input")},
            "params": {self.names[t.role, t.name]: self._param(t) for t in op.of("Parameter")},
            "let": dict(self.lets),
            "outputs": {self.names[t.role, t.name]: self._slot(t) for t in op.of("Output")},
            "constraints": {},
            "backends": {},
        }
        self._rules(op.tensors, data["constraints"], "C", 0)
        for t in op.tensors:
            self._unshaped(t, data["constraints"])
        for backend in self._supporting():
            data["backends"][backend] = self._backend(backend, data)
        data["quant"] = {next(iter(data["outputs"])): "calibrate"}
        return {k: v for k, v in data.items() if v is not None}

    def _names(self) -> dict[tuple[str, str], str]:
        """The names in the spec: in[0] becomes x if it is the only input."""
        out: dict[tuple[str, str], str] = {}
        for role, alone, many in (("Parameter", "", ""), ("Input", "x", "in"), ("Output", "y", "out")):
            tensors = self.op.of(role)
            for t in tensors:
                position = re.fullmatch(r"(?:in|out)\[(\d+)[^\]]*\]", t.name)
                if position:
                    name = alone if len(tensors) == 1 else f"{many}{position[1]}"
                else:
                    name = re.sub(r"\W", "_", t.name, flags=re.ASCII)[:50]
                    name = name if NAME.fullmatch(name) else f"_{name}"
                while name in out.values() or name in RESERVED or name in FUNCTIONS:
                    if role == "Parameter":
                        raise OpdbError(
                            f"{self.document}:{t.line}: <Name>: the parameter {t.name!r} of {self.op.name} has a "
                            "name that generated code cannot use; rename it"
                        )
                    name += "_"
                out[role, t.name] = name
        return out

    def _supporting(self) -> list[str]:
        """The backends of the op, and words for those with only one architecture."""
        named = list(self.op.backends)
        named += [s.backend for s in self.found.supplements if self.op.name in (*s.ops, *s.tensors)]
        out: dict[str, None] = {}
        for name in named:
            base = _known_backend(name, self.backends, self.op.line, self.document)
            if base != name:
                self.words.append(f"{base}: only {name}")
            out.setdefault(base)
        return list(out)

    # -- slots and parameters

    def _slot(self, t: Tensor) -> dict[str, Any]:
        own = self.names[t.role, t.name]
        entry: dict[str, Any] = {"shape": self._shape(t, own)}
        if t.dtypes:
            entry["dtype"] = list(t.dtypes)
        entry |= {"optional": not t.mandatory, "static": t.static and t.role == "Input", "doc": t.description}
        entry["layout"] = t.layout if t.layout in LAYOUTS else None
        if t.repeated:
            entry |= {"variadic": True, **self._count(t, own)}
            match = re.fullmatch(rf"{own}\[([a-z_]\w*)\]: (.+)", t.text or "")
            if match:
                entry |= {"index": match[1], "shape": match[2]}
        if t.default is not None and not ABSENT.fullmatch(t.default):
            self.words.append(f"{own}: its default is {t.default}")
        self.words += [f"{own}: code: {c}" for c in t.code]
        return {k: v for k, v in entry.items() if v is not None and v is not False}

    def _count(self, t: Tensor, own: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for c in t.constraints:
            match = re.fullmatch(rf"len\({own}\) (>=|==) (.+)", c.text)
            if c.kind == "Number" and match and match[1] == "==":
                out["count"] = match[2]
            elif c.kind == "Number" and match and match[2].isdigit():
                out["min"] = int(match[2])
        return out

    def _shape(self, t: Tensor, own: str) -> Any:
        """The shape stated in the text, else one with the stated rank."""
        dims = RANKS[t.rank or "ND"]
        text = t.text or ""
        if same := self._same_as(t, text):
            return self._shape(same, self.names[same.role, same.name])
        if text.startswith("[") and text.endswith("]") and " for " not in text:
            parts = [self._dim(p) for p in split(text[1:-1])]
            fits = dims is None or len(parts) == dims
            if fits and all(_parses(p.removesuffix("...")) for p in parts):
                return parts
        elif text == "any" or (text and NAME.fullmatch(text) is None and _parses(text)):
            return text
        if text and not (t.repeated and re.fullmatch(rf"{own}\[\w+\]: .+", text)):
            self.words.append(f"shape of {own}: {text}")
        if t.repeated:
            return None if t.role == "Input" else "any"
        stem = "S" if own in ("x", next(iter(self.names.values()))) else symbol(own)
        if t.role == "Output":
            return "any"
        if not t.mandatory:
            return None
        return [f"{stem}..."] if dims is None else [f"{stem}{i}" for i in range(dims)]

    def _same_as(self, t: Tensor, text: str) -> Tensor | None:
        """The input whose shape is meant by a text like "same as input" or "Same shape as in[0]"."""
        match = SAME.fullmatch(text.strip())
        others = [i for i in self.op.of("Input") if i is not t and not i.repeated]
        if match is None or not others:
            return None
        name = match[1].strip(" '\"`.")
        if name.lower() in ("input", "the input", "input tensor"):
            return others[0]
        return next((i for i in others if name in (i.name, self.names[i.role, i.name])), None)

    def _dim(self, text: str) -> str:
        """A dim; a single lowercase word becomes a symbol."""
        lone = NAME.fullmatch(text) and text[0].islower()
        return symbol(text) if lone and text not in {*self.names.values(), *self.lets} else text

    def _unshaped(self, t: Tensor, rules: dict[str, Any]) -> None:
        """Adds a rule for the rank of a slot whose shape does not state it."""
        dims, own = RANKS[t.rank or "ND"], self.names[t.role, t.name]
        if t.role == "Parameter" or dims is None or t.repeated:
            return
        shape = self._quietly(t, own)
        if shape not in (None, "any"):
            return
        rule = f"{own}.rank == {dims}"
        if not any(_text(r) == rule for r in rules.values()):
            rules[_free("C", rules)] = rule if t.mandatory else {"when": f"present({own})", "require": rule}

    def _quietly(self, t: Tensor, own: str) -> Any:
        kept = list(self.words)
        shape = self._shape(t, own)
        self.words[:] = kept
        return shape

    def _param(self, t: Tensor) -> Any:
        own = self.names[t.role, t.name]
        known = (
            t.dtypes or tuple(dict.fromkeys(d for s in self._supplemented(t) for d in s.dtypes)) or ("f32",)
        )
        if len(t.dtypes) != 1:
            self.words.append(f"{own}: taken as {known[0]}; given: {', '.join(known)}")
        base = known[0]
        if t.enum:
            values = ", ".join(f"{n}: {i}" for i, n in enumerate(t.enum))
            base = f"enum {'i32 ' if base == 'i32' else ''}{{{values}}}"
        dims = "".join(f"[{d}]" for d in self._dims(t, own))
        default = self._default(t, known[0])
        tail = f" = {default}" if default is not None else "" if t.mandatory else "?"
        kind = KINDS.get(own)
        entry = {"type": base + dims + tail, "kind": kind, "doc": t.description}
        self.words += [f"{own}: code: {c}" for c in t.code]
        return {k: v for k, v in entry.items() if v is not None}

    def _supplemented(self, t: Tensor) -> list[Tensor]:
        return [
            s
            for supplement in self.found.supplements
            for s in supplement.tensors.get(self.op.name, ())
            if (s.role, s.name) == (t.role, t.name)
        ]

    def _dims(self, t: Tensor, own: str) -> list[str]:
        rank = RANKS[t.rank or "SCALAR"]
        rank = 1 if rank is None else rank
        if rank > 2:
            raise OpdbError(
                f"{self.document}:{t.line}: <Parameter>: {own} of {self.op.name} has {rank} dims; a spec has two at most"
            )
        parts = split((t.text or "").strip("[]")) if rank else []
        if len(parts) != rank:
            if t.text:
                self.words.append(f"shape of {own}: {t.text}")
            parts = [""] * rank
        return [p if p.isdigit() else "" for p in parts]

    def _default(self, t: Tensor, dtype: str) -> str | None:
        text = t.default
        if text is None or ABSENT.fullmatch(text):
            return None
        text = text.replace("{", "[").replace("}", "]")
        if t.enum:
            if text in t.enum:
                return text
            if text.isdigit() and int(text) < len(t.enum):
                return t.enum[int(text)]
        if dtype == "bool8" and text.lower() in ("0", "1", "true", "false"):
            return "true" if text.lower() in ("1", "true") else "false"
        if dtype == "str" and not _parses(text):
            return json.dumps(text)
        if _parses(text):
            return text
        self.words.append(f"default of {self.names[t.role, t.name]}: {text}")
        return None

    # -- rules and backends

    def _rules(self, tensors: tuple[Tensor, ...], rules: dict[str, Any], letter: str, offset: int) -> None:
        """Adds the constraints that may be rules, under their numbers; words for the others."""
        found = [(c, self.names[t.role, t.name], t.repeated) for t in tensors for c in t.constraints]
        taken: dict[str, Any] = {}
        for c, own, repeated in sorted(found, key=lambda entry: entry[0].number):
            if repeated and c.kind == "Number" and re.fullmatch(rf"len\({own}\) (>=|==) .+", c.text):
                continue
            rule = _rule(c.text, {*self.names.values(), *self.lets})
            if rule is None:
                self.words.append(f"{own}: {c.text}")
                continue
            number = c.number - offset if c.number > offset else c.number
            ident = f"{letter}{number}"
            taken[ident if number > 0 and ident not in taken else _free(letter, taken)] = rule
        rules |= taken

    def _backend(self, backend: str, data: dict[str, Any]) -> dict[str, Any]:
        parts = [s for s in self.found.supplements if s.backend.partition("_")[0].upper() == backend]
        tensors = tuple(t for s in parts for t in s.tensors.get(self.op.name, ()))
        rules: dict[str, Any] = {}
        letter = self.backends[backend].letter
        before = len(self.words)
        self._rules(tensors, rules, letter, BACKEND_RULES)
        for t in tensors:
            if t.only_default:
                self._only_default(t, rules, letter, data)
            for what, value in (("layout", t.layout), ("shape", t.text)):
                if value:
                    self.words.append(f"{what} of {self.names[t.role, t.name]}: {value}")
        entry: dict[str, Any] = {"source": self.source, "constraints": rules}
        row = self._row(parts)
        if row is not None:
            entry["dtypes"] = {self.found.rows: [row]}
        self.words[before:] = [f"{backend}: {w}" for w in self.words[before:]]
        return entry

    def _row(self, parts: list[Supplement]) -> dict[str, list[str]] | None:
        row: dict[str, list[str]] = {}
        for t in (*self.op.of("Input"), *self.op.of("Output")):
            own = self.names[t.role, t.name]
            found = [
                d
                for s in parts
                for e in s.tensors.get(self.op.name, ())
                if (e.role, e.name) == (t.role, t.name)
                for d in e.dtypes
            ]
            row[own] = list(dict.fromkeys(found or t.dtypes))
        missing = [own for own, cell in row.items() if not cell]
        self.words += [f"types of {own}" for own in missing]
        return None if missing else row

    def _only_default(self, t: Tensor, rules: dict[str, Any], letter: str, data: dict[str, Any]) -> None:
        own = self.names[t.role, t.name]
        default = str(data["params"].get(own, {}).get("type", "")).partition(" = ")[2]
        number = re.fullmatch(r"-?[\d.]+(e-?\d+)?", default) is not None
        choices = [f"not present({own})", f"{own} == {default}"]
        if t.role == "Output" or (t.role == "Input" and self.op.name and self._mandatory(t)):
            self.words.append(f"{own}: only its default")
        elif not any(_text(r) in choices for r in rules.values()):
            rules[_free(letter, rules)] = choices[1] if number else choices[0]

    def _mandatory(self, t: Tensor) -> bool:
        return any(e.mandatory for e in self.op.tensors if (e.role, e.name) == (t.role, t.name))


def _rule(text: str, names: Iterable[str]) -> Any:
    """A rule of a spec, if the text looks like one; the compiler decides if it is valid."""
    expected = text.startswith(EXPECTED)
    when, arrow, body = text.removeprefix(EXPECTED).rpartition(" => ")
    if not _parses(body) or (arrow and not _parses(when)) or (NAME.fullmatch(body) and body not in names):
        return None
    if not expected and not arrow:
        return body
    return ({"when": when} if arrow else {}) | {"expect" if expected else "require": body}


def _text(rule: Any) -> str:
    return str(rule.get("require", "")) if isinstance(rule, dict) else str(rule)


def _free(letter: str, rules: Mapping[str, Any]) -> str:
    numbers = [int(n) for r in rules if (n := r.removeprefix(letter)).isdigit()]
    return f"{letter}{max(numbers, default=0) + 1}"


def _parses(text: str) -> bool:
    """True if the text has the syntax of an expression."""
    try:
        ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
