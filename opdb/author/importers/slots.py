"""Inputs, parameters, and outputs of a draft: shapes, types, defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from opdb.author.importers.naming import Names, symbol
from opdb.author.importers.symbolic import expression, formula
from opdb.catalog.facts import DocumentedOp, DocumentedParam, DocumentedTensor

#: Parameters whose names determine the kind of their numbers.
KINDS = {"axis": "axis", "axes": "axes", "perm": "perm", "pad_amount": "pads", "multiples": "shape"}
LAYOUTS = {4: "NHWC", 5: "NDHWC"}


def inputs(op: DocumentedOp, names: Names) -> dict[str, Any]:
    """The ``inputs`` of the spec, as YAML data."""
    out: dict[str, Any] = {}
    for i, t in enumerate(op.inputs):
        entry: dict[str, Any] = {}
        if t.variadic:
            least = t.facts.get("repeat", {}).get("min_last_index", 0) + 1
            entry = {"variadic": True} | ({"min": least} if least > 1 else {})
        else:
            entry["shape"] = _input_shape(t, i, names)
            if entry["shape"] is None:
                del entry["shape"]
        _common(entry, t)
        out[names.of(t.slot)] = entry["shape"] if list(entry) == ["shape"] else entry
    return out


def _common(entry: dict[str, Any], t: DocumentedTensor) -> None:
    words = t.shape or ()
    if (
        len(words) in LAYOUTS
        and words[0] == "batch"
        and words[-1].startswith("channel")
        and words[-3][:6] == "height"
    ):
        entry["layout"] = LAYOUTS[len(words)]
    if words[:1] == ("filter_height",) or words[:2] == ("filter_depth", "filter_height"):
        entry["layout"] = ("D" if words[0] == "filter_depth" else "") + "HW" + "IO"
    if t.dtypes:
        entry["dtype"] = t.dtypes[0] if len(t.dtypes) == 1 else list(t.dtypes)
    if not t.mandatory and t.slot.startswith("in"):
        entry["optional"] = True


def _input_shape(t: DocumentedTensor, position: int, names: Names) -> Any:
    own = names.of(t.slot)
    along = [c for c in t.constraints if c["kind"] == "dim_relation" and "[axes[i]]" in c["expr"]]
    if along and t.facts.get("rank_expr") == "size(axes)":
        return "gather(S, axes)"
    if t.shape is not None and not ("..." in t.shape[1:] or any("[" in d for d in t.shape)):
        if t.shape == ("M",) and not t.mandatory:
            return ["_"]
        head = [f"{_rest(own, position)}..."] if t.shape[0] == "..." else []
        return head + [_dim(d, names) for d in t.shape[len(head) :]]
    if not t.mandatory:
        return None
    if t.rank is not None and t.rank[0] == t.rank[1] and t.rank[0] > 0 and t.shape is None:
        return [f"{_rest(own, position)}{i}" for i in range(t.rank[0])]
    return [f"{_rest(own, position)}..."]


def _rest(own: str, position: int) -> str:
    """The symbol for all dims of a slot: S of the main input."""
    return "S" if own == "x" or (position == 0 and len(own) > 1) else symbol(own)


def _dim(text: str, names: Names) -> str:
    return text if text.isdigit() else formula(text, names)


def outputs(op: DocumentedOp, names: Names, ins: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The ``outputs`` of the spec, and the ``let`` definitions for their shapes."""
    out: dict[str, Any] = {}
    lets: dict[str, str] = {}
    page = _Page(op, names, ins, lets)
    for t in op.outputs:
        entry: dict[str, Any] = {"variadic": True} if t.variadic else {}
        shape = None if t.variadic else page.output_shape(t)
        entry["shape"] = "any" if shape is None else shape
        _common(entry, t)
        if t.variadic:
            entry |= _parts(op, names, lets)
        out[names.of(t.slot)] = entry["shape"] if list(entry) == ["shape"] and shape is not None else entry
    return out, lets


def _parts(op: DocumentedOp, names: Names, lets: dict[str, str]) -> dict[str, Any]:
    """A variadic output made by cutting along an axis at the positions in a parameter."""
    count = next((c["expr"] for c in op.constraints if c["kind"] == "count_relation"), "")
    match = re.fullmatch(r"count\(out\) == size\((\w+)\) \+ 1", count)
    if match is None or "axis" not in names.params:
        return {"shape": "any"}
    lets["bounds"] = f"cat(cat([0], {match[1]}), [S[axis]])"
    return {
        "count": f"len({match[1]}) + 1",
        "index": "i",
        "shape": "replace(S, axis, bounds[i + 1] - bounds[i])",
    }


#: A shape of an output as the spec has it: dimensions, an expression, or None if the page's words are not understood.
Shape = list[Any] | str | None
SUMMED = "shape(in[0]) with [axis] = sum(i, shape(in[i])[axis])"


