"""Parts of a spec that do not fit into an OpDef collection; ``opdb export xml`` lists what it leaves out."""

from __future__ import annotations

from collections.abc import Iterator

from opdb.author.importers.opxml.collection import LAYOUTS
from opdb.author.importers.slots import KINDS
from opdb.spec.model import BackendDef, Configuration, OpDef, Rule

#: Part of a spec -> its description.  ``left_out`` returns the keys.
LIMITS = {
    "torch": "mappings of PyTorch's operators",
    "quant": "how encodings are found",
    "kernel": "the function that computes the op",
    "tolerance": "how far numbers may be off",
    "samples": "shapes and values to try",
    "extends": "the base; its parts are written out",
    "rows": "which types go together: the XML has the types of each tensor alone",
    "configurations": "names of configurations",
    "since": "the SDKs of a backend's part or configuration",
    "sources": "sources of backends, configurations and rules",
    "why": "reasons of rules",
    "kind": "what a parameter's numbers are, where its name does not say it",
    "layout": "layouts other than NHWC",
}


def left_out(op: OpDef) -> list[str]:
    """The parts of ``op`` that its XML lacks, in the order of LIMITS."""
    found = set(_found(op))
    return [name for name in LIMITS if name in found]


def _found(op: OpDef) -> Iterator[str]:
    for name in ("torch", "quant", "kernel", "tolerance", "samples", "extends"):
        if getattr(op, name):
            yield name
    rules: list[Rule] = list(op.constraints.values())
    for backend in op.backends.values():
        rules += backend.constraints.values()
        if sum(len(rows) for rows in backend.dtypes.values()) > 1:
            yield "rows"
        if backend.dtypes:
            yield "configurations"
        parts: list[BackendDef | Configuration] = [backend, *backend.configurations.values()]
        if any(p.since or p.until for p in parts):
            yield "since"
        if any(p.source for p in parts):
            yield "sources"
    if any(r.source for r in rules):
        yield "sources"
    if any(r.why for r in rules):
        yield "why"
    if any(p.kind != KINDS.get(name, "scalar") for name, p in op.params.items()):
        yield "kind"
    if any(t.layout and t.layout not in LAYOUTS for t in op.slots.values()):
        yield "layout"
