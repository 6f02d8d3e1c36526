"""The specs against the bundled facts: they agree with the documents slot by slot and row by row."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from pathlib import Path

import pytest

import opdb.specs
from opdb.author.importers.naming import names_of
from opdb.catalog import facts as reference
from opdb.catalog.store import read_catalog
from opdb.judge import trial
from opdb.spec import files as spec
from opdb.spec import mapping
from opdb.spec.compiler import compile_op
from opdb.spec.definitions import CompiledOp, expand_row

pytestmark = pytest.mark.slow

FOLDER = Path(opdb.specs.__file__).parent
FOURTEEN = [
    "Concat", "Conv2d", "ElementWiseAdd", "ElementWiseBinary", "ElementWiseNeuron", "FullyConnected", "LayerNorm",
    "MatMul", "ReduceMean", "Relu", "Reshape", "Softmax", "Split", "Transpose",
]  # fmt: skip
DEFINITIONS = [p for kind in ("ops", "bases", "torch") for p in sorted((FOLDER / kind).glob("*.yaml"))]
CONTEXT = {"HTP": {"arch": "u32", "soc_model": "u32", "has_fp16": "bool8", "has_bf16": "bool8"}}


@cache
def specs() -> spec.SpecSet:
    return spec.read_folder(FOLDER)


@cache
def compiled(name: str) -> CompiledOp:
    return compile_op(specs().ops[name], CONTEXT)


def test_the_fourteen_core_ops_have_specs() -> None:
    assert set(FOURTEEN) <= set(specs().ops)


@pytest.mark.parametrize("name", FOURTEEN)
def test_slots_and_parameters_match_the_documents(name: str) -> None:
    facts, op = reference.documented_op(name), compiled(name)
    names = names_of(facts)
    assert [s.name for s in op.inputs] == [names.of(t.slot) for t in facts.inputs]
    assert [s.optional for s in op.inputs] == [not t.mandatory for t in facts.inputs]
    assert [s.variadic for s in op.inputs] == [t.variadic for t in facts.inputs]
    assert [s.name for s in op.outputs] == [names.of(t.slot) for t in facts.outputs]
    assert [p.name for p in op.params] == [p.name for p in facts.params]
    assert [p.required for p in op.params] == [p.mandatory for p in facts.params]
    assert [p.definition.base for p in op.params] == [p.dtype for p in facts.params]
    assert [p.definition.enum for p in op.params] == [dict(p.enum) for p in facts.params]


@pytest.mark.parametrize("name", FOURTEEN)
def test_sources_name_the_document_and_the_op(name: str) -> None:
    facts, op = reference.documented_op(name), specs().ops[name]
    assert op.source == facts.source
    for backend, entry in op.backends.items():
        assert entry.source in (facts.backends[backend].source, reference.observed_source("CPU"))


@pytest.mark.parametrize(("name", "backend"), list(product(FOURTEEN, ("CPU", "HTP"))))
def test_type_rows_multiply_out_to_the_documented_table(name: str, backend: str) -> None:
    """Exactly the documented combinations; for a cell missing in the document, the slot's fixed type counts."""
    facts, op = reference.documented_op(name), compiled(name)
    names, table = names_of(facts), facts.backends[backend]
    tensors = {names.of(t.slot): t for t in (*facts.inputs, *facts.outputs)}
    wanted: dict[str, set[tuple[str, ...]]] = {}
    for config, cells in table.rows:
        columns = [cells.get(tensors[s.name].slot, tensors[s.name].dtypes) for s in op.slots]
        wanted.setdefault(config, set()).update(product(*columns))
    if not all(wanted.values()):
        assert specs().ops[name].backends[backend].source == reference.observed_source(backend)
        return
    found: dict[str, list[tuple[str, ...]]] = {}
    for row in (r for r in op.type_rows[backend] if r.since is None):  # later ones were measured
        config = row.id.split(".")[1]
        found.setdefault(config, []).extend(tuple(c[s.name] for s in op.slots) for c in expand_row(row))
    assert {c: set(rows) for c, rows in found.items()} == wanted
    assert all(len(rows) == len(set(rows)) for rows in found.values()), "a combination stands in two rows"


@pytest.mark.parametrize("name", FOURTEEN)
def test_mappings_account_for_every_argument(name: str) -> None:
    op, catalog = compiled(name), read_catalog(FOLDER)
    assert catalog.mappings(name)
    # Variants, and the targets of a candidate, share one text, which may ignore an argument that only one of them has.
    shared = {
        t
        for c in catalog.candidates
        if c.op == name and (c.variant is not None or len(c.torch) > 1)
        for t in c.torch
    }
    for target, m in catalog.mappings(name).items():
        schema = reference.aten_schema(target)
        made = mapping.compile_mapping(op, target, m, schema)
        assert mapping.unaccounted(made, schema, target in shared) == []


@pytest.mark.parametrize("name", FOURTEEN)
def test_samples_keep_the_rules_of_the_op(name: str) -> None:
    judge = trial.valid(compiled(name))
    samples = specs().ops[name].samples
    assert len(samples) >= 3
    assert [s for s in samples if not judge(s)] == []


@pytest.mark.parametrize("name", FOURTEEN)
def test_samples_use_every_optional_slot_and_every_enum_value(name: str) -> None:
    op, samples = compiled(name), specs().ops[name].samples
    for slot in op.inputs:
        if slot.optional and name != "Reshape":  # no backend takes its shape input
            assert any(slot.name in s for s in samples) and any(slot.name not in s for s in samples)
    for p in op.params:
        assert {s.get(p.name) for s in samples if p.definition.enum} >= set(p.definition.enum)


@pytest.mark.parametrize("path", DEFINITIONS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_files_are_in_the_canonical_form(path: Path) -> None:
    kinds = {"ops": specs().own, "bases": specs().bases, "torch": specs().families}
    text = re.sub(r"^#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert spec.dump(kinds[path.parent.name][path.stem]) == text  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", FOURTEEN)
def test_kernels_take_slots_and_parameters_in_the_order_of_the_spec(name: str) -> None:
    """The C prototype of the kernel, handwritten or generated: its arguments, or inputs, parameters, outputs."""
    op = compiled(name)
    assert op.definition.kernel is not None
    root = Path(opdb.__file__).parent.parent
    folders = [root / "runtime" / "src" / "kernels", root / "generated" / "c" / "kernels"]
    if not all(f.is_dir() for f in folders):
        pytest.skip("not a checkout: the kernels' sources are elsewhere")
    source = "".join(p.read_text(encoding="utf-8") for f in folders for p in sorted(f.glob("*.c")))
    match = re.search(rf"^opdb_status {op.definition.kernel.function}\(([^)]*)\)", source, re.MULTILINE)
    assert match is not None
    arguments = [re.split(r"[ *]", a.strip())[-1] for a in match[1].split(",")]
    every = [*(s.name for s in op.inputs), *(p.name for p in op.params), *(s.name for s in op.outputs)]
    assert arguments == (op.definition.kernel.arguments or every)
