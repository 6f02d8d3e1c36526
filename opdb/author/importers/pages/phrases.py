"""Turns the short phrases of constraints in the pages into facts in the notation of opdb.catalog.facts.

An unknown phrase gives None: only its place is reported, not its words.
"""

from __future__ import annotations

import ast
import re
from typing import Any

Fact = dict[str, Any]
SLOT = r"((?:in|out)\[[^\]]*\])"
COMPARE = {"greater than or equal to": ">=", "less than or equal to": "<=", "greater than": ">", "less than": "<",
           "at least": ">=", "at most": "<=", "equal to": "==", "=": "=="}  # fmt: skip
OPERATOR = rf"(>=|<=|==|=|>|<|{'|'.join(w for w in COMPARE if w != '=')})"
RANK = re.compile(rf"(?:the )?rank (?:must be |is |of )?{OPERATOR}? ?(\d)(?: and {OPERATOR} ?(\d))?\.?", re.I)
MAX_RANK = re.compile(
    r"(?:max(?:imum)? (?:supported )?(?:input |output |tensor )?rank(?: supported)?(?: is|:)?) ?(\d)\.?", re.I
)
SAME = re.compile(rf"(?:must (?:have|be) )?(?:the )?same (datatype|data type|shape|rank) as {SLOT}\.?", re.I)
RANGE = re.compile(
    r"(?:all )?(?:values )?(?:must be |elements must be )?in (?:the )?range \[([^,\]]+), ?([^\]]+)\]\.?", re.I
)
VALUE = re.compile(
    rf"(?:all )?(?:values |value |elements )?(?:must be )?{OPERATOR} ?(-?\d+(?:\.\d+)?)\.?", re.I
)
COUNT = re.compile(r"([mM]) >= (\d)\.?")
UNIQUE = re.compile(r"(?:all )?(?:values |elements )?must be unique\.?", re.I)
DYNAMIC = re.compile(r"dynamic (?:shape|dim)", re.I)
STATIC = re.compile(r"(?:must be |only )(?:a )?static(?: tensor)?\.?|static only\.?", re.I)
ONLY_DEFAULT = re.compile(
    r"only (?:the )?default (?:value )?(?:is )?supported\.?|supports only (?:the )?default(?: value)?\.?",
    re.I,
)
SYMMETRIC = re.compile(r"must be symmetric(?:ally quantized)?\.?", re.I)
ARCH = re.compile(r"(?:supported on |only )?(v\d\d) (?:and|or) (?:beyond|above|later)\.?", re.I)


def master(kind: str, text: str, listed: bool) -> Fact | None:
    """The fact in a phrase of MasterOpDef.html about one slot or parameter; ``listed``: True if it holds many values."""
    kind, text = kind.lower(), " ".join(text.split())
    if kind.startswith("dynamic") or DYNAMIC.match(text):
        return {"kind": "dynamic_dims", "expr": "dynamic dims"}
    if match := SAME.fullmatch(text):
        word = {"datatype": "dtype", "data type": "dtype"}.get(match[1].lower(), match[1].lower())
        return {"kind": f"{word}_same", "expr": f"{word}(self) == {word}({match[2]})", "ref": match[2]}
    if match := RANK.fullmatch(text):
        return _rank(match)
    what = "all(self)" if listed else "self"
    if match := RANGE.fullmatch(text):
        low, high = _symbols(match[1]), _symbols(match[2])
        return {
            "kind": "value_range",
            "expr": f"{what} in [{low}, {high}]",
            "min": _number(low),
            "max": _number(high),
        }
    if UNIQUE.fullmatch(text):
        return {"kind": "unique", "expr": "elements of self are unique"}
    if kind == "number" and (match := COUNT.fullmatch(text)):
        return {"kind": "count", "expr": f"m >= {match[2]}", "symbol": "m", "min": int(match[2])}
    if kind == "value" and (match := VALUE.fullmatch(text)):
        operator = COMPARE.get(match[1].lower(), match[1])
        return {
            "kind": "value_cmp",
            "expr": f"{what} {operator} {match[2]}",
            "op": operator,
            "value": _number(match[2]),
        }
    return None


