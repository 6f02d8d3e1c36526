"""Drafts a spec from the bundled facts: ``draft("LayerNorm")`` is the text of specs/ops/LayerNorm.yaml.

Every part is translated by kind of fact (see the modules beside this one) and compiled, and parts that the rule
language refuses are removed; whatever has no expression becomes a comment at the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from opdb.author.importers import aten, constraints, samples, slots, supplements
from opdb.author.importers.naming import Names, names_of, snake
from opdb.author.importers.settle import CONTEXT, settle
from opdb.author.importers.symbolic import Condition
from opdb.catalog import facts as reference
from opdb.catalog.facts.signature import torch_schema
from opdb.core.dtypes import DTYPES
from opdb.core.errors import OpdbError
from opdb.generated.constants.backends import BACKENDS, PACKAGED
from opdb.judge import trial
from opdb.spec import files as spec
from opdb.spec.compiler import compile_op
from opdb.spec.definitions import CompiledOp, CompileError
from opdb.spec.lang.printer import to_text
from opdb.spec.mapping import compile_mapping, unaccounted
from opdb.spec.model import STRENGTHS, OpDef

#: The backends that a draft describes, first those whose libraries were asked, with their letter for rules.
LETTERS = {b.name: b.letter for b in sorted(BACKENDS.values(), key=lambda b: not b.asked)}
#: The data types of a kernel that only moves elements.
WHOLE_BYTES = tuple(d.short for d in DTYPES if d.numpy is not None)
#: The tolerated difference of a result from PyTorch's, by the class of the op's arithmetic.
TOLERANCES: dict[str, dict[str, dict[str, Any]]] = {
    "copy": {"f32": {}, "f16": {}},
    "exact": {"f32": {"ulp": 1}, "f16": {"ulp": 1}},
    "reduction": {
        "f32": {"ulp": "2 * prod(gather(S, axes)) + 6", "abs": 1.0e-5},
        "f16": {"ulp": "2 * prod(gather(S, axes)) + 6", "abs": 0.01},
    },
    "function": {"f32": {"ulp": 16, "abs": 1.0e-6}, "f16": {"ulp": 4, "abs": 0.002}},
    "products": {"f32": {"ulp": 64, "abs": 1.0e-4}, "f16": {"ulp": 64, "abs": 0.05}},
}


def draft(
    op_name: str,
    torch_targets: Sequence[str] | None = None,
    like: OpDef | None = None,
    facts: reference.DocumentedOp | None = None,
    package: str | None = None,
    signatures: Mapping[str, str] = MappingProxyType({}),
    ranked: Container[str] = (),
) -> str:
    """The YAML text of a spec of a documented op; comments at its end say what it does not express.

    ``torch_targets`` come first among the mappings; targets known to be equivalent follow.  ``like``
    is the spec of a similar op: an undocumented op gets its slots, parameters, rules, and samples.
    ``facts`` replace the bundled ones.  ``package``: the op package of an op that QNN does not have; it takes
    the types of the kernel of ``like``.  ``signatures``: of the targets outside ATen.  Omits targets that are not
    fully covered, and targets in ``ranked``, whose candidates are in families.
    Raises OpdbError for an undocumented op without ``like``, and for an unknown ATen target.
    """
    words: list[str] = []
    if facts is not None:
        data = _documented(facts, words)
    elif op_name not in reference.documented_ops() and like is not None:
        data = _alike(op_name, like, package, words)
    else:
        data = _documented(reference.documented_op(op_name), words)
    compiled = _settle(data, words)
    given = [t for t in torch_targets or () if t not in signatures]
    targets = [*signatures, *(t for t in _targets(op_name, given, like) if t not in ranked)]
    data["torch"] = _torch(compiled, targets, signatures, words)
    if "quant" not in data:
        data |= _numbers(op_name, compiled)
    if not data.get("samples"):
        judge = trial.valid(compiled)
        data["samples"] = [s for s in samples.samples(compiled.definition) if judge(s)]
    text = spec.dump(OpDef.model_validate(data))
    return text + "".join(f"# not expressed: {w}\n" for w in dict.fromkeys(words))


def parts(op: reference.DocumentedOp) -> dict[str, Any]:
    """The part of the spec's data that follows from the facts, without mappings, numbers, and samples; it compiles."""
    data = _documented(op, [])
    _settle(data, [])
    return data


