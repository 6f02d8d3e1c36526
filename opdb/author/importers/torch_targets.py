"""Drafts a mapping of a further torch target for an op with a spec, as far as names and schema determine it, with its open points.

Nothing is guessed: an argument that no rule of opdb.author.importers.aten covers stays unmapped, and lint and
generation refuse it until somebody maps it, restricts it, or gives the reason why it does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opdb.author.importers import aten
from opdb.catalog.facts import AtenSchema
from opdb.catalog.facts.signature import torch_schema
from opdb.spec import files as spec
from opdb.spec.definitions import CompiledOp, CompileError
from opdb.spec.family import CandidateDef, FamilyDef
from opdb.spec.mapping import compile_mapping, plain_type, unaccounted
from opdb.spec.model import OpDef, TorchMapping

MARK = "to fill in:"


@dataclass(frozen=True)
class MappingDraft:
    """One entry of ``torch``.  ``open``: points that a person must decide, each with helpful facts.

    ``unset``: the parameters that keep their defaults; only shown if something is open.
    """

    target: str
    entry: TorchMapping
    open: tuple[str, ...]
    unset: tuple[str, ...] = ()


def draft_mapping(
    op: CompiledOp, target: str, signature: str | None, known: Mapping[str, TorchMapping]
) -> MappingDraft:
    """The entry for ``target``; ``signature``: of a target outside ATen.  ``known``: the op's other mappings.

    Raises OpdbError for an unknown target, and for an unreadable signature.
    """
    schema = torch_schema(target, signature)
    data, _ = aten.mapping(op.definition, schema)
    entry = TorchMapping.model_validate(({"signature": signature} if signature else {}) | data)
    unset = (
        f"{n} ({p.type})" for n, p in op.definition.params.items() if p.default and n not in entry.params
    )
    return MappingDraft(target, entry, tuple(_open(op, target, entry, schema, known)), tuple(unset))


def _open(
    op: CompiledOp, target: str, entry: TorchMapping, schema: AtenSchema, known: Mapping[str, TorchMapping]
) -> Iterator[str]:
    try:
        faults = unaccounted(compile_mapping(op, target, entry, schema), schema)
    except CompileError as error:
        faults = error.faults
    for fault in faults:
        yield "; ".join(filter(None, (fault.message, _help(op, fault.message, schema, known))))


def _help(op: CompiledOp, message: str, schema: AtenSchema, mapped: Mapping[str, TorchMapping]) -> str:
    """The type of the argument or parameter that a fault names, and how other targets of the op map it."""
    argument = re.match(r"the argument '(\w+)'", message)
    if argument and (found := schema.argument(argument[1])):
        default = f", default {found.default!r}" if found.has_default else ""
        return f"it is {found.type}{default}"
    param = re.search(r" needs the parameter '(\w+)'", message)
    if param is None:
        return ""
    told = [f"it is {op.definition.params[param[1]].type}"]
    known = {(a.name, plain_type(a.type)) for a in schema.arguments}
    for other, mapping in mapped.items():
        if param[1] in mapping.params and _same_arguments(other, mapping, known):
            told.append(f"{other} has {mapping.params[param[1]]}")
    return "; ".join(told[:2])


def _same_arguments(target: str, mapping: TorchMapping, known: set[Any]) -> bool:
    """True if a target has the same arguments, regardless of their lengths."""
    schema = torch_schema(target, mapping.signature)
    return {(a.name, plain_type(a.type)) for a in schema.arguments} == known


def with_mapping(text: str, own: OpDef, made: MappingDraft) -> str:
    """Adds an entry to the ``torch`` section of ``text``, the file of ``own``; leaves the rest unchanged."""
    whole = own.model_copy(update={"torch": {**own.torch, made.target: made.entry}})
    canonical = spec.dump(whole).splitlines()
    start = canonical.index(f"  {made.target}:")
    end = next((i for i in range(start + 1, len(canonical)) if _indent(canonical[i]) <= 2), len(canonical))
    block = [canonical[start], *_notes(made), *canonical[start + 1 : end]]
    lines = text.splitlines()
    if own.torch:
        head = lines.index("torch:")
        at = next((i for i in range(head + 1, len(lines)) if _indent(lines[i]) == 0), len(lines))
    else:
        keys = [line.partition(":")[0] for line in canonical if _indent(line) == 0]
        later = keys[keys.index("torch") + 1 :]
        at = next((i for i, line in enumerate(lines) if line.partition(":")[0] in later), len(lines))
        block = ["torch:", *block]
    return "\n".join([*lines[:at], *block, *lines[at:]]) + "\n"


def new_family(target: str) -> tuple[str, str]:
    """The name of a new family for ``target``, and the text of its file before its first candidate."""
    name = target.split(".")[1]
    return name, f"family: {name}\nsummary: Candidates of {name}.\ncandidates:\n"


def with_candidate(text: str, family: FamilyDef, op: str, made: MappingDraft) -> str:
    """Adds a candidate at the end of ``text``, the file of ``family``; leaves the rest unchanged."""
    fields = {k: v for k, v in made.entry if v not in (None, {})}
    entry = CandidateDef.model_validate({"torch": [made.target], "op": op} | fields)
    only = spec.dump(family.model_copy(update={"candidates": [entry]})).splitlines()
    block = only[only.index("candidates:") + 1 :]
    lines = text.splitlines()
    end = len(lines)
    while lines[end - 1].startswith("#"):
        end -= 1
    return "\n".join([*lines[:end], block[0], *_notes(made), *block[1:], *lines[end:]]) + "\n"


def _notes(made: MappingDraft) -> list[str]:
    """The open points, and the parameters that keep their defaults, as comments of the entry."""
    told = [f"    # {MARK} {point}" for point in made.open]
    return told + [f"    # keeps its default: {param}" for param in made.unset if made.open]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
