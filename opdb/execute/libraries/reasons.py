"""Parses a library's log of a refused op config to typed reasons.

The texts are those of CPU and HTP 2.47 to 2.51.  A line that matches no pattern is a reason of kind "other" with
its text; only lines that merely say that validation failed are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from opdb.core.dtypes import BY_QNN, DTYPES

#: inputs, outputs, params: their number.  missing: a mandatory one is absent.  dtypes: the combination of types has
#: no row.  unexplained: refused without a reason.
KINDS = (
    "op", "inputs", "outputs", "params", "missing", "rank", "dtype", "dtypes", "value", "duplicate", "divisible",
    "broadcast", "shape", "crash", "unexplained", "other",
)  # fmt: skip


@dataclass(frozen=True)
class Reason:
    """One complaint.  ``where`` is in[0], out[1], param[2] or a parameter's name; "" if the text names none.

    ``index`` counts dimensions or elements; ``expected`` and ``got`` are as printed, data types as short names.
    The numbers are the library's, and some of them are meaningless (docs/reference/probing.md).
    """

    kind: str
    where: str = ""
    index: int | None = None
    expected: str = ""
    got: str = ""
    text: str = ""

    def json(self) -> dict[str, Any]:
        """The fields that are set."""
        return {f.name: v for f in fields(self) if (v := getattr(self, f.name)) != "" and v is not None}


#: Lines that say that validation failed, or what would be accepted, but not what is wrong.
_EMPTY = re.compile(
    r"Op specific validation failed|\[QNN_CPU\] OpConfig validation failed|QnnBackend_validateOpConfig failed"
    r"|Failed to validate op |validateNativeOps |Please refer to the |Supported I/O datatype sets"
)
_BEGINNINGS = (
    (re.compile(r"Wrong number of (Input|Output|Param)\w* (?P<got>\d+)"), ""),
    (re.compile(r"Found incorrect number of found Param\w+\. Found (?P<got>\d+) expected (?P<expected>\d+)"), "params"),
    (re.compile(r"Number of (input|output)s needs to be (?P<expected>\S+ \d+)"), ""),
    (re.compile(r"(Input|Output)\[\d+\] of ID \d+ was NULL but is mandatory"), "missing"),
    (re.compile(r"Received NULL for mandatory Param at index (?P<param>\d+)"), "missing"),
    (re.compile(r".*must be provided when"), "missing"),
    (re.compile(r".*was provided when"), "params"),
    (re.compile(r".*Invalid OpPackage|Op package .* not found"), "op"),
    (re.compile(r"Unsupported input/output datatypes|None of the combinations match"), "dtypes"),
    (re.compile(r".*\bdata ?type", re.I), "dtype"),
    (re.compile(r".*has incorrect Value (?P<got>-?\d+)(, expected equal to (?P<expected>-?\d+))?"), "value"),
    (re.compile(r".*\b(duplicate|repeated)\b", re.I), "duplicate"),
    (re.compile(r".*\b(divisible|multiple of)\b", re.I), "divisible"),
    (re.compile(r".*\bbroadcast", re.I), "broadcast"),
    (re.compile(r".*\b(out of range|in range|greater than|negative value|not less than|is zero|are invalid)\b", re.I), "value"),
    (re.compile(r".*\brank\b", re.I), "rank"),
    (re.compile(r".*\b(dim|dims|dimensions?|shapes?|height|width|depth|batch|channels?|channel_out|elements|num\w*|"
                r"number of updates|filter|equal)\b", re.I), "shape"),
)  # fmt: skip
_SLOT = re.compile(r"\b(in|input|out|output|param)s? ?\[(\d+)\]|^(in|out)put (\d+) has", re.I)
_INDEX = re.compile(r"\bat (?:index|idx|dimension|dim|axis dim|axis) (\d+)", re.I)
_WORD = r"(\[[^\]]*\]|[-\w.]+?(?: or \d+)*)"
_PAIRS = (
    (re.compile(rf"got {_WORD},? but ex\w+ected {_WORD}(?=[.,; ]|$)", re.I), ("got", "expected")),
    (re.compile(rf"dimensions {_WORD}\. Expected dimensions {_WORD}(?=[.,; ]|$)", re.I), ("got", "expected")),
    (re.compile(rf"\bex\w+ected (?:\w+ )??\(?{_WORD}\)?,? (?:and |but )?(?:got|was) {_WORD}\)?(?=[.,; ]|$)", re.I),
     ("expected", "got")),
    (re.compile(rf"(?:was|dimension) {_WORD}(?: at dimension \d+)?,? (?:but )?expected {_WORD}(?=[.,; ]|$)", re.I), ("got", "expected")),
    (re.compile(rf"{_WORD} !=? {_WORD}(?=[.,; ]|$)"), ("got", "expected")),
    (re.compile(r"to be (max\(.*?\)) but was (\d+)"), ("expected", "got")),
    (re.compile(r"(?:incorrect Rank|Datatype|data type|\bgot) (\w+)", re.I), ("got",)),
)  # fmt: skip
_CODES = {f"0x{d.code:x}": d.short for d in DTYPES}
_ROW = re.compile(r"(in|out)\[(\d+)\]:\s*QNN_DATATYPE_(\w+)")


def parse(log: Sequence[str]) -> tuple[Reason, ...]:
    """The typed reasons in the log of a refusal, each once, in the order of the lines.

    Warnings count if no error gives a reason.  A refusal without any is "unexplained".
    """
    found: list[Reason] = []
    for level in ("error: ", "warning: "):
        if not found:
            lines = [line.removeprefix(level) for line in log if line.startswith(level)]
            found = [_reason(line) for line in lines if not _EMPTY.search(line)]
            asked = next((line for line in lines if line.startswith("Requested I/O datatype set")), None)
            found = _with_types(found, asked)
    return tuple(dict.fromkeys(found)) or (Reason("unexplained"),)


def kept(log: Sequence[str]) -> tuple[str, ...]:
    """The lines worth keeping as evidence: errors and warnings, without the lists of accepted values."""
    return tuple(
        line
        for line in log
        if line.startswith(("error: ", "warning: ", "output: "))
        and not line.removeprefix("error: ").startswith(
            ("Supported I/O datatype sets", "Please refer to the ")
        )
    )


def masked(text: str) -> str:
    """``text`` without its numbers, so that two sweeps give equal texts; see ``Reason``."""
    return re.sub(r"0x[0-9a-f]+|-?\d+(\.\d+)?(e[-+]\d+)?", "#", text)


def _reason(text: str) -> Reason:
    kind, match = next(((k, m) for p, k in _BEGINNINGS if (m := p.match(text))), ("other", None))
    named = {k: v for k, v in (match.groupdict() if match else {}).items() if v}
    if not kind and match is not None:
        kind = {"i": "inputs", "o": "outputs", "p": "params"}[str(match[1]).lower()[0]]
    counted = kind in ("inputs", "outputs", "params")
    where = f"param[{named.pop('param')}]" if "param" in named else "" if counted else _where(text)
    index = _INDEX.search(text)
    if not named and kind not in ("missing", "op"):
        pair = next(((m, names) for p, names in _PAIRS if (m := p.search(text))), None)
        named = {} if pair is None else dict(zip(pair[1], pair[0].groups(), strict=True))
    named = {k: _CODES.get(v, v) for k, v in named.items()}
    number = int(index[1]) if index and kind != "missing" else None
    return Reason(kind, where, number, named.get("expected", ""), named.get("got", ""), text)


def _where(text: str) -> str:
    slot = _SLOT.search(text)
    if slot is None:
        return ""
    name = {"i": "in", "o": "out", "p": "param"}[(slot[1] or slot[3]).lower()[0]]
    number = int(slot[2] or slot[4])
    return f"{name}[{number}]" if number < 2**16 else ""  # a wrapped -1 is not a slot number


def _with_types(found: list[Reason], asked: str | None) -> list[Reason]:
    """Adds the requested types, from the line that lists them, to the reason "dtypes"."""
    if asked is None:
        return found
    got = ", ".join(f"{s}[{n}] {BY_QNN[q].short if q in BY_QNN else q}" for s, n, q in _ROW.findall(asked))
    out = []
    for r in found:
        if r.kind == "dtypes":
            r = Reason(r.kind, r.where, None, "", got, r.text)
        if not r.text.startswith("Requested I/O"):
            out.append(r)
    return out
