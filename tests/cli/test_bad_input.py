"""Bad input of every kind gives one line with location and fix, exit 2, and changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .conftest import ROOT, Run, one_line


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    """A copy of the real specs that a test may break."""
    return Path(shutil.copytree(ROOT / "specs", tmp_path / "specs"))


def catalog(opdb: Run) -> str:
    """The hash that `opdb sync` reports when nothing changed."""
    return str(json.loads(opdb("sync", "--json").stdout)["hash"])


def test_an_unknown_op_gets_a_suggestion(loaded: Run) -> None:
    assert one_line(loaded("show", "LayerNrom")) == "opdb: unknown op 'LayerNrom'; did you mean 'LayerNorm'?"
    assert "did you mean 'LayerNorm'?" in one_line(loaded("query", "params", "--op", "LayerNrom"))
    config = '{"op": "LayerNrom", "inputs": [], "outputs": []}'
    assert "standard input: unknown op 'LayerNrom'; did you mean 'LayerNorm'?" in one_line(
        loaded("validate", "-", stdin=config)
    )
    assert "NoSuchOpAtAll" in one_line(loaded("add-op", "NoSuchOpAtAll", "--yes"))


def test_a_misspelled_name_in_a_rule_gets_a_suggestion(loaded: Run, specs: Path) -> None:
    before = catalog(loaded)
    path = specs / "ops" / "LayerNorm.yaml"
    path.write_text(path.read_text().replace("for a in axes)", "for a in axs)", 1))
    line = one_line(loaded("sync", "--specs", str(specs)))
    assert line.startswith("opdb: ops/LayerNorm.yaml:")
    assert "unknown name 'axs'; did you mean 'axes'?" in line
    assert catalog(loaded) == before


def test_a_duplicate_key_is_rejected(loaded: Run, specs: Path) -> None:
    before = catalog(loaded)
    path = specs / "ops" / "Relu.yaml"
    path.write_text(path.read_text() + "summary: again\n")
    line = one_line(loaded("sync", "--specs", str(specs)))
    assert line.startswith("opdb: ops/Relu.yaml:")
    assert "the key is given twice" in line
    assert catalog(loaded) == before


def test_an_oversized_expression_is_rejected(loaded: Run, specs: Path) -> None:
    before = catalog(loaded)
    path = specs / "ops" / "Relu.yaml"
    text = path.read_text()
    nested = "(" * 10_000 + "x.rank" + ")" * 10_000 + " > 0"
    path.write_text(text + f"constraints:\n  C9: {nested}\n" if "\nconstraints:" not in text else text)
    line = one_line(loaded("sync", "--specs", str(specs)))
    assert "an expression has at most 500 characters" in line
    assert catalog(loaded) == before


def test_errors_of_all_files_are_reported_together(loaded: Run, specs: Path) -> None:
    for name in ("Relu", "Softmax"):
        path = specs / "ops" / f"{name}.yaml"
        path.write_text(path.read_text() + "unheard_of: 1\n")
    done = loaded("sync", "--specs", str(specs))
    assert done.returncode == 2
    assert [line.split(":")[1].strip() for line in done.stderr.splitlines()] == [
        "ops/Relu.yaml",
        "ops/Softmax.yaml",
    ]


def test_a_file_that_is_not_a_database_is_rejected(opdb: Run, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("this is not a database, " * 100)
    line = one_line(opdb("query", "ops", "--db", str(file)))
    assert "notes.txt" in line
    assert "is not an SQLite database" in line
    assert file.read_text().startswith("this is not a database")


def test_a_missing_database_asks_for_init(opdb: Run) -> None:
    assert "opdb init" in one_line(opdb("query", "ops"))


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_a_read_only_directory_is_named(opdb: Run, tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    # Root passes permissions by: take the capability away where the test runs as root.
    prefix = (
        ("setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override") if os.geteuid() == 0 else ()
    )
    if prefix:
        folder.chmod(0o555)
        subprocess.run(["chattr", "+i", str(folder)], check=False, capture_output=True)
    try:
        done = opdb("init", "--db", str(folder / "sub" / "opdb.db"), prefix=prefix)
        if done.returncode == 0:
            raise AssertionError("the folder took a file")
        line = one_line(done)
        assert str(folder) in line
    finally:
        subprocess.run(["chattr", "-i", str(folder)], check=False, capture_output=True)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("extra", "module", "command"),
    [
        ("torch", "torch", ("check", "opdb.plugins.executorch.demo:guide_model", "--soc", "SM8650")),
        ("onnx", "onnx", ("check", "{folder}/model.onnx", "--soc", "SM8650")),
        ("qnn", "onnxruntime_qnn", ("validate", "-", "--backend", "CPU", "--against", "vendor")),
        ("executorch", "executorch", ("executorch", "env")),
        ("executorch", "executorch", ("debug", "{folder}/model.pte")),
    ],
)
def test_a_missing_extra_is_one_line(
    opdb: Run, tmp_path: Path, extra: str, module: str, command: tuple[str, ...]
) -> None:
    """An interpreter that can neither find nor import the distribution, thanks to a sitecustomize."""
    hide = tmp_path / "hide"
    hide.mkdir()
    distribution = module.replace("_", "-")
    (hide / "sitecustomize.py").write_text(
        "import sys, importlib.metadata as m, importlib.abc\n"
        f"NAME, DIST = {module!r}, {distribution!r}\n"
        "class Hide(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == NAME: raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Hide())\n"
        "real = m.Distribution.from_name.__func__\n"
        "def from_name(cls, name):\n"
        "    if name.replace('_', '-').lower() == DIST: raise m.PackageNotFoundError(name)\n"
        "    return real(cls, name)\n"
        "m.Distribution.from_name = classmethod(from_name)\n"
    )
    config = json.dumps(
        {
            "op": "Relu",
            "inputs": [{"dtype": "FLOAT_32", "shape": [2]}],
            "outputs": [{"dtype": "FLOAT_32", "shape": [2]}],
        }
    )
    for name, data in (
        ("model.onnx", b"\x08\x08"),
        ("model.pte", b"\0\0\0\0ET12"),
        ("model.etrecord", b"PK"),
    ):
        (tmp_path / name).write_bytes(data)
    words = [word.replace("{folder}", str(tmp_path)) for word in command]
    line = one_line(opdb(*words, stdin=config, env={"PYTHONPATH": str(hide)}))
    assert f"qnn-opdb[{extra}]" in line


def test_a_wrong_field_of_an_op_config_is_named(opdb: Run, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"op": "Relu", "inputs": [{"dtype": "FLOAT_32", "shpae": [2]}], "outputs": []}')
    line = one_line(opdb("validate", str(file)))
    assert line.startswith(f"opdb: {file}: inputs[0]: unknown field 'shpae'")
    file.write_text('{"op": "Relu",\n "inputs": [}')
    assert "not JSON" in one_line(opdb("validate", str(file)))


def test_an_unloadable_library_is_named(tmp_path: Path) -> None:
    from opdb.core.errors import OpdbError
    from opdb.execute.libraries.client import VendorWorker

    (tmp_path / "libQnnCpu.so").write_bytes(b"not a library")
    with pytest.raises(OpdbError, match=r"libQnnCpu\.so"), VendorWorker("CPU", libraries=tmp_path) as worker:
        worker.info()


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (("check", "opdb.plugins.executorch.demo:guide_model"), "--soc"),
        (("check", "opdb.plugins.executorch.demo:guide_model", "--soc", "SM8560"), "did you mean 'SM8"),
        (("check", "opdb.plugins.executorch.demo:no_such"), ""),
        (
            (
                "check",
                "opdb.plugins.executorch.demo:guide_model",
                "--soc",
                "SM8650",
                "--executorch",
                "--decompose",
            ),
            "leave out one of",
        ),
        (
            ("check", "opdb.plugins.executorch.demo:guide_model", "--backend", "CPU", "--executorch"),
            "for HTP only",
        ),
        (
            ("check", "opdb.plugins.executorch.demo:guide_model", "--soc", "SM8650", "--fail-on", "cpu"),
            "write NAME>NUMBER",
        ),
        (
            ("check", "opdb.plugins.executorch.demo:guide_model", "--soc", "SM8650", "--format", "pdf"),
            "one of table, json, md, html",
        ),
        (
            ("check", "opdb.plugins.executorch.demo:guide_model", "--soc", "SM8650", "--save-node", "linear"),
            "-o FILE.py",
        ),
        (("check", "missing.pt2", "--soc", "SM8650"), "missing.pt2"),
        (("query", "opps"), "did you mean 'ops'?"),
        (("query", "ops", "--where", "op = 'Relu' or"), "--where"),
        (("explain", "LayerNorm.C33"), "did you mean 'LayerNorm.C3'?"),
        (("explain", "HTP-0O42"), "unknown erratum 'HTP-0O42'; did you mean 'HTP-0042'?"),
        (("query", "errata", "--dtype", "uq8"), "'errata' cannot be filtered by --dtype"),
        (("validate", "no-such-file.json"), "no-such-file.json"),
        (("generate", "no-such-target"), "no-such-target"),
        (("sync", "--specs", "no-such-folder"), "no-such-folder"),
    ],
)
def test_bad_options_get_one_helpful_line(loaded: Run, args: tuple[str, ...], part: str) -> None:
    assert part in one_line(loaded(*args))