@dataclass
class _Page:
    """The words of a page about an op, and the draft of what they became so far."""

    op: DocumentedOp
    names: Names
    inputs: dict[str, Any]
    lets: dict[str, str]

    def output_shape(self, t: DocumentedTensor) -> Shape:
        same = self._same_as(t)
        if same in self.names.slots:
            return self._of_input(same)
        formulas = t.facts.get("dim_formulas", {})
        if (shape := self._by_rank(t)) is not None:
            return shape
        if t.shape is not None and t.shape[0] == "..." and "..." not in t.shape[1:]:
            return self._with_tail(t.shape[1:], formulas)
        if "shape[i]" in formulas:
            return _each(formulas["shape[i]"], self.names)
        if self.op.inputs and t.facts.get("relation") == SUMMED:
            first = self.names.of(self.op.inputs[0].slot)
            return f"replace({first}[0].shape, axis, sum(x.shape[axis] for x in {first}))"
        if t.shape is not None and "..." not in t.shape and all("[" not in d or "_" in d for d in t.shape):
            self._define({word: text for word, text in formulas.items() if word != "ROUND"})
            return [_dim(d, self.names) for d in t.shape]
        return None

    def _same_as(self, t: DocumentedTensor) -> str | None:
        """The slot whose shape the output has, in the page's own name."""
        same = next((c["ref"] for c in t.constraints if c["kind"] == "shape_same" and "ref" in c), None)
        return "in[0]" if same is None and t.facts.get("relation") == "shape(in[0])" else same

    def _of_input(self, slot: str) -> Shape:
        ref = self.inputs.get(self.names.of(slot))
        shape = ref.get("shape") if isinstance(ref, dict) else ref
        named = isinstance(shape, list) and all(d.replace("...", "").isidentifier() for d in shape)
        return shape if named else None

    def _by_rank(self, t: DocumentedTensor) -> str | None:
        """The shape of an element-wise op or a reduction, whose pages state the rank alone."""
        rank = t.facts.get("rank_expr", "")
        if rank == "max(N,M)" and "elementwise_broadcast" in self.op.facts.get("rules", ()):
            return f"broadcast({', '.join(s[0].removesuffix('...') for s in list(self.inputs.values())[:2])})"
        return "reduced(S, axes, keep_dims)" if rank == "N if keep_dims else max(1, N - M)" else None

    def _with_tail(self, tail: tuple[str, ...], formulas: dict[str, str]) -> str | None:
        """The leading dimensions of the inputs, then ``tail``."""
        shapes = [s for s in self.inputs.values() if isinstance(s, list) and s[0].endswith("...")]
        heads = [s[0].removesuffix("...") for s in shapes]
        self._define(formulas)
        dims = ", ".join(_dim(d, self.names) for d in tail)
        if not heads:
            return None
        head = heads[0] if len(heads) == 1 else f"broadcast({heads[0]}, {heads[1]})"
        return f"cat({head}, [{dims}])"

    def _define(self, formulas: dict[str, str]) -> None:
        self.lets |= {symbol(word): formula(text, self.names) for word, text in formulas.items()}


def _each(text: str, names: Names) -> str | None:
    """A formula for every dim i."""
    match = re.fullmatch(r"shape\(in\[0\]\)\[(\w+)\[i\]\]", text)
    if match:
        return f"gather(S, {match[1]})"
    body = expression(text.replace("shape(in[0])[i]", "S[i]"), names, "")
    return None if "bit" in body else f"[{body} for i in range({names.of('in[0]')}.rank)]"


def params(op: DocumentedOp, names: Names) -> dict[str, Any]:
    """The ``params`` of the spec."""
    out: dict[str, Any] = {}
    for p in op.params:
        kind = KINDS.get(p.name)
        type_ = _type(p, names)
        out[p.name] = {"type": type_, "kind": kind} if kind else type_
    return out


def _type(p: DocumentedParam, names: Names) -> str:
    if p.enum:
        values = ", ".join(f"{n}: {v}" for n, v in p.enum.items())
        base = f"enum {'i32 ' if p.dtype == 'i32' else ''}{{{values}}}"
    else:
        base = "f32" if p.dtype == "backend" else p.dtype
    dims = "".join(f"[{d if d.isdigit() else ''}]" for d in p.shape or ())
    default = _default(p, names)
    if default is None:
        return base + dims + ("" if p.mandatory else "?")
    return f"{base}{dims} = {default}"


def _default(p: DocumentedParam, names: Names) -> str | None:
    value = p.default
    if isinstance(value, dict):
        if "expr" in value:
            return re.sub(r"(?<=\w)-(?=\w)", " - ", expression(value["expr"], names, p.name))
        if "by_param" in value:
            *first, (_, last) = value["table"].items()
            return " else ".join([*(f"{v} if {value['by_param']} == {n}" for n, v in first), str(last)])
        return None
    if value is None:
        return None
    if p.enum:
        return next((n for n, v in p.enum.items() if v == int(value)), None)
    if isinstance(value, bool):
        return str(value).lower()
    if p.dtype.startswith("f") and not isinstance(value, list):
        return repr(float(value))
    return repr(value)
