"""opdb import and export, as a user types them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from .conftest import ROOT, Run, one_line

HEADER = ROOT / "generated" / "c" / "include" / "opdb" / "op_names.h"
VERSION = '"\n#define QNN_OPSET_VERSION_MAJOR 1\n#define QNN_OPSET_VERSION_MINOR 33\n#define QNN_OPSET_VERSION_PATCH 0\n'


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "specs", tmp_path / "specs", ignore=shutil.ignore_patterns("drafts")))


@pytest.fixture
def header(tmp_path: Path) -> Path:
    path = tmp_path / "QnnOpDef.h"
    path.write_text(
        HEADER.read_text(encoding="utf-8").replace('"qti.aisw"\n', '"qti.aisw' + VERSION, 1), encoding="utf-8"
    )
    return path


@pytest.mark.breadth
def test_exported_xml_can_be_imported(loaded: Run, specs: Path, tmp_path: Path) -> None:
    file, drafts = tmp_path / "ops.xml", tmp_path / "drafts"
    out = loaded("export", "xml", "Relu", "LayerNorm", "--package", "Mine", "--output", str(file))
    assert out.returncode == 0 and "not in the XML: rows" in out.stderr
    assert "specs/ops has Relu, LayerNorm already" in one_line(
        loaded("import", "xml", str(file), "--specs", str(specs))
    )
    assert not (specs / "drafts").exists()
    done = loaded("import", "xml", str(file), "--output", str(drafts), "--json")
    assert [(e["op"], e["not_expressed"]) for e in json.loads(done.stdout)] == [
        ("Relu", []),
        ("LayerNorm", []),
    ]
    assert sorted(p.name for p in drafts.iterdir()) == ["LayerNorm.yaml", "Relu.yaml"]
    again = one_line(loaded("import", "xml", str(file), "--output", str(drafts)))
    assert "Relu.yaml: is there already and 1 more; take it up with 'opdb add-op'" in again
    assert loaded("import", "xml", str(file), "--output", str(drafts), "--force").returncode == 0


def test_header_differences_are_listed(loaded: Run, specs: Path, header: Path) -> None:
    done = loaded("import", "header", str(header), "--specs", str(specs), "--format", "csv")
    assert done.returncode == 0
    own = {
        "BandEnergy": "BAND_ENERGY",
        "DequantizeAdd": "DEQUANTIZE_ADD",
        "FakeQuantize": "FAKE_QUANTIZE",
        "Sharpen": "SHARPEN",
    }
    assert done.stdout.splitlines()[1:] == [f"{op},op,{op},new,QNN_OP_{name}," for op, name in own.items()]
    header.write_text(header.read_text().replace("ORDER_RGBA 1", "ORDER_RGBA 7", 1))
    done = loaded(
        "import", "header", str(header), "--specs", str(specs), "--fail-on-difference", "--drafts", "--json"
    )
    assert done.returncode == 1 and json.loads(done.stdout)[0]["name"] == "input_order.RGBA"
    assert "RGBA: 7" in (specs / "drafts" / "ArgbToRgb.yaml").read_text()


@pytest.mark.breadth
def test_bad_files_change_nothing(loaded: Run, specs: Path, tmp_path: Path) -> None:
    bad, empty = tmp_path / "bad", tmp_path / "empty"
    bad.write_text("not what was expected")
    empty.mkdir()
    at = ("--specs", str(specs))
    assert f"{bad}:1: not XML" in one_line(loaded("import", "xml", str(bad), *at))
    assert "defines no QNN_OP_ macro" in one_line(loaded("import", "header", str(bad), "--drafts", *at))
    assert "has no MasterOpDef.html" in one_line(loaded("import", "docs", str(empty), *at))
    assert "no such folder" in one_line(loaded("import", "docs", str(bad), *at))
    assert "cannot read: No such file" in one_line(loaded("import", "xml", str(tmp_path / "none.xml"), *at))
    assert "unknown op 'Rellu'; did you mean 'Relu'?" in one_line(loaded("export", "xml", "Rellu"))
    assert "--package" in one_line(loaded("export", "xml", "Relu", "--output", str(tmp_path / "x.xml")))
    assert not (specs / "drafts").exists() and not (tmp_path / "x.xml").exists()
