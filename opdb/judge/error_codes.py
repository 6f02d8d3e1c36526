"""QNN's error codes and log lines in plain English: the meaning, the causes, and the commands to type next.

The texts and their sources are in error_codes.yaml, names and numbers in specs/abi/errors.yaml.  Nothing here needs a database
or a library of Qualcomm's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from opdb.core.errors import OpdbError
from opdb.core.guess import did_you_mean
from opdb.generated.constants.qnn_errors import NAMES, RANGES

Facts = dict[str, Any]
DATA = "error_codes.yaml"
#: Other programs print 64 bits; the low 16 are the code.
CODE_BITS = 0xFFFF
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20}")
_NAME = re.compile(r"QNN_\w+", re.I)
#: The id of a rule or an erratum.
_ID = re.compile(r"\w+[.-]\w+")
#: A code in a sentence: "failed to finalize graph with err 1002", "status 0x3ea", "Error code: 6031", "answers 14001".
_IN_TEXT = re.compile(
    r"\b(?:err(?:or)?(?: code)?|code|status|result|failed|returned|answer(?:s|ed)?|with)\b\W{0,4}(0x[0-9a-f]+|\d{4,5})\b",
    re.I,
)
#: The command for a code that has no entry; CODE stands for its number.
_ASK = {
    "run": 'opdb query evidence --where "code = CODE"',
    "to": "list the op configs that ended with this code",
}
_DOCTOR = {"run": "opdb doctor", "to": "see which libraries are here and what each can do"}


@dataclass(frozen=True)
class Cause:
    """One cause of a code, with its source."""

    why: str
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """One code, or one kind of log line: meaning, causes, commands, pages to read, and sources."""

    code: int | None
    says: tuple[str, ...]  # parts of the log line; () for a code
    means: str
    causes: tuple[Cause, ...]
    steps: tuple[Mapping[str, str], ...]  # run, to
    see: tuple[str, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Known:
    """All entries, and what the modules of QNN's interface are about."""

    codes: Mapping[int, Entry]
    lines: tuple[Entry, ...]
    families: Mapping[str, str]


@cache
def known() -> Known:
    """The entries of error_codes.yaml, read at the first use."""
    import yaml

    text = files("opdb.judge").joinpath(DATA).read_text(encoding="utf-8")
    data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    short = data["sources"]
    return Known(
        {code: _entry(code, raw, short) for code, raw in data["codes"].items()},
        tuple(_entry(raw.get("code"), raw, short) for raw in data["lines"]),
        data["families"],
    )


def _entry(code: int | None, raw: Mapping[str, Any], short: Mapping[str, str]) -> Entry:
    """One entry, with its sources written out."""
    causes = tuple(Cause(_plain(c["why"]), _sources(c["source"], short)) for c in raw.get("causes", ()))
    return Entry(
        code,
        tuple(raw.get("says", ())),
        _plain(raw["means"]),
        causes,
        tuple(raw["steps"]),
        tuple(raw.get("see", ())),
        _sources(raw["source"], short),
    )


def _plain(text: str) -> str:
    return " ".join(text.split())


def _sources(written: str | Sequence[str], short: Mapping[str, str]) -> tuple[str, ...]:
    listed = written.split(", ") if isinstance(written, str) else written
    return tuple(short.get(name, name) for name in listed)


def is_error(text: str) -> bool:
    """True if ``text`` is a number, one of QNN's names, or a line of a log; False for the id of a rule or an erratum."""
    if _ID.fullmatch(text):
        return False
    return (
        bool(_NUMBER.fullmatch(text) or _NAME.fullmatch(text)) or " " in text.strip() or bool(matching(text))
    )


def explain(text: str) -> Facts:
    """The facts about a code (3110, 0xC26), its name, or a log line, with stable keys.

    Raises OpdbError with the nearest codes or names if QNN's headers have no such code, or if no entry is about the line.
    """
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return of_code(_number(text))
    if _NAME.fullmatch(text):
        return of_code(_named(text.upper()))
    if found := matching(text):
        return of_line(text, found[0])
    for name in _NAME.findall(text):
        if name.upper() in _by_name():
            return of_code(_by_name()[name.upper()]) | {"line": text}
    if code := _code_in(text):
        return of_code(code) | {"line": text}
    raise OpdbError(
        f"nothing is known about a log line like '{_shortened(text)}'; give the part that names the fault, the id of a rule"
        f" (LayerNorm.C3) or an erratum (HTP-0042), or a code: {_explained()}"
    )


def _code_in(text: str) -> int | None:
    """The first code of a failure that a sentence gives as such, or None."""
    numbers = (_number(found) for found in _IN_TEXT.findall(text))
    return next((number for number in numbers if number and number in NAMES), None)


