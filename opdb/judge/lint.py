"""Checks specs beyond their form, for content that is well-formed but cannot be intended.

* every argument of every ATen schema is mapped, constrained or declared ignored with a reason;
* every spec is in its canonical spelling (that of an op is what ``opdb show`` prints);
* every op and every backend part names its source; every op has a summary, samples and a tolerance;
* every slot and every parameter has a ``doc``, in the op or base that describes it;
* the type rows of one configuration do not repeat;
* a cell of a type row names no data type that its slot's own ``dtype`` refuses.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from opdb.catalog.facts.signature import torch_schema
from opdb.catalog.store import read_catalog
from opdb.core.errors import OpdbError, Problem
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompileError, Fault, TypeRow, overlap
from opdb.spec.family import Candidate, FamilyDef
from opdb.spec.files import Document, dump, load, parse_document, reread
from opdb.spec.mapping import compile_decomposition, compile_mapping, unaccounted
from opdb.spec.model import Body, Decomposition, OpDef
from opdb.spec.paths import spec_name


def lint(folder: Path, catalog: Catalog | None = None) -> list[Problem]:
    """All problems, in order of files and places.  Raises SpecError if the specs cannot even be read.

    ``catalog``: the folder's catalog from a database; None for a folder that is in none.
    """
    catalog = catalog or read_catalog(folder)
    problems: list[Problem] = []
    for name in catalog.ops:
        document = reread(folder, f"ops/{name}.yaml")
        problems += [_problem(document, f) for f in _op_faults(catalog, name)]
        problems += [_problem(document, f) for f in _unsaid(catalog.own[name])]
        problems += _spelling(document, dump(catalog.own[name]))
    for name in catalog.bases:
        document = reread(folder, f"bases/{name}.yaml")
        problems += [_problem(document, f) for f in _unsaid(catalog.bases[name])]
        problems += _spelling(document, dump(catalog.bases[name]))
    for name in catalog.families:
        document = reread(folder, f"torch/{name}.yaml")
        problems += [_problem(document, f) for f in _family_faults(catalog, name)]
        problems += _spelling(document, dump(load(FamilyDef, document)))
    for name, erratum in catalog.errata.items():
        problems += _spelling(reread(folder, spec_name("errata", name)), dump(erratum))
    return sorted(set(problems))


def open_mappings(folder: Path, op: str) -> list[Problem]:
    """The arguments that the torch mappings of one op leave open, and other mistakes in them."""
    catalog, document = read_catalog(folder), reread(folder, f"ops/{op}.yaml")
    problems = [_problem(document, f) for f in _mapping_faults(catalog, op)]
    for candidate in (c for c in catalog.candidates if c.op == op):
        document = reread(folder, f"torch/{candidate.family}.yaml")
        for target in candidate.torch:
            faults = map(candidate.fault, _candidate_faults(catalog, candidate, target))
            problems += [_problem(document, f) for f in faults]
    return problems


def _problem(document: Document, fault: Fault) -> Problem:
    return document.problem(fault.at, fault.message, fault.column)


def _op_faults(catalog: Catalog, name: str) -> Iterator[Fault]:
    op, compiled = catalog.ops[name], catalog.compiled(name)
    yield from _mapping_faults(catalog, name)
    for what in ("summary", "source", "samples"):
        if not getattr(op, what):
            yield Fault((), f"the op has no '{what}'")
    if op.kernel is not None and not op.tolerance:
        yield Fault(("kernel",), "an op with a kernel needs a 'tolerance'")
    if op.kernel is not None and op.kernel.each is not None:
        function = op.kernel.function
        others = [
            n for n, o in catalog.ops.items() if o.kernel and o.kernel.each and o.kernel.function == function
        ]
        if others[0] != name:
            yield Fault(("kernel", "function"), f"{function} is generated for {others[0]} too")
    yield from _wide_cells(op)
    for backend, part in op.backends.items():
        if part.source is None:
            yield Fault(("backends", backend), "the facts of a backend need their 'source'")
        seen: dict[str, list[TypeRow]] = {}
        for row in compiled.type_rows[backend]:
            config, _, number = row.id.removeprefix(f"{backend}.").rpartition(".")
            earlier = seen.setdefault(config, [])  # documents repeat rows in another configuration
            same = next((r for r in earlier if overlap(r, row)), None)
            if same is not None:
                at = ("backends", backend, "dtypes", config, int(number) - 1)
                yield Fault(at, f"the row repeats a combination of {same.id}")
            earlier.append(row)


def _unsaid(part: Body) -> Iterator[Fault]:
    """A fault for each slot and parameter of one file without a sentence; an op's file need not describe those of its base."""
    for group in ("inputs", "params", "outputs"):
        for name, described in getattr(part, group).items():
            if not described.doc:
                yield Fault((group, name), f"'{name}' has no 'doc'; say in a sentence what it means")


