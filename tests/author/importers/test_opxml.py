"""Op XML: every spec of the catalog to a file and back, a collection as Qualcomm's users write it, bad files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

import opdb.specs
from opdb.author.importers.opxml.collection import Collection
from opdb.author.importers.opxml.draft import XmlDraft, drafts
from opdb.author.importers.opxml.limits import LIMITS, left_out
from opdb.author.importers.opxml.read import read
from opdb.author.importers.opxml.specs import collection
from opdb.author.importers.opxml.write import write
from opdb.catalog.store import read_catalog
from opdb.core.errors import OpdbError, SpecError
from opdb.spec import files as spec
from opdb.spec.catalog import Catalog
from opdb.spec.compiler import compile_op
from opdb.spec.model import OpDef, TensorDef

FOLDER = Path(opdb.specs.__file__).parent
FOREIGN = """<?xml version="1.0" encoding="UTF-8"?>
<!-- a comment -->
<OpDefCollection PackageName="Scales" Domain="aisw" Version="1.2">
  <OpDefList>
    <OpDef>
      <Name>ScaleRows</Name>
      <Description><Content>Scales
        rows.</Content><Code>height_out = height / 2</Code></Description>
      <Reference Source="A framework" Url="scale"/>
      <Input>
        <Name>in[0]</Name><Mandatory>true</Mandatory>
        <Constraint id="0" Type="Shape">The height is even</Constraint>
        <Constraint id="1" Type="Shape">in0.shape[1] % 2 == 0</Constraint>
        <Datatype>BACKEND_SPECIFIC</Datatype>
        <Shape><Rank>4D</Rank><Layout>NHWC</Layout><Text>[batch, height, width, channel]</Text></Shape>
      </Input>
      <Input>
        <Name>in[1]</Name><Mandatory>false</Mandatory><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Shape><Rank>1D</Rank><Text>as long as the rows</Text></Shape>
        <IsStaticTensor>true</IsStaticTensor>
      </Input>
      <Output>
        <Name>out[0]</Name><Mandatory>true</Mandatory><Datatype>BACKEND_SPECIFIC</Datatype>
        <Shape><Rank>4D</Rank></Shape>
      </Output>
      <Parameter>
        <Name>beta</Name><Mandatory>false</Mandatory><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape><Default>1.0</Default>
      </Parameter>
      <Parameter>
        <Name>mode</Name><Mandatory>false</Mandatory><Datatype>QNN_DATATYPE_UINT_32</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape><Default>1</Default>
        <Enumeration><Enum>FAST</Enum><Enum>EXACT</Enum></Enumeration>
      </Parameter>
      <Parameter>
        <Name>stride</Name><Mandatory>true</Mandatory><Datatype>QNN_DATATYPE_UINT_32</Datatype>
        <Shape><Rank>1D</Rank><Text>[2]</Text></Shape>
      </Parameter>
      <UseDefaultTranslation>false</UseDefaultTranslation>
      <SupportedBackend>HTP</SupportedBackend><SupportedBackend>DSP_V68</SupportedBackend>
    </OpDef>
  </OpDefList>
  <SupplementalOpDefList Backend="HTP">
    <SupportedOps><OpName>ScaleRows</OpName></SupportedOps>
    <SupplementalOpDef>
      <Name>ScaleRows</Name>
      <Input><Name>in[0]</Name><Datatype>QNN_DATATYPE_UFIXED_POINT_8</Datatype><Datatype>QNN_DATATYPE_FLOAT_16</Datatype></Input>
      <Output><Name>out[0]</Name><Datatype>QNN_DATATYPE_UFIXED_POINT_8</Datatype></Output>
      <Parameter><Name>beta</Name><OnlyDefaultSupported>true</OnlyDefaultSupported></Parameter>
    </SupplementalOpDef>
  </SupplementalOpDefList>
