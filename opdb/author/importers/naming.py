"""Chooses the names of slots, shape symbols, and C functions in a draft.

A document numbers its slots (``in[0]``) and has words for dims (``channel_in``); a spec has short
names: x and y for a single main input and output, a and b for two equals, xs and ys for any number, and
otherwise the document's own word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from opdb.catalog.facts import DocumentedOp, DocumentedTensor
from opdb.spec.fields import RESERVED
from opdb.spec.lang.functions import FUNCTIONS

#: The document's name of a slot -> the spec's.
SLOTS = {"input": "x", "input_a": "a", "input_b": "b", "output": "y"}
VARIADIC = {"inputs": "xs", "outputs": "ys"}
#: The document's word for a dim -> the usual symbol.
SYMBOLS = {
    "batch": "N", "height": "H", "width": "W", "depth": "D", "channel": "C", "channel_in": "C",
    "channel_out": "K", "filter_height": "KH", "filter_width": "KW", "filter_depth": "KD", "height_out": "OH",
    "width_out": "OW", "depth_out": "OD", "dilated_filter_height": "EH", "dilated_filter_width": "EW",
    "dilated_filter_depth": "ED",
}  # fmt: skip


def snake(op: str) -> str:
    """Converts to snake case, e.g. LayerNorm -> layer_norm, Conv2d -> conv2d, Nv12ToRgb -> nv12_to_rgb."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", op).lower()


def symbol(word: str) -> str:
    """The shape symbol for a document's word for a dim; e.g. channel_in -> C, num_rois -> NumRois."""
    if word in SYMBOLS:
        return SYMBOLS[word]
    return "".join(part[:1].upper() + part[1:] for part in word.split("_"))


@dataclass(frozen=True)
class Names:
    """Slot positions and parameter names of one op -> the names in its spec."""

    slots: dict[str, str]  # e.g. {"in[0]": "x", "out[0]": "y"}
    params: tuple[str, ...]
    symbols: dict[str, str]  # the document's words for dims and ranks -> the rule language's
    lists: frozenset[str]  # parameters with several values
    variadic: frozenset[str]  # spec names of variadic slots
    dims: dict[str, tuple[str, ...]]  # the document's words for the dims of a slot

    def of(self, slot: str) -> str:
        """The spec's name of a slot; the first tensor of a variadic slot is ``xs[0]``."""
        for position, name in self.slots.items():
            if position != slot and name in self.variadic and position.startswith(f"{slot[:-1]}.."):
                return f"{name}[0]"
        return self.slots.get(slot, slot)

    def dim(self, slot: str, word: str) -> str | None:
        """The symbol for a dim of a slot; e.g. the height of a filter is its filter_height."""
        words = self.dims.get(slot, ())
        found = [w for w in words if w == word] or [w for w in words if w.endswith(f"_{word}")]
        return symbol(found[0]) if found and found[0].isidentifier() else None


def names_of(op: DocumentedOp) -> Names:
    """Chooses all names of an op; a name that the rule language cannot use gets an underscore."""
    slots: dict[str, str] = {}
    taken = {p.name for p in op.params}
    for group in (op.inputs, op.outputs):
        for t in group:
            name = _slot(t, group, taken | set(slots.values()))
            slots[t.slot] = name
    symbols: dict[str, str] = {}
    for t in (*op.inputs, *op.outputs):
        for word in (t.facts.get("rank_symbol"), *(t.facts.get("defs", {}))):
            if word and word not in symbols and t.slot.startswith("in"):
                symbols[word] = f"{slots[t.slot]}{'[0]' if t.variadic else ''}.rank"
        for dim in t.shape or ():
            for word in re.findall(r"[A-Za-z_]\w*", dim):
                if word not in taken:
                    symbols.setdefault(word, symbol(word))
        for word in t.facts.get("dim_formulas", {}):
            if word.isidentifier():
                symbols.setdefault(word, symbol(word))
    return Names(
        slots,
        tuple(p.name for p in op.params),
        symbols,
        frozenset(p.name for p in op.params if p.shape is not None),
        frozenset(slots[t.slot] for t in (*op.inputs, *op.outputs) if t.variadic),
        {t.slot: t.shape for t in (*op.inputs, *op.outputs) if t.shape},
    )


def _slot(t: DocumentedTensor, group: Sequence[DocumentedTensor], taken: set[str]) -> str:
    table = VARIADIC if t.variadic else SLOTS
    name = table.get(t.name, t.name)
    if name == t.name and not t.variadic and len(group) == 1 and t.slot.startswith("out"):
        name = "y"
    while name in taken or name in RESERVED or name in FUNCTIONS:
        name += "_"
    return name
