"""Writes pages with the structure of the SDK's OpDef documentation, in our own words, from facts."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from opdb.catalog import facts
from opdb.catalog.facts.refresh import SUPPLEMENTS
from opdb.core.dtypes import BY_SHORT

HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"/><title>{0}</title></head><body>
<section>
<h1>{0}<a class="headerlink" href="#top">\u00b6</a></h1>
"""
TAIL = "</section>\n</body></html>\n"


def write_folder(folder: Path, names: Iterable[str], sdk: str = "2.25.0", **changes: Any) -> Path:
    """MasterOpDef.html, supplements, history and table of ``names``; ``changes``: facts by op that replace the bundled ones."""
    folder.mkdir(parents=True, exist_ok=True)
    ops = {n: changes.get(n) or facts.documented_op(n) for n in names}
    (folder / "MasterOpDef.html").write_text(master(ops.values()), encoding="utf-8")
    for backend in ("CPU", "HTP"):
        having = [op for op in ops.values() if backend in op.backends]
        (folder / SUPPLEMENTS[backend]).write_text(supplement(backend, having), encoding="utf-8")
    (folder / "opdef_version_history.html").write_text(history(sdk), encoding="utf-8")
    (folder / "SupportedOps.html").write_text(supported(ops.values()), encoding="utf-8")
    return folder


def master(ops: Iterable[facts.DocumentedOp]) -> str:
    return HEAD.format("Operations") + "".join(map(op_section, ops)) + TAIL


def op_section(op: facts.DocumentedOp) -> str:
    out = [_heading(2, op.name), "<p>What the op computes.</p>\n"]
    for title, group in (("Inputs", op.inputs), ("Parameters", op.params), ("Outputs", op.outputs)):
        if group:
            out.append(_heading(3, title))
        for part in group:
            tensor = isinstance(part, facts.DocumentedTensor)
            out.append(_heading(4, part.slot if tensor else part.name))
            out.append("<p>A tensor or number.</p>\n" + (_tensor(part) if tensor else _param(part)))
    return "<section>\n" + "".join(out) + "</section>\n"


def _tensor(t: facts.DocumentedTensor) -> str:
    raw = t.facts["dtypes"]
    dtypes = ["backend"] if raw == "backend" else raw
    shape = f"[{', '.join(t.shape)}]" if t.shape else "n-dimensional"
    return _points(
        [f"Mandatory: {str(t.mandatory).lower()}", f"Data type: {_dtypes(dtypes)}", f"Shape: {shape}"],
        {"Constraints": [p for c in t.constraints if (p := phrase(c))]},
    )


def _param(p: facts.DocumentedParam) -> str:
    shape = "scalar" if p.shape is None else f"{len(p.shape)}D of shape [{', '.join(p.shape)}]"
    points = [f"Mandatory: {str(p.mandatory).lower()}", f"Data type: {_dtypes([p.dtype])}", f"Shape: {shape}"]
    if p.default is not None and not isinstance(p.default, dict):
        points.append(f"Default: {p.default}")
    values = [f"{name} = {value}," for name, value in p.enum.items()]
    return _points(points, {"Values": values, "Constraints": [c for f in p.constraints if (c := phrase(f))]})


def phrase(fact: Mapping[str, Any]) -> str | None:
    """A constraint in a short phrase; a sentence that says nothing for the rest."""
    kind = fact["kind"]
    if kind == "rank" and "when" not in fact:
        low, high = fact.get("min"), fact.get("max")
        if low == high:
            return f"Shape: Rank = {low}"
        return "Shape: Rank " + " and ".join(
            text for text, bound in ((f">= {low}", low), (f"<= {high}", high)) if bound is not None
        )
    if kind in ("dtype_same", "shape_same", "rank_same") and fact.get("ref"):
        word = {"dtype_same": "datatype", "shape_same": "shape", "rank_same": "rank"}[kind]
        return f"{'Datatype' if word == 'datatype' else 'Shape'}: Same {word} as {fact['ref']}"
    if kind == "value_range" and "min" in fact and "max" in fact:
        return f"Value: Must be in range [{fact['min']}, {fact['max']}]"
    if kind == "unique":
        return "Value: Must be unique"
    return "Value: As is explained above, in words."


def supplement(backend: str, ops: Iterable[facts.DocumentedOp]) -> str:
    return (
        HEAD.format(f"{backend} supplement")
        + "".join(_backend(op, op.backends[backend]) for op in ops)
        + TAIL
    )


def _backend(op: facts.DocumentedOp, part: facts.DocumentedBackend) -> str:
    slots = list(dict.fromkeys(s for _, cells in part.rows for s in cells))
    rows = [
        [config, *("<br/>".join(_macros(cells.get(s, ()))) for s in slots)] for config, cells in part.rows
    ]
    out = _heading(2, op.name) + _heading(3, "Datatypes") + _table(["Configuration", *slots], rows)
    stated = {
        s: [(g, e) for g, entries in groups.items() for e in entries] for s, groups in part.slots.items()
    }
    configs = list(dict.fromkeys(e["config"] for entries in stated.values() for _, e in entries))
    lines = [
        [c, *(_list(_limit(g, e) for g, e in entries if e["config"] == c) for entries in stated.values())]
        for c in configs
    ]
    return out + (_heading(3, "Constraints") + _table(["Configuration", *stated], lines) if lines else "")


def _limit(group: str, fact: Mapping[str, Any]) -> str:
    if group != "rank" or "when" in fact or ("max" not in fact and "min" not in fact):
        return "Shape: as is explained in words"
    if fact.get("min") is None:
        return f"Shape: Max supported rank is {fact['max']}."
    return str(phrase({"kind": "rank", **fact}))


def history(sdk: str) -> str:
    rows = [
        ["2.0.0", sdk, _list(["Added Widget Op. On CPU at first."])],
        ["1.0.0", "2.0.0", _list(["First."])],
    ]
    return HEAD.format("History") + _table(["Op Set Version", "SDK Version", "Description"], rows) + TAIL


def supported(ops: Iterable[facts.DocumentedOp]) -> str:
    rows = [[op.name, *("YES" if b in op.backends else "NO" for b in ("CPU", "HTP"))] for op in ops]
    return HEAD.format("Supported ops") + _table(["Operation", "CPU", "HTP INT8"], rows) + TAIL


def _heading(level: int, title: str) -> str:
    return f'<h{level}>{html.escape(title)}<a class="headerlink" href="#x">¶</a></h{level}>\n'


def _points(points: list[str], groups: Mapping[str, list[str]]) -> str:
    out = "".join(f"<li><p>{html.escape(p)}</p></li>\n" for p in points)
    for name, below in groups.items():
        if below:
            out += f"<li><p>{name}:</p>\n<blockquote><div>{_list(map(html.escape, below))}</div></blockquote></li>\n"
    return f'<ul class="simple">\n{out}</ul>\n'


def _list(points: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li><p>{p}</p></li>\n" for p in points) + "</ul>"


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = ["".join(f"<th><p>{h}</p></th>" for h in header)]
    lines += [
        "".join(f"<td><p>{c}</p></td>" if "<ul>" not in c else f"<td>{c}</td>" for c in row) for row in rows
    ]
    return "<table>\n" + "".join(f"<tr>{line}</tr>\n" for line in lines) + "</table>\n"


def _dtypes(names: Iterable[str]) -> str:
    return ", ".join("backend specific" if n == "backend" else BY_SHORT[n].macro for n in names)


def _macros(names: Iterable[str]) -> list[str]:
    return [BY_SHORT[n].macro for n in names if n in BY_SHORT]
