"""Writes plain data or a model as canonical YAML.  Separate from the reader, because ``opdb show`` reads no files."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import LiteralScalarString

from opdb.spec.spelling import shortened

if TYPE_CHECKING:
    from pydantic import BaseModel

At = tuple[str | int, ...]


#: Longer than any line of a spec.
ANY = 4096


def dump(model: BaseModel, width: int = ANY) -> str:
    """The canonical YAML of a model: short spellings, fields in the order of the file format; ``width``: of its lines."""
    data = model.model_dump(mode="json")
    if "op" in data or "base" in data:
        data = shortened(data)
    if "erratum" not in data:  # in an erratum, op is not the name
        first = ("op", "base", "family", "backend", "package", "extends")
        data = {k: data[k] for k in first if k in data} | {k: v for k, v in data.items() if k not in first}
    return dump_data(data, width)


def dump_data(data: Any, width: int = ANY) -> str:
    """The canonical YAML text: two spaces, lists of plain values, rows and samples on one line of at most ``width`` columns."""
    yaml = YAML(typ="rt", pure=True)
    yaml.width, yaml.default_flow_style = width, False
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    yaml.dump(_styled(data, ()), out)
    return out.getvalue()


def _styled(value: Any, at: At) -> Any:
    """Shapes, rows and samples in flow style; the rest in block style."""
    if isinstance(value, dict):
        flow = (len(at) >= 2 and at[0] == "samples") or "dtypes" in (
            at[-3:-2] if at[:1] == ("backends",) else ()
        )
        flow = flow or (at[:1] == ("candidates",) and len(at) > 2 and at[-1] != "ignored" and _short(value))
        out = CommentedMap((k, _styled(v, (*at, k))) for k, v in value.items())
        if flow:
            out.fa.set_flow_style()
        return out
    if isinstance(value, list):
        seq = CommentedSeq(_styled(v, (*at, i)) for i, v in enumerate(value))
        if all(not isinstance(v, (dict, list)) for v in value) or (at and at[0] == "samples" and len(at) > 1):
            seq.fa.set_flow_style()
        return seq
    if isinstance(value, str) and "\n" in value:
        return LiteralScalarString(value.rstrip("\n") + "\n")
    return value


#: Text that needs no quotes inside {...}; an expression with brackets or commas goes on a separate line.
PLAIN = re.compile(r"[\w.$+*/%()<>=\" -]*[\w)\"]")


def _short(value: Any) -> bool:
    """True if a mapping of names and short expressions fits on a line."""
    if not isinstance(value, dict):
        items = value if isinstance(value, list) else [value]
        return all(not isinstance(v, str) or (PLAIN.fullmatch(v) and v[0] not in '%-"') for v in items)
    return len(str(value)) <= 100 and all(map(_short, value.values()))
