"""A page for each operator of PyTorch, ONNX and TensorFlow Lite: what it becomes, and what takes that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from opdb.plugins.site.facts import CHIP, Facts, Row, ops_of
from opdb.plugins.site.page import Page, file_name


def pages(facts: Facts) -> Iterator[Page]:
    yield from _torch(facts)
    yield from _onnx(facts)
    yield from _tflite(facts)


def support_of(facts: Facts, ops: Sequence[str]) -> dict[str, Any]:
    """The word of each op for each kind of numbers on CHIP and the default backend, with its newest measured SDK."""
    backend = facts.backends[0]
    sdk, part = facts.newest(backend), facts.support.part_of.get(CHIP, CHIP)
    kinds = facts.support.kinds(backend)
    found = {op: [facts.support.of_kind(op, backend, k, part, sdk) for k in kinds] for op in ops}
    used = [i for i in range(len(kinds)) if any(cells[i] for cells in found.values())]
    return {
        "backend": backend,
        "chip": CHIP,
        "sdk": sdk,
        "kinds": [kinds[i] for i in used],
        "ops": [
            {"op": op, "support": [c and {"word": c.word, "why": c.why} for c in (cells[i] for i in used)]}
            for op, cells in found.items()
        ],
    }


def _torch(facts: Facts) -> Iterator[Page]:
    for name, rows in facts.torch.items():
        ops = list(dict.fromkeys(op for r in rows for op in ops_of(r)))
        known = {
            "operator": name,
            "candidates": [_candidate(r) for r in rows],
            "support": support_of(facts, ops),
            "flows": _flows(facts.flows.get(name, [])),
            "onnx": sorted(set(facts.onnx_of.get(name, ()))),
        }
        yield Page(
            "torch", file_name(name), name, "torch.html.j2", known,
            also=(name.replace("aten.", "torch."),), summary="becomes " + ", ".join(ops),
        )  # fmt: skip


def _candidate(row: Row) -> dict[str, Any]:
    kept = (
        "form",
        "decomposition",
        "when",
        "why",
        "inputs",
        "absent",
        "params",
        "outputs",
        "ignored",
        "family",
    )
    return {"ops": ops_of(row)} | {k: row[k] for k in kept}


def _flows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The evidence of whole flows, one line for chips that agree."""
    merged: dict[tuple[Any, ...], list[str]] = {}
    for r in rows:
        key = tuple(
            r[k] for k in ("precision", "backend", "sdk", "execution", "flow", "counts", "reason", "errata")
        )
        merged.setdefault(key, []).append(r["soc"] or "")
    names = ("precision", "backend", "sdk", "execution", "flow", "counts", "reason", "errata")
    return [dict(zip(names, key, strict=True)) | {"chips": sorted(chips)} for key, chips in merged.items()]


def _onnx(facts: Facts) -> Iterator[Page]:
    for name, about in facts.operators["onnx"].items():
        torch = about["torch"]
        ops = _ops_of_torch(facts, torch or ())
        known = {
            "operator": name,
            "torch": None if torch is None else [{"operator": t, "mapped": t in facts.torch} for t in torch],
            "runs_on_host": about["host"],
            "support": support_of(facts, ops),
            "tflite": sorted(facts.tflite_of.get(name, ())),
        }
        yield Page("onnx", file_name(name), name, "onnx.html.j2", known, summary=_becomes(ops, about["host"]))


def _tflite(facts: Facts) -> Iterator[Page]:
    for name, about in facts.operators["tflite"].items():
        torch = list(dict.fromkeys(t for o in about["onnx"] for t in _torch_of(facts, o)))
        ops = _ops_of_torch(facts, torch)
        known = {"operator": name, "onnx": about["onnx"], "support": support_of(facts, ops)}
        yield Page("tflite", file_name(name), name, "tflite.html.j2", known, summary=_becomes(ops, False))


def _torch_of(facts: Facts, onnx: str) -> Sequence[str]:
    return facts.operators["onnx"].get(onnx, {"torch": None})["torch"] or ()


def _ops_of_torch(facts: Facts, operators: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(op for t in operators for r in facts.torch.get(t, ()) for op in ops_of(r)))


def _becomes(ops: Sequence[str], host: bool) -> str:
    return (
        "becomes " + ", ".join(ops)
        if ops
        else "runs on the CPU"
        if host
        else "read by opdb; what it becomes depends on the model"
    )
