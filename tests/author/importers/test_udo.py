"""UDO packages in JSON, as SNPE's users write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opdb.author.importers.opxml.draft import drafts
from opdb.author.importers.udo import read
from opdb.core.errors import OpdbError
from opdb.spec.catalog import Catalog
from opdb.spec.model import OpDef

SELU: dict[str, Any] = {
    "type": "Selu",
    "inputs": [
        {"name": "x", "per_core_data_types": {"CPU": "FLOAT_32", "DSP": "FIXED_8"}, "tensor_layout": "NHWC"},
        {"data_type": "FLOAT_32", "static": True},
    ],
    "outputs": [{"name": "y", "per_core_data_types": {"CPU": "FLOAT_32", "DSP": "FIXED_8"}}],
    "scalar_params": [{"name": "alpha", "data_type": "FLOAT_32"}],
    "tensor_params": [{"name": "dims", "data_type": "INT_32"}],
    "core_types": ["CPU", "DSP"],
    "dsp_arch_types": ["v68", "v73"],
}


def written(path: Path, *ops: dict[str, Any], **more: Any) -> Path:
    package = {"Operators": list(ops), "UDO_PACKAGE_NAME": "SeluUdoPackage", "UDO_PACKAGE_PATH": "", **more}
    path.write_text(json.dumps({"UdoPackage_0": package}, indent="\t"))
    return path


def drafted(path: Path, catalog: Catalog) -> dict[str, OpDef]:
    found = [d for c in read(path) for d in drafts(c, path.name, catalog.backends)]
    return {d.op: _definition(d.text) for d in found}


def _definition(text: str) -> OpDef:
    from opdb.spec.document import parse_document
    from opdb.spec.files import load

    return load(OpDef, parse_document(text, "draft.yaml"))


def test_a_draft_matches_the_udo_file(tmp_path: Path, catalog: Catalog) -> None:
    op = drafted(written(tmp_path / "selu.json", SELU), catalog)["Selu"]
    assert op.package == "SeluUdoPackage"
    assert (
        list(op.inputs) == ["x", "in1"] and list(op.params) == ["alpha", "dims"] and list(op.outputs) == ["y"]
    )
    assert op.inputs["x"].layout == "NHWC" and op.inputs["in1"].static
    rows = {name: backend.dtypes["xml"] for name, backend in op.backends.items()}
    assert {name: row[0] for name, row in rows.items()} == {
        "CPU": {"x": ["f32"], "in1": ["f32"], "y": ["f32"]},
        "HTP": {"x": ["uq8"], "in1": ["f32"], "y": ["uq8"]},
    }


@pytest.mark.parametrize(
    ("versions", "backend"), [(["v65", "v66"], "DSP"), (["v66", "v68"], "HTP"), ([], "HTP"), (["v79"], "HTP")]
)
def test_the_core_dsp_is_htp_from_v68_on(
    versions: list[str], backend: str, tmp_path: Path, catalog: Catalog
) -> None:
    path = written(tmp_path / "a.json", SELU | {"dsp_arch_types": versions})
    assert list(drafted(path, catalog)["Selu"].backends) == ["CPU", backend]


def test_ignored_fields_are_noted(tmp_path: Path) -> None:
    odd = SELU | {
        "inputs": [{"name": "x", "data_type": "FIXED_4", "tensor_layout": "NCHW", "color": 1}],
        "cost": 3,
    }
    (found,) = read(written(tmp_path / "a.json", odd, MORE=1))
    assert found.notes == (
        "MORE is not known, and left out",
        "Selu: x: color is not known, and left out",
        "Selu: x: FIXED_4 is taken as 8 bits, in which QNN stores it",
        "Selu: x: the layout NCHW is left out; QNN's images have their channels last",
        "Selu: cost is not known, and left out",
    )


def test_a_trailing_comma_and_several_packages_are_read(tmp_path: Path, catalog: Catalog) -> None:
    """The SDK's guide prints the trailing comma."""
    path = written(tmp_path / "a.json", SELU)
    text = path.read_text()[1:-1].strip()
    path.write_text(
        "{" + text + "," + text.replace("UdoPackage_0", "UdoPackage_1").replace('"Selu"', '"Other"') + ",}"
    )
    assert list(drafted(path, catalog)) == ["Selu", "Other"]


@pytest.mark.parametrize(
    ("op", "said"),
    [
        (SELU | {"type": "a b"}, "'a b' is not a name"),
        (SELU | {"core_types": ["NPU"]}, "'NPU' is not one of 'CPU', 'GPU', 'DSP'"),
        (SELU | {"outputs": []}, "outputs is empty"),
        ({"type": "Selu"}, "the field 'outputs' is missing"),
        (SELU | {"inputs": [{"data_type": "INT_7"}]}, "'INT_7' is not one of"),
        (SELU | {"inputs": 3}, "expected a list, got 3"),
    ],
)
def test_faults_name_their_place(op: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", op)
    with pytest.raises(OpdbError, match=said) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:")


@pytest.mark.parametrize("text", ["", "{}", "[1, 2]", "{]", "\x00", "hello: [", '{"Operators": []}'])
def test_files_that_are_not_udo_packages_are_rejected(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(OpdbError, match=r"a\.json"):
        read(path)
    with pytest.raises(OpdbError, match="No such file"):
        read(tmp_path / "none.json")
