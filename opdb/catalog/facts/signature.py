"""Schemas of torch operators: ATen's from the bundled facts, other libraries' from a spec's ``signature``.

A signature has the form that PyTorch prints: ``my_relu(Tensor x, *, float slope=0.5) -> Tensor``.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import Any

from opdb.catalog.facts import AtenArgument, AtenSchema, aten_schema
from opdb.core.errors import OpdbError

TARGET = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*\.[A-Za-z_]\w*")
SIGNATURE = re.compile(
    r"(?:\w+::)?(?P<op>\w+)(?:\.(?P<overload>\w+))?\((?P<arguments>.*)\)\s*->\s*(?P<returns>.+)"
)
ARGUMENT = re.compile(r"(?P<type>.+?)\s+(?P<name>[A-Za-z_]\w*)(?:\s*=\s*(?P<default>.+))?")


def torch_schema(target: str, signature: str | None = None) -> AtenSchema:
    """The schema of ``target``: ATen's own, else parsed from ``signature``.

    Raises OpdbError for an unknown ATen target, an ATen target with a signature, and another library's target
    whose signature is missing or belongs to another operator.
    """
    if target.startswith("aten.") and signature is not None:
        raise OpdbError(f"{target}: opdb knows ATen's schemas; leave 'signature' out")
    if signature is not None:
        return read_signature(target, signature)
    if TARGET.fullmatch(target) and not target.startswith("aten."):
        op = target.split(".")[1]
        raise OpdbError(
            f"{target}: not ATen's, so its mapping needs a 'signature', e.g. {op}(Tensor x) -> Tensor; "
            "PyTorch prints it for the operator"
        )
    return aten_schema(target)


@lru_cache(maxsize=256)
def read_signature(target: str, text: str) -> AtenSchema:
    """Parses a schema as PyTorch prints it.  Raises OpdbError that names what cannot be parsed."""
    match = SIGNATURE.fullmatch(text.strip())
    if match is None:
        raise OpdbError(f"{target}: signature: '{text}' is not of the form name(Tensor x, int n=1) -> Tensor")
    if not TARGET.fullmatch(target):
        raise OpdbError(f"'{target}' is not a torch operator; e.g. mylib.my_relu.default")
    _, op, overload = target.split(".")
    if (match["op"], match["overload"] or "default") != (op, overload):
        named = ".".join(filter(None, (match["op"], match["overload"])))
        raise OpdbError(f"{target}: signature: it is that of {named}")
    arguments: list[AtenArgument] = []
    keyword = False
    for part in _parts(match["arguments"]):
        if part == "*":
            keyword = True
            continue
        one = ARGUMENT.fullmatch(part)
        if one is None:
            raise OpdbError(f"{target}: signature: '{part}' is not TYPE NAME or TYPE NAME=DEFAULT")
        default = one["default"]
        arguments.append(
            AtenArgument(one["name"], one["type"], keyword, default is not None, _value(target, default))
        )
    names = [a.name for a in arguments]
    if len(set(names)) != len(names):
        raise OpdbError(f"{target}: signature: two arguments have one name")
    returns = match["returns"].strip()
    inner = returns[1:-1] if returns.startswith("(") and returns.endswith(")") else returns
    kinds = tuple(re.sub(r"\([^)]*\)", "", part).split()[0] for part in _parts(inner))
    if not kinds or any(k not in ("Tensor", "Tensor[]") for k in kinds):
        raise OpdbError(f"{target}: signature: it returns '{returns}'; an op of QNN has tensors as results")
    return AtenSchema(target, tuple(arguments), kinds)


def _parts(text: str) -> list[str]:
    """Splits a text at the commas outside brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [p.strip() for p in parts if p.strip()]


def _value(target: str, text: str | None) -> Any:
    """The value of a default; enum names (e.g. contiguous_format) stay text."""
    if text is None:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        if re.fullmatch(r"[A-Za-z_]\w*", text):
            return text
        raise OpdbError(f"{target}: signature: '{text}' is not a default value") from None