def _documented(op: reference.DocumentedOp, words: list[str]) -> dict[str, Any]:
    """The spec data for the op's definition and backends; it may not compile yet."""
    if not op.outputs:
        raise OpdbError(f"{op.name} has no output tensors; a spec describes tensors, not graphs")
    names = names_of(op)
    ins = slots.inputs(op, names)
    outs, lets = slots.outputs(op, names, ins)
    rules, rest = constraints.of_op(op, names, ins, outs)
    words += rest
    data: dict[str, Any] = {
        "op": op.name,
        "summary": reference.summary(op.name),
        "source": op.source,
        "inputs": ins,
    }
    data |= {
        "params": slots.params(op, names),
        "let": lets,
        "outputs": outs,
        "constraints": _numbered("C", rules),
    }
    data["backends"] = {}
    for name in LETTERS:
        if name in op.backends:
            data["backends"][name], rest = backend_section(op, name, names, {**ins, **outs})
            words += rest
    return data


def backend_section(
    op: reference.DocumentedOp, backend: str, names: Names, shapes: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """A spec's section for one backend, as YAML data that may not compile yet, and the facts that no rule expresses.

    ``shapes``: the entries of the spec's inputs and outputs by name.
    """
    found = supplements.of_backend(op, op.backends[backend], names, dict(shapes))
    rows = {c: [{s: list(cell) for s, cell in row.items()} for row in g] for c, g in found.rows.items()}
    rules = _numbered(LETTERS[backend], found.rules)
    entry = {"source": found.source, "constraints": rules, "dtypes": rows}
    if found.origins:
        entry["configurations"] = found.origins
    return entry, [f"{backend}: {w}" for w in found.words]


def _alike(op_name: str, like: OpDef, package: str | None, words: list[str]) -> dict[str, Any]:
    """The slots, parameters, rules, encodings, tolerance, and samples of ``like``; in a package also its kernel."""
    data: dict[str, Any] = like.model_dump(mode="json")
    data |= {"op": op_name, "summary": like.summary, "quant": like.model_dump(mode="json").get("quant", {})}
    for key in ("source", "backends", "torch", "extends", *(() if package else ("kernel",))):
        data.pop(key, None)
    if package:
        source = f"{package}@1.0#{op_name}"
        if data.get("kernel"):  # the function of ``like`` computes the op
            data["kernel"] = {k: v for k, v in data["kernel"].items() if k in ("function", "dtypes")}
        data |= {"package": package, "source": source}
        rows = _rows_of_kernel(like)
        data["backends"] = {PACKAGED: {"source": source, "constraints": {}, "dtypes": rows}} if rows else {}
        words.append(
            f"everything is that of {like.op}, its kernel {like.kernel and like.kernel.function} included"
        )
        return data
    words.append(f"everything is that of {like.op}; no document of {op_name} is known")
    return data


def _rows_of_kernel(like: OpDef) -> dict[str, Any]:
    """The type rows of ``like`` on the backend of op packages that its kernel supports, split by the first input's type."""
    first, part = next(iter(like.inputs), None), like.backends.get(PACKAGED)
    if like.kernel is None or first is None or part is None:
        return {}
    out: dict[str, list[dict[str, list[str]]]] = {}
    for name, rows in part.dtypes.items():
        for row in rows:
            kept = [d for d in row[first] if d in like.kernel.dtypes]
            for d in kept:
                out.setdefault(name, []).append({s: [d] if d in cell else cell for s, cell in row.items()})
    return out


def _numbered(letter: str, rules: Sequence[Condition]) -> dict[str, Any]:
    return {f"{letter}{i}": rule.data() for i, rule in enumerate(rules, 1)}


def _settle(data: dict[str, Any], words: list[str]) -> CompiledOp:
    """Compiles ``data`` after removing parts that the rule language refuses, and rewrites rules in their final spelling."""
    compiled = settle(data, words)
    data["let"] = {name: to_text(node) for name, node in compiled.lets}
    _spell(data["constraints"], {r.id: r for r in compiled.rules}, "C")
    for name, backend in data.get("backends", {}).items():
        _leave_out_stated(backend["constraints"], name, compiled)
        _spell(
            backend["constraints"], {r.id: r for r in compiled.backend_rules[name]}, LETTERS.get(name, "X")
        )
    return compile_op(OpDef.model_validate(data), CONTEXT)


def _leave_out_stated(rules: dict[str, Any], backend: str, compiled: CompiledOp) -> None:
    """Removes rules of a backend that the op definition, or an earlier rule, states in the same words."""
    seen = {(r.when and to_text(r.when), to_text(r.require)) for r in compiled.rules}
    for rule in compiled.backend_rules[backend]:
        text = (rule.when and to_text(rule.when), to_text(rule.require))
        if text in seen:
            del rules[rule.id]
        seen.add(text)


def _spell(rules: dict[str, Any], compiled: dict[str, Any], letter: str) -> None:
    """Numbers rules consecutively, and rewrites them in the printer's spelling."""
    old = list(rules.items())
    rules.clear()
    for number, (ident, rule) in enumerate(old, 1):
        require = to_text(compiled[ident].require)
        if isinstance(rule, dict):
            when = {"when": to_text(compiled[ident].when)} if compiled[ident].when is not None else {}
            key = next(s for s in STRENGTHS if s in rule)
            rules[f"{letter}{number}"] = rule | when | {key: require}
        else:
            rules[f"{letter}{number}"] = require


def _targets(op_name: str, given: Sequence[str] | None, like: OpDef | None) -> list[str]:
    known = reference.torch_targets(op_name)
    for target in given or ():
        reference.aten_schema(target)
    return list(dict.fromkeys([*(given or ()), *known]))


def _torch(
    compiled: CompiledOp, targets: Sequence[str], signatures: Mapping[str, str], words: list[str]
) -> dict[str, Any]:
    """A mapping for each target that is fully covered; words for the others."""
    out: dict[str, Any] = {}
    for target in targets:
        schema = torch_schema(target, signatures.get(target))
        entry, rest = aten.mapping(compiled.definition, schema)
        if target in signatures:
            entry = {"signature": signatures[target], **entry}
        probe = compiled.definition.model_copy(update={"torch": {}})
        try:
            model = OpDef.model_validate(probe.model_dump(mode="json") | {"torch": {target: entry}}).torch[
                target
            ]
            faults = unaccounted(compile_mapping(compiled, target, model, schema), schema)
        except CompileError as error:
            faults = error.faults
        if rest or faults:
            words += rest or [f"{target}: {faults[0].message}"]
        else:
            out[target] = entry
    return out


def _numbers(op_name: str, compiled: CompiledOp) -> dict[str, Any]:
    """Quantization, kernel, and tolerance."""
    kind = _class(op_name, compiled)
    first, last = compiled.inputs[0].name if compiled.inputs else None, compiled.outputs[0].name
    out: dict[str, Any] = {
        "quant": {"share": [first, last]} if kind == "copy" and first else {last: "calibrate"}
    }
    function = f"opdb_{snake(op_name)}"
    if function in _kernels():
        out["kernel"] = {"function": function, "dtypes": list(WHOLE_BYTES) if kind == "copy" else ["f32"]}
    return out | {"tolerance": TOLERANCES[kind]}


def _class(op_name: str, compiled: CompiledOp) -> str:
    """The class of arithmetic: copy and exact from a table; reductions and products from the op's parts."""
    classes = json.loads((files("opdb.catalog.facts") / "data" / "classes.json").read_text(encoding="utf-8"))
    for name, ops in classes.items():
        if op_name in ops:
            return str(name)
    if "axes" in compiled.definition.params and "S" in compiled.scope.names:
        return "reduction"
    return "products" if {"filter", "weight", "b"} & set(compiled.definition.inputs) else "function"


@cache
def _kernels() -> frozenset[str]:
    """The C functions of opdb's own kernels."""
    found: set[str] = set()
    for file in (files("opdb.runtime") / "src" / "kernels").iterdir():
        if file.name.endswith(".c"):
            found.update(
                re.findall(r"^opdb_status (opdb_\w+)\(", file.read_text(encoding="utf-8"), re.MULTILINE)
            )
    return frozenset(found)
