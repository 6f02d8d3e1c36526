"""What the scripts of an op's page know: targets, data types, the op's slots and rows of types, accepted configs to begin with."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any

from opdb.catalog.targets.target import Target
from opdb.core.dtypes import BY_SHORT, DTYPES
from opdb.core.errors import OpdbError
from opdb.core.op_config import ENCODINGS, MAX_RANK, MAX_VALUES, TENSOR_TYPES, OpConfig, to_json
from opdb.generated import validators
from opdb.generated.constants.backends import BACKENDS, Context
from opdb.judge.errata.policy import AVOID, decide
from opdb.judge.errata.records import RECORDS
from opdb.judge.samples import kernel_types, sample_config
from opdb.judge.validate import check
from opdb.plugins.site.facts import CHIP, Facts
from opdb.runtime.errata import PREFER_OTHER
from opdb.spec.definitions import CompiledOp

#: Types that an example begins with, the first that the target takes.
FIRST = ("f32", "f16", "uq8", "i32")
#: Qnn_QuantizationEncoding_t of a tensor without encoding, and the numbers of Qnn_TensorType_t (opdb/runtime.h).
NO_ENCODING = 0x7FFFFFFF
TYPE_NUMBERS = {
    name: i for i, name in enumerate(("APP_WRITE", "APP_READ", "APP_READWRITE", "NATIVE", "STATIC"))
}


def known(facts: Facts) -> dict[str, Any]:
    """The content of targets.js: what is the same on all pages."""
    reads = [name for name in validators.BACKENDS if BACKENDS[name].per_soc]
    members = [f.name for f in fields(Context)]
    chips = {}
    for soc, row in facts.chips.items():
        context = vars(Target(reads[0], soc).context()) if reads else {}
        values = {m: int(context[m]) for m in members[2:]}
        chips[soc] = {"names": row["names"] or "", "values": values}
    return {
        "members": members,
        "backends": list(validators.BACKENDS),
        "order": [b for b in facts.backends if b in validators.BACKENDS],
        "reads": reads,
        "chips": chips,
        "chip": CHIP,
        "sdks": list(facts.sdks),
        "sdk": facts.sdk,
        "dtypes": [
            {"short": d.short, "qnn": d.qnn, "code": d.code, "bits": d.bits, "quantized": d.quantized}
            for d in DTYPES
        ],
        "encodings": {name: i for i, name in enumerate(ENCODINGS)},
        "no_encoding": NO_ENCODING,
        "tensor_types": {name: n for name, n in TYPE_NUMBERS.items() if name in TENSOR_TYPES},
        "max_rank": MAX_RANK,
        "max_values": MAX_VALUES,
    }


def about(facts: Facts, name: str) -> dict[str, Any]:
    """What the page of an op embeds for its verdicts."""
    module = validators.module(name)
    assert module is not None  # every op of the catalog has one
    signature = module.SIGNATURE
    compiled = facts.catalog.compiled(name)

    def slots(group: tuple[Any, ...]) -> list[dict[str, Any]]:
        return [{"name": s.name, "optional": s.optional, "variadic": s.variadic} for s in group]

    return {
        "op": name,
        "inputs": slots(signature.inputs),
        "outputs": slots(signature.outputs),
        "params": [
            {
                "name": p.name,
                "dtype": p.dtype,
                "dims": list(p.dims),
                "required": p.required,
                "enum": {word: value for value, word in p.enum.items()} or None,
            }
            for p in signature.params
        ],
        "documented": sorted(module.DOCUMENTED),
        "rows": {b: _rows(module, b) for b in validators.BACKENDS if getattr(module, f"ROWS_{b}", ())},
        "avoided": [e.erratum for e in facts.catalog.errata_of(name) if _avoided(e.erratum)],
        "examples": [to_json(c) for c in examples(compiled, tuple(facts.backends))],
    }


def _rows(module: Any, backend: str) -> list[dict[str, Any]]:
    return [
        {
            "since": r.since,
            "until": r.until,
            "needs": r.needs,
            "cells": [sorted(c, key=list(BY_SHORT).index) for c in r.cells],
        }
        for r in getattr(module, f"ROWS_{backend}")
    ]


@cache
def _avoided(erratum: str) -> bool:
    """As ``opdb.judge.errata.policy.excludes`` on a device."""
    record = RECORDS[erratum]
    return decide(record, Target(record.backend)) == AVOID and record.workaround != PREFER_OTHER


def examples(compiled: CompiledOp, backends: tuple[str, ...]) -> list[OpConfig]:
    """The first sample of the spec in types that a backend takes; for each backend the first config that it accepts."""
    made: list[OpConfig] = []
    for backend in backends:
        if backend not in validators.BACKENDS:
            continue
        target = Target(backend, CHIP if BACKENDS[backend].per_soc else None)
        if any(_accepted(c, target) for c in made):
            continue
        found = next((c for c in _candidates(compiled, backend) if _accepted(c, target)), None)
        if found is not None:
            made.append(found)
    return made or list(_candidates(compiled, ""))[:1]


def _candidates(compiled: CompiledOp, backend: str) -> list[OpConfig]:
    rows = [{slot: cell[0] for slot, cell in r.cells.items()} for r in compiled.type_rows.get(backend, ())]
    types = [*(kernel_types(compiled, d) for d in FIRST if not backend), *rows] or [
        kernel_types(compiled, "f32")
    ]
    found = []
    for sample in range(len(compiled.definition.samples)):
        for dtypes in types:
            try:
                found.append(sample_config(compiled, sample, dtypes))
            except (OpdbError, KeyError, ValueError):
                continue
    return found


def _accepted(config: OpConfig, target: Target) -> bool:
    found = check(config, target)
    return found.verdict == "accept" and not any(v.erratum and _avoided(v.erratum) for v in found.violations)
