"""Supported operators in others' formats: ExecuTorch's op-support.csv and list of builders, ONNX Runtime's kernels.

Each table states its backend, SoC, and SDK, and distinguishes types that a document declares from types that a library
was found to accept: the latter are followed by the run, e.g. int32 (probe HTP 2.47.0).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Any

from opdb.codegen import evidence as measured
from opdb.codegen import pieces, statuses
from opdb.codegen.artifact import Artifact, all_specs, family_path, sorted_ops
from opdb.codegen.builders import Form, of_family, of_op
from opdb.codegen.environment import render
from opdb.codegen.support import Combination, Part, Place, Support
from opdb.core.dtypes import BY_SHORT
from opdb.spec.backend import preferred
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledRule
from opdb.spec.lang.printer import to_text
from opdb.spec.mapping import CompiledMapping

#: The columns of ExecuTorch's docs/source/backends/template/op-support.csv; we added the last one.
COLUMNS = ("Operator", "Compute DType", "Quantization", "Constraints", "Measured")
#: ExecuTorch's names for QNN's kinds of types; the number of bits follows.
WORDS = {
    "FLOAT_": "fp", "BFLOAT_": "bf", "INT_": "int", "UINT_": "uint", "SFIXED_POINT_": "int", "UFIXED_POINT_": "uint",
    "BOOL_": "bool", "STRING": "string",
}  # fmt: skip
FOLDER = "generated/tables"

Box = dict[str, tuple[str, ...]]  # slot -> data types; every combination of them


def measured_places(catalog: Catalog) -> list[Place]:
    """The places of the generated tables, starting with the preferred backend; `opdb executorch table` prints others."""
    found = [(name, catalog.backends[name].measured) for name in preferred(catalog.backends.values())]
    return [Place(name, m.soc, m.sdk) for name, m in found if m is not None]


def tables(catalog: Catalog) -> Iterable[Artifact]:
    """Renders executorch/op-support.csv with its page, executorch/qnn-ops.md, and OperatorKernels.md."""
    inputs = (
        *all_specs(catalog),
        *map(family_path, catalog.families),
        measured.input_path(),
    )
    places = [Support(catalog, place) for place in measured_places(catalog)]
    also = repr([(str(s.place), s.known) for s in places])
    ops = {n: pieces.of_op("support", n, partial(_of_op, places, n), also) for n in sorted_ops(catalog)}
    families = [
        pieces.of_family("support", n, partial(_of_family, places, n), also) for n in catalog.families
    ]
    forms = [*(found["forms"] for found in ops.values()), *families]
    for found in places[:1]:
        text = _csv(
            catalog,
            {target: cells for home in forms for target, cells in home["cells"].items()},
            found.place.backend,
        )
        yield Artifact(f"{FOLDER}/executorch/op-support.csv", text, inputs, "csv")
        text = render("op_support.rst.j2", place=found.place)
        yield Artifact(f"{FOLDER}/executorch/op-support.rst", text, inputs, "rst")
    text = render("qnn_ops.md.j2", **_qnn_ops(places, ops, forms))
    yield Artifact(f"{FOLDER}/executorch/qnn-ops.md", text, inputs, "markdown")
    kernels = [[row for found in ops.values() if (row := found["kernels"][i])] for i in range(len(places))]
    pairs = [(s.place, rows) for s, rows in zip(places, kernels, strict=True)]
    text = render("operator_kernels.md.j2", places=pairs)
    yield Artifact(f"{FOLDER}/OperatorKernels.md", text, inputs, "markdown")


def _of_op(places: Sequence[Support], name: str) -> dict[str, Any]:
    """The tables' data for one op: its types and kernel in each place, and the mappings of its spec."""
    found: dict[str, Any] = {"kinds": [], "kernels": []}
    for support in places:
        part = support.part(support.catalog.compiled(name))
        found["kinds"].append(_kinds(part) if part.combinations else None)
        found["kernels"].append(_kernel(name, part) if part.combinations else None)
    made = of_op(places[0].catalog, name) if places else []
    return found | {"forms": _of_forms(places, [c.form for c in made])}


def _of_family(places: Sequence[Support], name: str) -> dict[str, Any]:
    """The tables' data for one family."""
    made = of_family(places[0].catalog, name) if places else []
    return _of_forms(places, [c.form for c in made])


def _of_forms(places: Sequence[Support], made: Sequence[Form]) -> dict[str, Any]:
    """The cells of op-support.csv by target, the ops that forms use in each place, and the chains."""
    by_target: dict[str, list[Form]] = {}
    for form in made:
        by_target.setdefault(form.target, []).append(form)
    return {
        "cells": {target: _cells(places[0], forms) for target, forms in by_target.items()},
        "built": [
            sorted({p.op.name for form in made if computes(parts := support.parts(form)) for p in parts})
            for support in places
        ],
        "chains": [
            (f.target, f.name, ", ".join(dict.fromkeys(s.op.name for s in f.steps)))
            for f in made
            if not isinstance(f, CompiledMapping)
        ],
    }


