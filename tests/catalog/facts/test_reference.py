"""The bundled facts: complete, well-formed, readable without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import opdb.catalog.facts
from opdb.catalog import facts
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError

DATA = Path(opdb.catalog.facts.__file__).parent / "data"


def test_every_documented_op_can_be_read() -> None:
    ops = [facts.documented_op(name) for name in facts.documented_ops()]
    documented = [op for op in ops if op.source.startswith("MasterOpDef.html@2.25.0#")]
    assert len(documented) == 151
    assert sum(len(op.inputs) for op in documented) == 287
    assert sum(len(op.params) for op in documented) == 265
    assert sum(len(op.outputs) for op in documented) == 184
    assert sum("HTP" in op.backends for op in documented) == 121
    assert sum("CPU" in op.backends for op in documented) == 145
    assert sum(len(op.backends["HTP"].rows) for op in documented if "HTP" in op.backends) == 1086


def test_types_are_known_by_their_short_names() -> None:
    unknown = set()
    for op in map(facts.documented_op, facts.documented_ops()):
        for backend in op.backends.values():
            for _, row in backend.rows:
                unknown |= {d for cell in row.values() for d in cell if d not in BY_SHORT}
    assert unknown <= {"backend", "FLOAT_8"}, "a type of the documents that opdb.core.dtypes lacks"


def test_facts_of_layer_norm_match_the_document() -> None:
    op = facts.documented_op("LayerNorm")
    assert [(t.slot, t.name, t.mandatory) for t in op.inputs] == [
        ("in[0]", "input", True),
        ("in[1]", "gamma", False),
        ("in[2]", "beta", False),
    ]
    assert [(p.name, p.dtype, p.default, p.mandatory) for p in op.params] == [
        ("epsilon", "f32", 0.001, False),
        ("axes", "u32", None, True),
    ]
    assert op.backends["HTP"].source == "HtpOpDefSupplement.html@2.25.0#LayerNorm"


def test_every_op_has_a_sentence_and_known_targets() -> None:
    for name in facts.documented_ops():
        sentence = facts.summary(name)
        assert sentence and sentence.endswith(".") and "\n" not in sentence, name
        for target in facts.torch_targets(name):
            facts.aten_schema(target)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda: facts.documented_op("LayrNorm"), "did you mean 'LayerNorm'"),
        (lambda: facts.aten_schema("aten.native_layer_nrm.default"), "'aten.native_layer_norm.default'"),
        (lambda: facts.aten_schema("relu"), "'aten.relu.default'"),
    ],
)
def test_unknown_names_get_suggestions(call, wanted: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(OpdbError, match=wanted.replace(".", r"\.")):
        call()


def test_files_are_small_and_have_one_entry_on_a_line() -> None:
    for path in DATA.glob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert len(text) < 1.5 * 2**20, path.name
        entries = sum(len(v) for v in json.loads(text).values() if isinstance(v, dict))
        assert text.count("\n") >= entries, path.name


def test_reading_needs_no_torch() -> None:
    code = (
        "import sys, opdb.catalog.facts as r; r.aten_schema('aten.relu.default'); r.documented_op('Relu');"
        "print(sorted({'torch', 'numpy', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.torch
def test_schemas_match_the_installed_torch() -> None:
    torch = pytest.importorskip("torch")
    from opdb.catalog.facts.refresh import _schema

    if torch.__version__.partition("+")[0] != facts.TORCH:
        pytest.skip(f"the schemas are those of torch {facts.TORCH}, installed is {torch.__version__}")
    known = json.loads((DATA / f"aten-{facts.TORCH}.json").read_text(encoding="utf-8"))["targets"]
    for target, entry in known.items():
        _, name, overload = target.split(".")
        assert _schema(getattr(getattr(torch.ops.aten, name), overload)._schema) == entry, target
