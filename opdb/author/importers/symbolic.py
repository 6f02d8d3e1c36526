"""Translates the symbolic constraints of the reference facts into expressions of the rule language.

The facts use their own small notation (``all(self) in [1, N-1]``, ``A => B``,
``dtype(self) == dtype(in[0])``).  ``translate`` rewrites text; the rule language's parser decides later if the result is
valid, when the draft is compiled (opdb.author.importers.draft).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from opdb.author.importers.naming import Names

SLOT = r"(?:in|out)\[[^\]]*\]"


@dataclass(frozen=True)
class Condition:
    """One rule without an id.  ``text`` is the fact it came from."""

    require: str
    text: str
    when: str | None = None
    expect: bool = False
    why: str | None = None

    def data(self) -> object:
        """The rule in the form of a spec file."""
        if self.when is None and not self.expect and self.why is None:
            return self.require
        out = {"when": self.when, "expect" if self.expect else "require": self.require, "why": self.why}
        return {k: v for k, v in out.items() if v is not None}


def translate(text: str, names: Names, own: str) -> Condition:
    """The condition stated by ``text``; ``own`` is the spec name of the slot or parameter it belongs to."""
    when, require = None, text
    if "=>" in text:
        when, _, require = (part.strip() for part in text.partition("=>"))
    elif " if " in text and " else " not in text:
        require, _, when = (part.strip() for part in text.partition(" if "))
    return Condition(
        expression(require, names, own), text, None if when is None else expression(when, names, own)
    )


def expression(text: str, names: Names, own: str) -> str:
    """``text`` in the syntax of the rule language."""
    text = re.sub(r"\bself\b", own, text)
    text = re.sub(r"(not )?in \{([^}]*)\}", _choices, text)
    text = re.sub(r"elements of (\w+) are unique", r"unique(\1)", text)
    text = re.sub(r"(\w+)\[i\+1\] > \1\[i\]", r"increasing(\1)", text)
    text = re.sub(rf"shape\(({SLOT})\)\[([a-z_]+)\]", lambda m: _dim(m, names), text)
    text = re.sub(rf"\b(rank|shape|dtype)\(({SLOT}|\w+)\)", lambda m: f"{names.of(m[2])}.{m[1]}", text)
    text = re.sub(rf"\bsize\(({SLOT}|\w+)\)", lambda m: _size(m[1], names), text)
    text = re.sub(SLOT, lambda m: names.of(m[0]), text)
    text = re.sub(r"(\w+)\[(\w+),\s*(\w+)\]", r"\1[\2][\3]", text)
    text = _words(text, names)
    text = re.sub(r"all\((\w+)\) in \[([^,\]]+), ?([^\]]+)\]", _every_between, text)
    text = re.sub(r"all\((\w+)\) (<=|>=|<|>|==|!=) (.+)$", _every, text)
    return re.sub(r"^(\w+) in \[([^,\]]+), ?([^\]]+)\]$", _between, text)


def formula(text: str, names: Names) -> str:
    """Translates a dim formula: floor(a / b + c) and a / b become integer division."""
    text = expression(text, names, "")
    match = re.fullmatch(r"(floor|ROUND)\(\((.*)\)/(\S+) \+ 1\)", text)
    if match and match[1] == "ROUND":  # up or down, depending on the parameter
        return f"({match[2]} + (0 if rounding_mode == FLOOR else {match[3]} - 1)) // {match[3]} + 1"
    if match:
        return f"({match[2]}) // {match[3]} + 1"
    match = re.fullmatch(r"floor\((.*)\)", text)
    text = match[1] if match and "/" not in match[1] else text
    return text.replace("/", " // ")


def _choices(match: re.Match[str]) -> str:
    """A comparison for one choice, a membership test for several."""
    if "," not in match[2]:
        return f"{'!=' if match[1] else '=='} {match[2]}"
    return f"{match[1] or ''}in ({match[2]})"


def _size(what: str, names: Names) -> str:
    if what in names.slots or what in names.slots.values():
        return f"prod({names.of(what)}.shape)"
    return f"len({what})"


def _dim(match: re.Match[str], names: Names) -> str:
    """Translates ``shape(in[0])[height]``: the symbol of that dim, or the size at a parameter's value."""
    found = names.dim(match[1], match[2])
    return (
        found
        if found is not None and match[2] not in names.params
        else f"{names.of(match[1])}.shape[{match[2]}]"
    )


def _words(text: str, names: Names) -> str:
    def word(match: re.Match[str]) -> str:
        found = match[0]
        return (
            found
            if found in names.params or found in names.slots.values()
            else names.symbols.get(found, found)
        )

    return re.sub(r"(?<![\w.])[A-Za-z_]\w*(?!\()", word, text)


def _loop(name: str) -> str:
    """The loop variable over a list: the first letter of its name; e.g. axes -> a."""
    return name[0] if name[0] not in "xyf" else "v"


def between(low: str, name: str, high: str, names: Names, own: str) -> str:
    """``name`` (each element, if it is a list) within two bounds of the document."""
    low, high = expression(low, names, own), expression(high, names, own)
    if name in names.lists:
        v = _loop(name)
        return f"all({_upper(low, v, high)} for {v} in {name})"
    return _upper(low, name, high)


def _upper(low: str, value: str, high: str) -> str:
    high = re.sub(r"(?<=[\w\])]) ?- ?1$", "-1", high)
    return f"{low} <= {value} < {high[:-2]}" if high.endswith("-1") else f"{low} <= {value} <= {high}"


def _between(match: re.Match[str]) -> str:
    return _upper(match[2], match[1], match[3])


def _every_between(match: re.Match[str]) -> str:
    v = _loop(match[1])
    return f"all({_upper(match[2], v, match[3])} for {v} in {match[1]})"


def _every(match: re.Match[str]) -> str:
    v = _loop(match[1])
    return f"all({v} {match[2]} {match[3]} for {v} in {match[1]})"