# -- ExecuTorch's op-support.csv


def op_support(support: Support) -> str:
    """Renders the CSV of ExecuTorch's documentation template: a line for each PyTorch operator that the specs map."""
    return _csv(
        support.catalog,
        {target: _cells(support, forms) for target, forms in support.forms.items()},
        support.place.backend,
    )


def _csv(catalog: Catalog, cells: Mapping[str, Sequence[str]], backend: str) -> str:
    facts = measured.facts(catalog)
    found = {} if facts is None else facts.operators(backend)
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(COLUMNS)
    lines.writerows(
        (target, *cells[target], statuses.of_operator(catalog, found.get(target, ()), backend))
        for target in sorted(cells)
    )
    return out.getvalue()


def _cells(support: Support, forms: Sequence[Form]) -> tuple[str, str, str]:
    plain: dict[str, str | None] = {}  # data type -> the run; None: declared
    quantized: dict[str, str | None] = {}
    notes = []
    for form in forms:
        parts = support.parts(form)
        found = computes(parts)
        for dtype, run in found.items():
            group = quantized if BY_SHORT[dtype].quantized else plain
            group[dtype] = None if dtype in group and group[dtype] is None else run
        if found:
            notes.append(_constraints(form, parts, len(forms) > 1))
    if not plain and not quantized:
        ops = ", ".join(dict.fromkeys(p.op.name for f in forms for p in support.parts(f)))
        return "N/A", "N/A", f"no types of {ops} on {support.place}"
    of_one = [p for f in forms if isinstance(f, CompiledMapping) for p in support.parts(f)]
    shown = [_with_run(spelled(d) + _others(of_one, d), run) for d, run in _in_order(quantized)]
    quant = "\n".join(f"static {text}" for text in shown)
    return (
        ", ".join(_with_run(spelled(d), run) for d, run in _in_order(plain)),
        quant,
        "\n".join(filter(None, notes)),
    )


def computes(parts: Sequence[Part]) -> dict[str, str | None]:
    """The types that every op of a form may compute in, with the run if only a measurement shows it.

    Inner ops have separate types; if one has none, the form has none.
    """
    inner = [[c.run for c in p.combinations] for p in parts if p.inner]
    if not all(inner):
        return {}
    sets = []
    for part in (p for p in parts if not p.inner):
        runs: dict[str, str | None] = {}
        for c in part.combinations:
            dtype = c.dtypes[part.main or ""]
            runs[dtype] = c.run if runs.get(dtype, c.run) is not None else None
        sets.append(runs)
    common = [d for d in sets[0] if all(d in s for s in sets)] if sets else []
    measured = [runs[0] for runs in inner if None not in runs]
    return {d: next((r for r in (*(s[d] for s in sets), *measured) if r is not None), None) for d in common}


def _in_order(found: dict[str, str | None]) -> list[tuple[str, str | None]]:
    """Sorts floats first, then by size, signed before unsigned."""
    return sorted(found.items(), key=lambda e: ("FLOAT" not in BY_SHORT[e[0]].qnn, BY_SHORT[e[0]].bits, e[0]))


def spelled(dtype: str) -> str:
    """A data type in the spelling of ExecuTorch's tables, e.g. f16 -> fp16, uq8 -> uint8."""
    kind = BY_SHORT[dtype]
    word = WORDS[kind.qnn.rstrip("0123456789")]
    return word if word in ("bool", "string") else f"{word}{kind.bits}"


def _with_run(text: str, run: str | None) -> str:
    return f"{text} ({run})" if run else text


def _others(parts: Iterable[Part], main: str) -> str:
    """The quantized types of other slots for a type of the main slot, e.g. with filter int8, bias int32."""
    found: dict[str, dict[str, None]] = {}
    for part in parts:
        for c in part.combinations:
            if c.dtypes[part.main or ""] == main:
                for slot, dtype in c.dtypes.items():
                    if BY_SHORT[dtype].quantized and slot != part.main:
                        found.setdefault(slot, {})[dtype] = None
    told = [
        f"{slot} {' or '.join(map(spelled, kinds))}" for slot, kinds in found.items() if list(kinds) != [main]
    ]
    return f" with {', '.join(told)}" if told else ""