def _rank(match: re.Match[str]) -> Fact:
    low: int | None = None
    high: int | None = None
    for operator, number in ((match[1] or "==", match[2]), (match[3], match[4])):
        if number is None:
            continue
        operator, n = COMPARE.get((operator or "").lower(), operator), int(number)
        if operator in (">", ">="):
            low = n + (operator == ">")
        elif operator in ("<", "<="):
            high = n - (operator == "<")
        else:
            low = high = n
    if low is not None and high is not None:
        expr = f"rank(self) == {low}" if low == high else f"{low} <= rank(self) <= {high}"
    else:
        expr = f"rank(self) <= {high}" if low is None else f"rank(self) >= {low}"
    return {"kind": "rank", "expr": expr} | _given(min=low, max=high)


def supplement(text: str) -> tuple[str, Fact] | None:
    """The group (rank, static, quant, constraints) and the fact of a phrase in a backend's supplement."""
    text = re.sub(r"^(Shape|Datatype|Value|Number|Description|Dynamic Shape): ", "", " ".join(text.split()))
    if match := MAX_RANK.fullmatch(text):
        return "rank", {"expr": f"rank(self) <= {match[1]}", "max": int(match[1])}
    if match := RANK.fullmatch(text):
        fact = _rank(match)
        return "rank", {k: v for k, v in fact.items() if k != "kind"}
    if DYNAMIC.match(text):
        return "constraints", {"kind": "dynamic_dims_unsupported", "expr": "dynamic dims"}
    if STATIC.fullmatch(text):
        return "static", {"expr": "static(self)"}
    if ONLY_DEFAULT.fullmatch(text):
        return "constraints", {"kind": "only_default", "expr": "self == default"}
    if SYMMETRIC.fullmatch(text):
        return "quant", {"kind": "quant_symmetric", "expr": "symmetric(self)", "symmetric": True}
    if match := ARCH.fullmatch(text):
        return "constraints", {
            "kind": "min_arch",
            "expr": f"arch >= {match[1].upper()}",
            "arch": match[1].upper(),
        }
    if (match := SAME.fullmatch(text)) and match[1].lower() == "rank":
        return "constraints", {
            "kind": "rank_same",
            "expr": f"rank(self) == rank({match[2]})",
            "ref": match[2],
        }
    return None


def shape(text: str) -> dict[str, Any] | None:
    """ "shape" and "rank" of a slot: [b, h, w, 4], 4D of shape [...], scalar, n-dimensional; None if none of these."""
    if text.lower() == "scalar":
        return {"rank": {"min": 0, "max": 0}, "scalar": True}
    dims = re.fullmatch(
        r"(?:(?:a )?(?:tensor )?(?:of )?(?:(\d)D )?(?:tensor )?(?:of )?(?:shape )?)?\[(.+)\]", text, re.I
    )
    if dims:
        found = [re.sub(r"\s*/\s*", "/", d.strip()) for d in dims[2].split(",")]
        if not all(re.fullmatch(r"\.\.\.|[A-Za-z_]\w*|\d+|[\w +*/()-]+", d) for d in found):
            return None
        fixed = {} if "..." in found else {"rank": {"min": len(found), "max": len(found)}}
        return {"shape": found, **fixed}
    if re.fullmatch(
        r"(?:a )?(?:tensor of )?(?:rank )?([A-Za-z])(?:[- ]dimension(?:al|s)?|D)(?: tensor)?", text, re.I
    ):
        return {"rank_symbol": "N"} if text[:1].lower() in "na" else {}
    if match := re.fullmatch(r"(\d)D(?: tensor)?(?: of (?:size|shape) \[?(\w+)\]?)?", text, re.I):
        n = int(match[1])
        return {"rank": {"min": n, "max": n}} | ({"shape": [match[2]]} if n == 1 and match[2] else {})
    return None


def default(text: str) -> tuple[bool, Any]:
    """True if the text is a default that a spec can have, and its value: a number, a list, an expression of symbols."""
    text = text.strip().replace("{", "[").replace("}", "]")
    if text.lower() in ("true", "false"):
        return True, text.lower() == "true"
    if text.lower() in ("none", "n/a", "not set", "unset"):
        return True, {"none": True}
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        symbolic = re.fullmatch(r"[A-Za-z] ?- ?\d", text)
        return (True, {"expr": _symbols(text).replace(" ", "")}) if symbolic else (False, None)
    return (True, value) if isinstance(value, (int, float, list)) else (False, None)


def _symbols(text: str) -> str:
    """Converts single lowercase letters, which stand for ranks and counts, to the facts' capital letters."""
    return re.sub(r"\b[a-z]\b", lambda m: m[0].upper(), text.strip())


def _number(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _given(**values: Any) -> Fact:
    return {k: v for k, v in values.items() if v is not None}