def matching(text: str) -> tuple[Entry, ...]:
    """The entries whose parts are in ``text``, the longest first, then those with a part that ``text`` is in."""
    lowered = text.lower()
    found = []
    for entry in known().lines:
        inside = max((len(part) for part in entry.says if part.lower() in lowered), default=0)
        if inside or any(_is_part(lowered, part.lower()) for part in entry.says):
            found.append((inside, entry))
    return tuple(entry for _, entry in sorted(found, key=lambda pair: -pair[0]))


def _is_part(text: str, says: str) -> bool:
    """True if ``text`` is whole words of a line; at least 8 characters, so that no name of an op is."""
    return len(text) >= 8 and re.search(rf"(?<!\w){re.escape(text)}(?!\w)", says) is not None


def of_code(code: int) -> Facts:
    """The facts about a code of QNN's headers; what is known of its module if it has no entry.  Raises OpdbError."""
    if code not in NAMES or code == 0:
        raise OpdbError(_unknown(code))
    first, *others = NAMES[code]
    facts: Facts = {
        "code": code,
        "hex": f"0x{code:X}",
        "name": first,
        "names": others,
        "family": family(code),
    }
    entry = known().codes.get(code)
    if entry is not None:
        return facts | _told(entry)
    return facts | {
        "means": "QNN's name is all that opdb knows of this code: it has not seen the code and has no causes for it.",
        "why": [],
        "type": [{**_ASK, "run": _ASK["run"].replace("CODE", str(code))}, _DOCTOR],
        "see": [],
        "source": ["QNN's public headers of SDK 2.48.40 (specs/abi/errors.yaml)"],
    }


def of_line(text: str, entry: Entry) -> Facts:
    """The facts about a log line, with the code in it or, if it has none, the code that it usually comes with."""
    facts: Facts = {"line": text, "says": list(entry.says)}
    code = _code_in(text) or entry.code
    if code is not None:
        facts |= {"code": code, "hex": f"0x{code:X}", "name": NAMES[code][0]}
    return facts | _told(entry)


def _told(entry: Entry) -> Facts:
    return {
        "means": entry.means,
        "why": [{"why": cause.why, "source": list(cause.sources)} for cause in entry.causes],
        "type": [dict(step) for step in entry.steps],
        "see": list(entry.see),
        "source": list(dict.fromkeys((*entry.sources, *(s for c in entry.causes for s in c.sources)))),
    }


def family(code: int) -> str:
    """The module that owns the code, with its range: "6000-6999, GRAPH: building, ... graphs"; "" if none does."""
    owners = [(last - first, module) for module, (first, last) in RANGES.items() if first <= code <= last]
    if not owners:
        return ""
    _, module = min(owners)
    first, last = RANGES[module]
    return f"{first}-{last}, {module}: {known().families[module]}"


def lines_of(facts: Facts) -> dict[str, Any]:
    """The facts for people: heading -> a line, or several."""
    code = facts.get("code")
    ends = f"; opdb explain {code} says more" if "says" in facts and code else ""
    return {
        "line": facts.get("line"),
        "code": f"{code} ({facts['hex']}), {facts['name']}{ends}" if code else None,
        "also": ", ".join(facts.get("names", ())) or None,
        "family": facts.get("family"),
        "means": facts["means"],
        "why": [f"- {cause['why']}" for cause in facts["why"]],
        "type": _aligned(facts["type"]),
        "see": facts["see"],
        "source": facts["source"],
    }


def _aligned(steps: Sequence[Mapping[str, str]]) -> list[str]:
    width = max(len(step["run"]) for step in steps)
    return [f"{step['run']:{width}}  # {step['to']}" for step in steps]


def _number(text: str) -> int:
    """A code as written, decimal or hexadecimal; of a larger number, the low 16 bits."""
    value = int(text, 0) if text.lower().startswith("0x") else int(text)
    return value & CODE_BITS if value > CODE_BITS else value


@cache
def _by_name() -> Mapping[str, int]:
    return {name: code for code, names in NAMES.items() for name in names}


def _named(name: str) -> int:
    """The code of one of QNN's names.  Raises OpdbError with the nearest names."""
    by_name = _by_name()
    if name not in by_name:
        hint = did_you_mean(name, by_name, f"explained codes: {_explained()}", most=3)
        raise OpdbError(f"QNN's headers have no error '{_shortened(name)}'{hint}")
    return by_name[name]


def _unknown(code: int) -> str:
    """The line about a number that no header names: its family, the nearest codes, and what is explained."""
    if code == 0:
        return "0 is QNN_SUCCESS: nothing failed; codes of failures begin at 1000"
    place = family(code)
    near = sorted(
        (c for c in NAMES if c), key=lambda c: (family(c) != place if place else False, abs(c - code))
    )[:3]
    nearest = ", ".join(f"{c} {NAMES[c][0]}" for c in sorted(near))
    about = f" ({place})" if place else " (no module has this range)"
    return f"QNN's headers have no error code {code}{about}; nearest: {nearest}; explained: {_explained()}"


def _explained() -> str:
    return ", ".join(map(str, known().codes))


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