def _constraints(form: Form, parts: Sequence[Part], named: bool) -> str:
    """The guard of the form, and for a single op the backend's open rules."""
    direct = isinstance(form, CompiledMapping)
    why = form.why if isinstance(form, CompiledMapping) else form.definition.why
    said = [why.rstrip(".")] if why else [to_text(form.when)] if form.when is not None else []
    said += dict.fromkeys(_rule(r) for r in parts[0].rules) if direct else []
    ops = ", ".join(dict.fromkeys(p.op.name for p in parts))
    head = f"as {ops}" if named or not direct else ""
    return ": ".join(filter(None, (head, "; ".join(said))))


def _rule(rule: CompiledRule) -> str:
    when = "" if rule.when is None else f" where {to_text(rule.when)}"
    return f"{to_text(rule.require)}{when}"


# -- the list of ops in ExecuTorch's backends/qualcomm/builders/README.md


def _qnn_ops(
    places: Sequence[Support], ops: Mapping[str, Any], forms: Sequence[Mapping[str, Any]]
) -> dict[str, object]:
    columns = []
    for i, support in enumerate(places):
        built = {op for home in forms for op in home["built"][i]}
        kinds = {name: found["kinds"][i] for name, found in ops.items()}
        there = sum(kind is not None for kind in kinds.values())
        cells = {
            name: ("&check;" if name in built else "&cross;", kind or "") for name, kind in kinds.items()
        }
        columns.append((support.place, len(built), there, cells))
    chains = sorted((chain for home in forms for chain in home["chains"]), key=lambda chain: str(chain[0]))
    return {"ops": list(ops), "columns": columns, "decompositions": chains}


def _kinds(part: Part) -> str:
    """The types that an op may compute in, declared ones first."""
    found = computes([part])
    declared = [d for d, run in _in_order(found) if run is None]
    runs: dict[str, list[str]] = {}
    for dtype, run in _in_order(found):
        if run is not None:
            runs.setdefault(run, []).append(dtype)
    return "; ".join(
        filter(None, (" ".join(declared), *(f"{run}: {' '.join(ds)}" for run, ds in runs.items())))
    )


# -- ONNX Runtime's OperatorKernels.md


def _kernel(name: str, part: Part) -> tuple[str, str, list[tuple[str, str, str]]]:
    """(op, parameters, lines (version, types, source)) of an op that has types in the place."""
    variables = _variables(part)
    slots = [f"*{'out' if s.output else 'in'}* {s.name}:**{variables[s.name]}**" for s in part.op.slots]
    return name, "<br> ".join(slots), _lines(part, variables)


def _variables(part: Part) -> dict[str, str]:
    """Assigns type variables T, T1, T2...; slots whose types always agree share one."""
    columns: dict[tuple[str, ...], str] = {}
    found = {}
    for slot in part.op.slots:
        column = tuple(c.dtypes[slot.name] for c in part.combinations)
        found[slot.name] = columns.setdefault(column, f"T{len(columns) or ''}")
    return found


def _lines(part: Part, variables: dict[str, str]) -> list[tuple[str, str, str]]:
    """Lines by row, one for each set of types that are allowed in every combination."""
    by_row: dict[str, list[Combination]] = {}
    for c in part.combinations:
        by_row.setdefault(c.row.id, []).append(c)
    first = {v: s for s, v in reversed(variables.items())}
    lines = []
    for found in by_row.values():
        row = found[0].row
        version = row.since or ("" if row.source is None else row.source.partition("@")[2].partition("#")[0])
        for box in boxes([{v: c.dtypes[s] for v, s in first.items()} for c in found]):
            types = "<br> ".join(
                f"**{v}** = {', '.join(f'tensor({_onnx(d)})' for d in box[v])}"
                for v in dict.fromkeys(variables.values())
            )
            lines.append((f"{version}+" if version else "", types, found[0].run or "declared"))
    return lines


def boxes(combinations: Sequence[dict[str, str]]) -> list[Box]:
    """Splits ``combinations`` into boxes: sets of values per key of which every combination occurs."""
    if not combinations:
        return []
    keys = list(combinations[0])
    box = {k: tuple(dict.fromkeys(c[k] for c in combinations)) for k in keys}
    if prod(map(len, box.values())) == len(combinations):
        return [box]
    split = next(k for k in keys if len(box[k]) > 1)
    return [b for value in box[split] for b in boxes([c for c in combinations if c[split] == value])]


def unfolded(box: Box) -> list[dict[str, str]]:
    """The combinations of a box."""
    return [dict(zip(box, values, strict=True)) for values in product(*box.values())]


def _onnx(dtype: str) -> str:
    """A data type in ONNX Runtime's spelling; quantized types use QNN's name."""
    kind = BY_SHORT[dtype]
    named = {"f32": "float", "f64": "double", "bf16": "bfloat16", "bool8": "bool", "str": "string"}
    if kind.quantized:
        return kind.qnn.lower()
    return named.get(dtype) or kind.qnn.lower().replace("_", "")
