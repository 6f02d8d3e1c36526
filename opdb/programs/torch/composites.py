"""Prepares a program for reading: removes operators that change their arguments, and composites that no spec maps.

PyTorch exports operators that it defines by others (``less`` by ``lt``, ``meshgrid``, ``lstm``) as they are called.
An operator that a spec maps stays whole; otherwise PyTorch's decomposition replaces it.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from functools import cache

import torch
from torch.export import ExportedProgram

from opdb.lower.candidates import mapped
from opdb.programs.torch.in_place import out_of_place
from opdb.programs.torch.narrowing import through_int32
from opdb.programs.torch.promotions import promoted
from opdb.programs.torch.ranks import in_fewer_dimensions
from opdb.programs.torch.views import shorten

DEPTH = 4  # composites of composites
#: The same as the operators without "unsafe_", which PyTorch has for autograd; torch.nn.GRUCell calls the first.
UNSAFE = (
    torch.ops.aten.unsafe_split.Tensor,
    torch.ops.aten.unsafe_split_with_sizes.default,
    torch.ops.aten.unsafe_chunk.default,
)


def plain(exported: ExportedProgram, kept: Collection[str]) -> ExportedProgram:
    """``exported`` without them; unchanged if it has none.  ``kept``: targets that stay without a spec.

    Operands of several data types are converted to one.  Permutations of six or more dimensions between views get fewer dimensions
    where that is exact.
    """
    return in_fewer_dimensions(through_int32(promoted(_without_composites(exported, kept))))


def _without_composites(exported: ExportedProgram, kept: Collection[str]) -> ExportedProgram:
    changes = any(target._schema.is_mutable for target in _targets(exported))
    if changes and (without := out_of_place(exported)) is not None:
        exported, changes = without, False
    for _ in range(DEPTH):
        found = {target for target in _tensor_calls(exported) if not stays_whole(target, kept)}
        if not (found or changes):
            break
        table = torch.export.default_decompositions()
        known = {t: table[t] for t in found if t in table}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # PyTorch warns about its own code
                exported = exported.run_decompositions(known)
        except Exception:  # PyTorch's definitions raise whatever they meet: the composites stay
            return exported.run_decompositions({}) if changes else exported
        if not known:
            break
        shorten(exported.graph)
        changes = False
    return exported


def _targets(exported: ExportedProgram) -> Iterator[torch._ops.OpOverload]:
    return (n.target for n in exported.graph.nodes if isinstance(n.target, torch._ops.OpOverload))


def _tensor_calls(exported: ExportedProgram) -> Iterator[torch._ops.OpOverload]:
    for node in exported.graph.nodes:
        value, target = node.meta.get("val"), node.target
        if isinstance(value, (torch.Tensor, list, tuple)) and isinstance(target, torch._ops.OpOverload):
            yield target


def stays_whole(target: torch._ops.OpOverload, kept: Collection[str]) -> bool:
    """True if an operator is read as it is called: a spec maps it, it is one of ``kept``, or PyTorch does not define it by others."""
    name = str(target)
    return name in kept or mapped(name) or not _composite(target)


@cache
def _composite(target: torch._ops.OpOverload) -> bool:
    key = "CompositeImplicitAutograd"
    return target in UNSAFE or bool(torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), key))
