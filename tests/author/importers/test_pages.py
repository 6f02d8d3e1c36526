"""The SDK's OpDef pages: pages with the same structure, written here, and edits of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import opdb.specs
from opdb.author.importers.pages import phrases
from opdb.author.importers.pages.next_version import COLUMNS, Report, update
from opdb.author.importers.pages.read import read
from opdb.catalog import facts
from opdb.catalog.store import read_catalog
from opdb.core.errors import OpdbError
from opdb.spec import files as spec
from opdb.spec.catalog import Catalog
from opdb.spec.compiler import compile_op
from opdb.spec.model import OpDef, resolve

from .opdef_pages import write_folder

FOLDER = Path(opdb.specs.__file__).parent
FEW = ("LayerNorm", "Resize", "Concat", "ElementWiseNeuron", "Relu")
WIDGET = """<h2>Widget</h2>
<h3>Inputs</h3>
<h4>in[0]</h4><ul><li>Mandatory: true</li><li>Data type: backend specific</li><li>Shape: [batch, height, width, channel]</li></ul>
<h4>in[1]</h4><ul><li>Mandatory: false</li><li>Data type: QNN_DATATYPE_INT_32</li><li>Shape: 1D of shape [channel]</li></ul>
<h3>Parameters</h3>
<h4>axis</h4><ul><li>Mandatory: true</li><li>Data type: QNN_DATATYPE_UINT_32</li><li>Shape: scalar</li>
<li>Constraints:<ul><li>Value: Must be in range [0, 3]</li>
<li>Value: odd on Sundays</li></ul></li></ul>
<h3>Outputs</h3>
<h4>out[0]</h4><ul><li>Mandatory: true</li><li>Data type: backend specific</li><li>Shape: [batch, height, width, channel]</li>
<li>Constraints:<ul><li>Datatype: Same datatype as in[0]</li></ul></li></ul>
</section></body>"""
WIDGET_ON_HTP = """<h2>Widget</h2><h3>Datatypes</h3>
<table><tr><th>Configuration</th><th>in[0]</th><th>in[1]</th><th>out[0]</th></tr>
<tr><td>INT8</td><td>QNN_DATATYPE_UFIXED_POINT_8</td><td>QNN_DATATYPE_INT_32</td><td>QNN_DATATYPE_UFIXED_POINT_8</td></tr></table>
<h3>Constraints</h3><table><tr><th>Configuration</th><th>in[1]</th></tr>
<tr><td>All</td><td><ul><li>Must be static</li></ul></td></tr></table>
</section></body>"""


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return read_catalog(FOLDER)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "OpDef", FEW, "2.39.0")


def edit(path: Path, old: str, new: str, after: str = "") -> None:
    """Replaces the first ``old`` behind ``after``."""
    text = path.read_text(encoding="utf-8")
    start = text.index(after)
    assert old in text[start:]
    path.write_text(text[:start] + text[start:].replace(old, new, 1), encoding="utf-8")


def rows(report: Report, op: str) -> list[tuple[Any, ...]]:
    return [tuple(r[c] for c in COLUMNS[1:5]) for r in report.rows if r["op"] == op]


def load(text: str, name: str) -> OpDef:
    return spec.load(OpDef, spec.parse_document(text, f"ops/{name}.yaml"))


def test_pages_of_the_bundled_facts_change_nothing(catalog: Catalog, tmp_path: Path) -> None:
    names = [n for n in facts.documented_ops() if "MasterOpDef" in facts.documented_op(n).source]
    pages = read(write_folder(tmp_path / "OpDef", names))
    assert (pages.sdk, len(pages.ops), len(pages.backends["HTP"])) == ("2.25.0", 151, 121)
    report = update(pages, catalog)
    assert report.rows == [] and report.drafts == {}


def test_a_changed_page_drafts_the_next_version_of_a_spec(catalog: Catalog, folder: Path) -> None:
    master, htp = folder / "MasterOpDef.html", folder / "HtpOpDefSupplement.html"
    edit(master, "Default: 0.001", "Default: 0.01", ">LayerNorm<")
    edit(master, "Shape: Rank &gt;= 1", "Shape: Rank &gt;= 2", ">LayerNorm<")
    flavour = (
        "<h4>flavour</h4><ul><li>Mandatory: false</li><li>Data type: QNN_DATATYPE_UINT_32</li><li>Shape: scalar</li>"
        "<li>Default: 0</li><li>Values:<ul><li>SWEET = 0,</li><li>SOUR = 1</li></ul></li></ul>\n"
    )
    edit(master, "<h3>Outputs", f"{flavour}<h3>Outputs", ">LayerNorm<")
    edit(master, "TANH = 8,</p></li>", "TANH = 8,</p></li><li>SWISH = 9</li>", ">ElementWiseNeuron<")
    edit(htp, "Max supported rank is 4", "Max supported rank is 5", ">LayerNorm<")
    fresh = "".join(f"<td>{c}</td>" for c in ("INT8", *["QNN_DATATYPE_SFIXED_POINT_8"] * 2,
                    "QNN_DATATYPE_SFIXED_POINT_16", "QNN_DATATYPE_SFIXED_POINT_8"))  # fmt: skip
    edit(htp, "</table>", f"<tr>{fresh}</tr></table>", ">LayerNorm<")
    report = update(read(folder), catalog)
    assert rows(report, "LayerNorm")[:4] == [
        ("parameter epsilon", "changed", "f32 = 0.001", "f32 = 0.01"),
        ("parameter flavour", "added", None, "enum {SWEET: 0, SOUR: 1} = SWEET"),
        ("C1", "changed", "x.rank >= 1", "x.rank >= 2"),
        ("HTP.H1", "changed", "x.rank <= 4", "x.rank <= 5"),
    ]
    assert ("HTP.INT8_2_39", "added", None, "[x: sq8, gamma: sq8, beta: sq16, y: sq8]") in rows(
        report, "LayerNorm"
    )
    assert set(report.drafts) == {"LayerNorm", "ElementWiseNeuron"}
    new, old = load(report.drafts["LayerNorm"], "LayerNorm"), catalog.own["LayerNorm"]
    compile_op(new, catalog.context)
    for part in ("source", "torch", "kernel", "tolerance", "samples", "quant", "inputs", "outputs"):
        assert getattr(new, part) == getattr(old, part), part
    kept = {i: r for i, r in old.backends["HTP"].constraints.items() if i != "H1"}
    assert kept.items() <= new.backends["HTP"].constraints.items()
    assert new.constraints["C1"].source == "MasterOpDef.html@2.39.0#LayerNorm"
    assert new.backends["HTP"].configurations["INT8_2_39"].since == "2.39"
    assert old.backends["HTP"].dtypes.items() <= new.backends["HTP"].dtypes.items()
    neuron = load(report.drafts["ElementWiseNeuron"], "ElementWiseNeuron")
    assert neuron.extends == "elementwise_unary" and neuron.params["operation"].enum["SWISH"] == 9
    compile_op(resolve(neuron, catalog.bases), catalog.context)


def test_facts_removed_from_pages_stay_in_specs_and_are_reported(catalog: Catalog, folder: Path) -> None:
    master, htp = folder / "MasterOpDef.html", folder / "HtpOpDefSupplement.html"
    text = master.read_text(encoding="utf-8")
    start = text.index("<h4>epsilon")
    master.write_text(text[:start] + text[text.index("<h4>axes", start) :], encoding="utf-8")
    edit(master, "<li><p>Datatype: Same datatype as in[0]</p></li>", "", ">LayerNorm<")
    row = htp.read_text(encoding="utf-8")
    start = row.index("<tr><td><p>INT8", row.index(">LayerNorm<"))
    end = row.index("</tr>", start) + 5
    htp.write_text(row[:start] + row[end:], encoding="utf-8")
    report = update(read(folder), catalog)
    gone = rows(report, "LayerNorm")
    assert ("parameter epsilon", "gone", None, None) in gone
    assert ("out[0]", "gone", "dtype(self) == dtype(in[0])", None) in gone
    assert ("HTP.INT8", "gone", "1 row of types", None) in gone
    assert "LayerNorm" not in report.drafts
    assert ("op", "gone", "MasterOpDef.html@2.25.0#Softmax", None) in rows(report, "Softmax")


def test_an_op_without_a_spec_is_drafted(catalog: Catalog, folder: Path) -> None:
    master = folder / "MasterOpDef.html"
    edit(master, "</section>\n</body>", WIDGET)
    edit(folder / "HtpOpDefSupplement.html", "</section>\n</body>", WIDGET_ON_HTP)
    pages = read(folder)
    assert pages.opset == "2.0.0" and pages.since["Widget"] == "2.39.0"
    report = update(pages, catalog)
    assert [r[:2] for r in rows(report, "Widget")] == [
        ("op", "added"),
        ("constraint", "unread"),
        ("HTP", "contradiction"),
    ]
    op = load(report.drafts["Widget"], "Widget")
    compile_op(op, catalog.context)
    assert op.source == "MasterOpDef.html@2.39.0#Widget"
    assert op.inputs["in0"].shape == ["N", "H", "W", "C"] and op.inputs["in1"].dtype == ["i32"]
    assert [r.expression for r in op.constraints.values()] == ["0 <= axis <= 3", "y.dtype == in0.dtype"]
    assert op.backends["HTP"].constraints["H1"].require == "in1.static" and op.samples
    line = master.read_text(encoding="utf-8").partition("odd on Sundays")[0].count("\n") + 1
    assert f"# not read: MasterOpDef.html:{line}\n" in report.drafts["Widget"]
    assert "Sundays" not in report.drafts["Widget"]


def test_handwritten_defaults_are_kept(catalog: Catalog, folder: Path) -> None:
    """The page changes a default that the spec deliberately states differently."""
    own = dict(catalog.own)
    changed = own["LayerNorm"].model_dump(mode="json")
    changed["params"]["epsilon"] = "f32 = 0.5"
    own["LayerNorm"] = OpDef.model_validate(changed)
    ours = Catalog(own, catalog.bases, catalog.families, catalog.backends, catalog.socs, catalog.retired)
    edit(folder / "MasterOpDef.html", "Default: 0.001", "Default: 0.01", ">LayerNorm<")
    report = update(read(folder), ours)
    assert rows(report, "LayerNorm") == [("parameter epsilon", "kept", "f32 = 0.5", "f32 = 0.01")]
    assert report.drafts == {}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Mandatory: false", "Needed: no", r"MasterOpDef.html:\d+:1: LayerNorm, in\[1\]: no 'Mandatory"),
        ("QNN_DATATYPE_FLOAT_32", "QNN_DATATYPE_FLOAT_33", r"LayerNorm, epsilon: the data type 'QNN_DATATYPE_FLOAT_33'"),
        (">Resize<", ">LayerNorm<", "the op LayerNorm is there twice"),
    ],
)  # fmt: skip
def test_faulty_pages_are_rejected_with_their_place(folder: Path, old: str, new: str, words: str) -> None:
    edit(folder / "MasterOpDef.html", old, new, ">LayerNorm<")
    with pytest.raises(OpdbError, match=words):
        read(folder)


def test_folders_without_opdef_pages_are_rejected(folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    with pytest.raises(OpdbError, match="empty: no such folder"):
        read(empty)
    empty.mkdir()
    with pytest.raises(OpdbError, match=r"empty: has no MasterOpDef\.html"):
        read(empty)
    (folder / "opdef_version_history.html").unlink()
    with pytest.raises(OpdbError, match="names no SDK version; name it with --sdk"):
        read(folder)
    assert read(folder, "2.40").sdk == "2.40"
    master = folder / "MasterOpDef.html"
    text = master.read_text(encoding="utf-8")
    master.write_text(text[: text.index("<h3>", text.index(">ElementWiseNeuron<") + 30)], encoding="utf-8")
    with pytest.raises(
        OpdbError, match=r"ElementWiseNeuron: neither Parameters nor Outputs; is the page whole"
    ):
        read(folder, "2.40")
    master.write_bytes("\u00e4".encode("latin-1") + text.encode())
    with pytest.raises(OpdbError, match=r"MasterOpDef.html:1: not UTF-8"):
        read(folder, "2.40")
    master.write_text("nothing", encoding="utf-8")
    with pytest.raises(OpdbError, match="has no section of an op"):
        read(folder, "2.40")


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("Rank > 0", {"kind": "rank", "expr": "rank(self) >= 1", "min": 1}),
        ("Rank = 4", {"kind": "rank", "expr": "rank(self) == 4", "min": 4, "max": 4}),
        ("rank must be at least 2", {"kind": "rank", "expr": "rank(self) >= 2", "min": 2}),
        ("Must be in range [0, n-1]", {"kind": "value_range", "expr": "self in [0, N-1]", "min": 0, "max": "N-1"}),
        ("Must be greater than 0", {"kind": "value_cmp", "expr": "self > 0", "op": ">", "value": 0}),
        ("Must not be blue", None),
    ],
)  # fmt: skip
def test_document_phrases_become_facts(text: str, fact: dict[str, Any] | None) -> None:
    assert phrases.master("Value", text, False) == fact
