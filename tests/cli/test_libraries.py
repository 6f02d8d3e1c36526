"""doctor, libraries: the QNN libraries of this machine as text and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opdb.runtime.qnn.libraries import FILES, installed

from .conftest import Run, one_line

pytestmark = pytest.mark.vendor


@pytest.fixture
def bare(opdb: Run, tmp_path: Path, libraries: object) -> Run:
    """The command on a machine with only the installed wheel."""
    variables = {"OPDB_QNN_LIBRARIES": "", "QNN_SDK_ROOT": "", "XDG_DATA_HOME": str(tmp_path / "data")}
    return lambda *args, env=None, **more: opdb(*args, env={**variables, **(env or {})}, **more)


def test_doctor_lists_the_features_of_each_library(bare: Run, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    done = bare("doctor", env={"OPDB_QNN_LIBRARIES": str(nowhere)})
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()

    def after(start: str) -> list[str]:
        first = next(i for i, line in enumerate(lines) if line.startswith(start))
        return [lines[first], *(line.strip() for line in lines[first + 1 : first + 6])]

    assert "2.47.0: onnxruntime-qnn 2.3.0 (installed) in " in after("ok      QNN libraries")[0]
    cpu, offers, not_offered, *_ = after("ok      QNN CPU")
    assert "v2.47.0.260601114230, 186 ops, core API 2.36.0, backend API 1.1.0" in cpu
    assert offers.startswith("offers: execution, context binaries, op packages, subgraphs")
    assert not_offered.startswith("does not offer: asynchronous execution")
    assert "129 ops, core API 2.36.0, backend API 5.47.0" in after("ok      QNN HTP")[0]
    assert "default device: SoC number 30, v68, 4 MB VTCM" in after("ok      QNN HTP")
    gpu = after("refuses QNN GPU")
    assert "it does not start here: 4000 QNN_BACKEND_ERROR_CANNOT_INITIALIZE: GPU ERROR" in gpu[4]
    assert "tuning mode" in gpu[4] and gpu[5].startswith("cure: none on this machine")
    missing = after("missing QNN libraries")
    assert f"OPDB_QNN_LIBRARIES: {nowhere}: no such folder" in missing[0] and missing[1].startswith("cure: ")


def test_doctor_json_has_the_identities(bare: Run) -> None:
    rows = json.loads(bare("doctor", "--json").stdout)
    assert all({"part", "ok", "found", "cost", "cure"} <= set(row) for row in rows)
    libraries = {row["part"]: row["library"] for row in rows if "library" in row}
    assert list(libraries) == [f"QNN {name}" for name in FILES]
    htp = libraries["QNN HTP"]
    assert (htp["package"], htp["version"], htp["qnn_version"]) == ("onnxruntime-qnn", "2.3.0", "2.47.0")
    assert (htp["provider"], htp["provider_id"], htp["operations"]) == ("HTP_QTI_AISW", 6, 129)
    assert htp["capabilities"]["QNN_PROPERTY_GRAPH_SUPPORT_ASYNC_EXECUTION"] is False
    assert len(htp["sha256"]) == 64


def test_a_wheel_without_the_cpu_library_gets_a_fix(bare: Run, tmp_path: Path) -> None:
    """Wheels from 2.4.0 on have no CPU library."""
    folder = tmp_path / "onnxruntime_qnn"
    folder.mkdir()
    (folder / "libQnnSaver.so").symlink_to(installed().path("SAVER"))
    (tmp_path / "onnxruntime_qnn.libs").symlink_to(installed().folder.parent / "onnxruntime_qnn.libs")
    info = tmp_path / "onnxruntime_qnn-2.7.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime-qnn\nVersion: 2.7.0\n")
    rows = json.loads(bare("doctor", "--json", env={"OPDB_QNN_LIBRARIES": str(folder)}).stdout)
    cpu = [row for row in rows if row["part"] == "QNN CPU"]
    assert [row["ok"] for row in cpu] == [True, False]
    assert cpu[1]["cure"].startswith(
        "onnxruntime-qnn 2.7.0 has no CPU library, 2.3.0 has: pip install 'qnn-opdb[qnn]'"
    )
    saver = [row["library"] for row in rows if row["part"] == "QNN SAVER"]
    assert [(each["version"], each["source"]) for each in saver] == [
        ("2.3.0", "installed"),
        ("2.7.0", "OPDB_QNN_LIBRARIES"),
    ]


def test_list_has_a_row_per_backend(bare: Run) -> None:
    rows = json.loads(bare("libraries", "list", "--json").stdout)
    assert [row["backend"] for row in rows] == list(FILES)
    table = bare("libraries", "list").stdout.splitlines()
    assert table[0].split()[:5] == ["qnn_version", "package", "version", "backend", "operations"]
    assert table[2].split()[:5] == ["2.47.0", "onnxruntime-qnn", "2.3.0", "CPU", "186"]


def test_bad_versions_are_rejected(bare: Run) -> None:
    assert "'banana' is not a version of QNN or of onnxruntime-qnn; e.g. 2.51" in one_line(
        bare("libraries", "install", "banana")
    )
    message = one_line(bare("libraries", "install", "onnxruntime_qnn-2.7.0-py3-none-any.whl"))
    assert message == "opdb: onnxruntime_qnn-2.7.0-py3-none-any.whl: no such file"
