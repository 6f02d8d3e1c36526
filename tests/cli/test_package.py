"""`opdb package qnn`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Run


@pytest.mark.native
def test_a_package_is_generated_and_built(loaded: Run, tmp_path: Path) -> None:
    done = loaded("package", "qnn", "DequantizeAdd", "-o", str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["package"] == "OpdbCustom" and made["provider"] == "OpdbCustomInterfaceProvider"
    assert Path(made["library"]).is_file() and (tmp_path / "out" / "Makefile").is_file()
    assert sorted(made["files"]) == made["files"]


def test_no_build_writes_sources_only(loaded: Run, tmp_path: Path) -> None:
    done = loaded("package", "qnn", "DequantizeAdd", "-o", str(tmp_path / "out"), "--no-build")
    assert done.returncode == 0 and f"make -C {tmp_path / 'out'}" in done.stdout
    assert not (tmp_path / "out" / "libs").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("DequantizeAd",), "did you mean 'DequantizeAdd'?"),
        (("Relu",), "in QNN's own package qti.aisw"),
        (("DequantizeAdd", "--backend", "GPU"), "an op package for GPU is OpenCL"),
    ],
)
def test_bad_arguments_are_rejected(loaded: Run, tmp_path: Path, args: tuple[str, ...], words: str) -> None:
    done = loaded("package", "qnn", *args, "-o", str(tmp_path / "out"))
    assert done.returncode == 2 and words in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()