</OpDefCollection>
"""


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return read_catalog(FOLDER)


def through_a_file(found: Collection, folder: Path) -> Collection:
    path = folder / "ops.xml"
    path.write_text(write(found), encoding="utf-8")
    return read(path)


def model(draft: XmlDraft) -> OpDef:
    return spec.load(OpDef, spec.parse_document(draft.text, f"ops/{draft.op}.yaml"))


def test_every_spec_survives_an_xml_round_trip(catalog: Catalog, tmp_path: Path) -> None:
    """All ops in one collection: reading the file gives back the collection, and its drafts make the same file."""
    ops = [op for op in catalog.ops.values() if op.outputs]  # If has none, which an XML cannot say
    assert len(ops) >= 161
    out = collection(ops, "Everything")
    back = through_a_file(out, tmp_path)
    assert back == out
    made = drafts(back, "ops.xml", catalog.backends)
    assert [d.op for d in made if d.words] == []
    models = [model(d) for d in made]
    again = collection(models, "Everything")
    for before, after in zip(out.ops, again.ops, strict=True):
        assert after == before
    assert again == out
    for ours, theirs in zip(ops, models, strict=True):
        assert held(theirs) == held(ours), ours.op
        compile_op(theirs, catalog.context)


def held(op: OpDef) -> dict[str, Any]:
    """The spec without the parts named in LIMITS."""
    types: dict[tuple[str, str], set[str]] = {}
    for backend, part in op.backends.items():
        for row in (row for rows in part.dtypes.values() for row in rows):
            for name, cell in row.items():
                types.setdefault((backend, name), set()).update(cell)
    return {
        "op": (op.op, op.summary, op.source, dict(op.let)),
        "inputs": {n: slot(t) for n, t in op.inputs.items()},
        "outputs": {n: slot(t) for n, t in op.outputs.items()},
        "params": {n: (p.type, p.doc) for n, p in op.params.items()},
        "constraints": {i: rule(r) for i, r in op.constraints.items()},
        "backends": {b: {i: rule(r) for i, r in p.constraints.items()} for b, p in op.backends.items()},
        "types": types,
    }


def slot(t: TensorDef) -> dict[str, Any]:
    shape = f"[{', '.join(t.shape)}]" if isinstance(t.shape, list) else t.shape
    layout = t.layout if t.layout == "NHWC" else None
    return {**t.model_copy(update={"shape": None}).__dict__, "shape": shape, "layout": layout}


def rule(r: Any) -> tuple[Any, ...]:
    return r.when, r.require, r.expect


def test_parts_xml_cannot_hold_are_listed(catalog: Catalog) -> None:
    assert {part for op in catalog.ops.values() for part in left_out(op)} == set(LIMITS) - {
        "kind",
        "torch",
    }  # mappings are in specs/torch, but of ops of one's own
    odd = {"op": "Odd", "params": {"where": {"type": "u32", "kind": "axis"}}}
    assert left_out(OpDef.model_validate(odd)) == ["kind"]
    bare = OpDef.model_validate({"op": "Bare", "inputs": {"x": "[S...]"}, "outputs": {"y": "[S...]"}})
    assert left_out(bare) == []


def foreign(tmp_path: Path, text: str = FOREIGN) -> Path:
    path = tmp_path / "scales.xml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_foreign_collection_is_drafted(catalog: Catalog, tmp_path: Path) -> None:
    (made,) = drafts(read(foreign(tmp_path)), "scales.xml", catalog.backends)
    op = model(made)
    compiled = compile_op(op, catalog.context)
    assert (op.op, op.package, op.summary) == ("ScaleRows", "Scales", "Scales rows.")
    assert op.source == "scales.xml@1.2#ScaleRows"
    assert op.inputs["in0"].shape == ["N", "H", "W", "C"] and op.inputs["in0"].layout == "NHWC"
    assert op.inputs["in1"].optional and op.inputs["in1"].static and op.inputs["in1"].dtype == ["f32"]
    assert {n: p.type for n, p in op.params.items()} == {
        "beta": "f32 = 1.0",
        "mode": "enum {FAST: 0, EXACT: 1} = EXACT",
        "stride": "u32[2]",
    }
    assert op.constraints["C1"].require == "in0.shape[1] % 2 == 0"
    assert op.backends["HTP"].dtypes == {"xml": [{"in0": ["uq8", "f16"], "in1": ["f32"], "y": ["uq8"]}]}
    assert op.backends["HTP"].constraints["H1"].require == "beta == 1.0"
    assert compiled.type_rows["DSP"] == ()
    assert set(made.words) == {
        "reference: A framework scale",
        "shape of in1: as long as the rows",
        "in0: The height is even",
        "DSP: only DSP_V68",
        "DSP: types of in0",
        "DSP: types of y",
        "height_out = height / 2",
    }


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("<Name>ScaleRows</Name>\n      <Desc", "<Desc", 5, "<OpDef>: the element <Name> is missing or empty"),
        ("<Mandatory>true</Mandatory>\n        <Con", "<Con", 10, "<Input>: the element <Mandatory> is missing"),
        ("QNN_DATATYPE_FLOAT_16", "QNN_DATATYPE_FLOAT_17", 46, "<Datatype>: 'QNN_DATATYPE_FLOAT_17' is not a data type"),
        ("<Rank>SCALAR</Rank>", "<Rank>7D</Rank>", 29, "<Shape>: the rank '7D' is not one of SCALAR, 1D"),
        ('Version="1.2"', "", 3, "<OpDefCollection>: the attribute Version is missing"),
        ("<Name>out[0]</Name><Data", "<Name>out[1]</Name><Data", 44, "ScaleRows has no output 'out[1]'"),
        ('Type="Shape">The', 'Type="Form">The', 12, "<Constraint>: the type 'Form' is not one of"),
        ("<Enum>EXACT", "<Enum>FAST", 31, "the enum value 'FAST' is there 2 times"),
        (">false</Use", ">maybe</Use", 5, "<UseDefaultTranslation> is 'maybe', neither true nor false"),
    ],
)  # fmt: skip
def test_faults_name_file_line_and_element(tmp_path: Path, old: str, new: str, line: int, words: str) -> None:
    assert old in FOREIGN
    path = foreign(tmp_path, FOREIGN.replace(old, new, 1))
    with pytest.raises(SpecError) as caught:
        read(path)
    found = [p for p in caught.value.problems if words in p.message]
    assert found and found[0].path == str(path) and abs(found[0].line - line) <= 1, caught.value.problems


LAUGHS = "<!DOCTYPE x [\n<!ENTITY a 'ha'>" + "".join(
    f"<!ENTITY {b} '{f'&{a};' * 10}'>" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"op: Relu\n", r":1: not XML: "),
        (b"", r":1: not XML: "),
        (FOREIGN[:900].encode(), r":\d+: not XML: "),
        (f"{LAUGHS}]><OpDefCollection>&i;</OpDefCollection>".encode(), r":1: a document type or entity"),
        (b"<?xml version='1.0'?>\n<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>", r":2: a document type"),
        (FOREIGN.encode("utf-16"), r"UTF-16 or UTF-32; save it as UTF-8"),
        (FOREIGN.replace("Scales\n", "Sc\u00e4les\n").encode("latin-1"), r":\d+: not XML: .*(UTF-8|encoding|bytes)"),
        (FOREIGN.replace("UTF-8", "klingon").encode(), r":1: "),
        (b"<Ops/>", r":1: the root is <Ops>, not <OpDefCollection>"),
    ],
)  # fmt: skip
def test_files_that_are_not_collections_are_rejected(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "bad.xml"
    path.write_bytes(data)
    with pytest.raises(OpdbError, match=words) as caught:
        read(path)
    assert "bad.xml" in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_ops_of_qnns_own_package_need_a_name(catalog: Catalog) -> None:
    relu = catalog.ops["Relu"]
    with pytest.raises(OpdbError, match="--package"):
        collection([relu])
    with pytest.raises(OpdbError, match="not a name in C"):
        collection([relu], "my-package")
    own = dataclasses.replace(collection([relu], "Mine"), package="Theirs")
    assert own == collection([relu], "Theirs")


# -- files as they are found in public packages


def read_text(tmp_path: Path, text: str) -> Collection:
    path = tmp_path / "package.xml"
    path.write_text(text)
    return read(path)


def test_an_op_named_only_in_a_supplement_is_ignored(tmp_path: Path) -> None:
    """Two LLaMA packages have supplements for an op Attention that they do not define."""
    text = FOREIGN.replace(
        "</SupplementalOpDefList>",
        "<SupplementalOpDef><Name>Attention</Name><Input><Name>in[0]</Name>"
        "<Datatype>QNN_DATATYPE_FLOAT_16</Datatype></Input></SupplementalOpDef></SupplementalOpDefList>",
    ).replace("<OpName>ScaleRows</OpName>", "<OpName>ScaleRows</OpName><OpName>Attention</OpName>")
    found = read_text(tmp_path, text)
    assert [op.name for op in found.ops] == ["ScaleRows"]
    assert found.supplements[0].ops == ("ScaleRows",) and set(found.supplements[0].tensors) == {"ScaleRows"}
    assert len(found.notes) == 2 and all(
        "'Attention' is not in <OpDefList>; ignored" in n for n in found.notes
    )


@pytest.mark.parametrize(
    ("given", "qhpi"), [("", False), (' UseQHPI="true"', True), (' UseQHPI="false"', False)]
)
def test_the_use_qhpi_attribute_is_read(tmp_path: Path, given: str, qhpi: bool) -> None:
    assert read_text(tmp_path, FOREIGN.replace(' Version="1.2"', f' Version="1.2"{given}')).qhpi is qhpi


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("<Rank>4D</Rank><Text>[N, C, H , W]</Text>", ["N", "C", "H", "W"]),
        ("<Rank>4D</Rank><Text>same as input</Text>", ["N", "H", "W", "C"]),
        ("<Rank>4D</Rank><Text>Same shape as in[0]</Text>", ["N", "H", "W", "C"]),
        ("<Rank>4D</Rank><Text>same as the moon</Text>", "any"),
    ],
)
def test_shapes_given_in_words_are_read(
    tmp_path: Path, catalog: Catalog, shape: str, expected: object
) -> None:
    text = FOREIGN.replace(
        "<Name>out[0]</Name><Mandatory>true</Mandatory><Datatype>BACKEND_SPECIFIC</Datatype>\n        <Shape><Rank>4D</Rank></Shape>",
        f"<Name>out[0]</Name><Mandatory>true</Mandatory><Datatype>BACKEND_SPECIFIC</Datatype><Shape>{shape}</Shape>",
    )
    (draft,) = drafts(read_text(tmp_path, text), "package.xml", catalog.backends)
    shape_of_y = yaml.safe_load(draft.text)["outputs"]["y"]
    found = shape_of_y["shape"] if isinstance(shape_of_y, dict) else shape_of_y
    assert found == expected


@pytest.mark.parametrize("layout", ["NDHWC", "NONTRIVIAL"])
def test_layouts_are_kept(tmp_path: Path, catalog: Catalog, layout: str) -> None:
    text = FOREIGN.replace("<Layout>NHWC</Layout>", f"<Layout>{layout}</Layout>")
    (draft,) = drafts(read_text(tmp_path, text), "package.xml", catalog.backends)
    assert f"layout: {layout}" in draft.text