def _wide_cells(op: OpDef) -> Iterator[Fault]:
    """Cells of type rows that no tensor can have, because the slot's own ``dtype`` refuses them."""
    for backend, part in op.backends.items():
        for config, rows in part.dtypes.items():
            for number, row in enumerate(rows):
                for slot, cell in row.items():
                    own = op.slots[slot].dtype
                    beyond = [d for d in cell if own and d not in own]
                    if beyond:
                        at = ("backends", backend, "dtypes", config, number, slot)
                        yield Fault(
                            at, f"no tensor of {slot} is {', '.join(beyond)}: its dtype is {', '.join(own)}"
                        )


def _mapping_faults(catalog: Catalog, name: str) -> Iterator[Fault]:
    compiled = catalog.compiled(name)
    for target, mapping in catalog.ops[name].torch.items():
        try:
            schema = torch_schema(target, mapping.signature)
            yield from unaccounted(compile_mapping(compiled, target, mapping, schema), schema)
        except CompileError as error:
            yield from error.faults
        except OpdbError as error:
            yield Fault(("torch", target), str(error))


def _family_faults(catalog: Catalog, name: str) -> Iterator[Fault]:
    for candidate in catalog.families[name].candidates:
        for target in candidate.torch:
            yield from map(candidate.fault, _candidate_faults(catalog, candidate, target))


def _candidate_faults(catalog: Catalog, candidate: Candidate, target: str) -> Iterator[Fault]:
    definition = candidate.definition
    shared = len(candidate.torch) > 1 or candidate.variant is not None
    try:
        signature = None if isinstance(definition, Decomposition) else definition.signature
        schema = torch_schema(target, signature)
        if isinstance(definition, Decomposition):
            ops = {step.op: catalog.compiled(step.op) for step in definition.ops}
            made = compile_decomposition(definition, target, ops, schema)
            yield from unaccounted(made, schema, shared)
        else:
            direct = compile_mapping(catalog.compiled(candidate.op or ""), target, definition, schema)
            yield from unaccounted(direct, schema, shared)
    except CompileError as error:
        yield from error.faults
    except OpdbError as error:
        yield Fault(("torch",) if candidate.op is None else ("torch", target, "torch"), str(error))


def _spelling(document: Document, canonical: str) -> Iterator[Problem]:
    """A problem at the first line where the data or its order differ from the canonical text."""
    as_written, as_it_should_be = (parse_document(t, document.path).data for t in (document.text, canonical))
    if _items(as_written) == _items(as_it_should_be):
        return
    yield Problem(document.path, 0, 0, "not in canonical spelling; 'opdb show' prints it as it should be")


def _items(value: object) -> object:
    """The data with mappings as lists of pairs, so that their order counts."""
    if isinstance(value, dict):
        return [(k, _items(v)) for k, v in value.items()]
    return [_items(v) for v in value] if isinstance(value, list) else value
