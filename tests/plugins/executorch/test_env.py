"""The prepared folder: complete or absent, the same on every call, and with clear errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import pytest

from opdb.core.errors import MissingExtra, OpdbError
from opdb.plugins.executorch import env, registration

pytestmark = [pytest.mark.executorch, pytest.mark.vendor]


def files(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): os.readlink(p)
        if p.is_symlink()
        else f"{p.stat().st_ino} {p.stat().st_size}"
        for p in sorted(folder.rglob("*"))
        if not p.is_dir()
    }


def dist_info(folder: Path, name: str, version: str) -> str:
    """Records a package in ``folder``, as pip would, for a test's own sys.path."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return str(folder)


def test_the_folder_has_the_libraries_and_is_made_once(tmp_path: Path, forwarding: Path) -> None:
    folder = tmp_path / "deep" / "sdk"
    made = env.prepare(folder, forwarding)
    lib = folder / "lib" / env.HOST
    assert made.root == folder and made.library_path[0] == lib
    assert (lib / env.HTP).read_bytes() == forwarding.read_bytes()
    assert made.htp.name == env.HTP and made.htp.is_file() and not made.htp.is_relative_to(folder)
    assert all((lib / name).resolve().is_file() for name in env.LIBRARIES)
    before = files(folder)
    assert env.prepare(folder, forwarding) == made
    assert files(folder) == before
    assert [p.name for p in folder.parent.iterdir()] == ["sdk"]


def test_an_outdated_or_incomplete_folder_is_remade(tmp_path: Path, forwarding: Path) -> None:
    folder = tmp_path / "sdk"
    env.prepare(folder, forwarding)
    marker = folder / env.MARKER
    good = marker.read_text()
    marker.write_text(json.dumps(json.loads(good) | {"executorch": "0.1"}))
    env.prepare(folder, forwarding)
    assert marker.read_text() == good
    link = folder / "lib" / env.HOST / env.LIBRARIES[0]
    link.unlink()
    env.prepare(folder, forwarding)
    assert link.resolve().is_file()
    assert [p.name for p in tmp_path.iterdir()] == ["sdk"]


def test_concurrent_calls_make_one_folder(tmp_path: Path, forwarding: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: env.prepare(tmp_path / "sdk", forwarding), range(16)))
    assert len(made) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["sdk"]


def test_the_default_folder_is_in_the_cache_and_names_the_versions(
    tmp_path: Path, forwarding: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    root = env.prepare(forwarding=forwarding).root
    assert root.is_relative_to(tmp_path)
    assert root.name.startswith(f"qnn-{env.ONNXRUNTIME_QNN}-executorch-{metadata.version('executorch')}-")
    assert env.prepare(forwarding=forwarding).root == root


@pytest.mark.parametrize("inherited", [None, "/some/where:/else"])
def test_the_export_lines_work_in_a_shell(environment: env.Environment, inherited: str | None) -> None:
    base = {"PATH": os.environ["PATH"]} | ({"LD_LIBRARY_PATH": inherited} if inherited else {})
    script = environment.shell() + 'printf "%s\\n" "$QNN_SDK_ROOT" "$LD_LIBRARY_PATH" "$OPDB_QNN_HTP_REAL"'
    shown = subprocess.run(
        ["sh", "-c", script],
        env=base, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    child = environment.child(base)
    assert shown == [child["QNN_SDK_ROOT"], child["LD_LIBRARY_PATH"], child["OPDB_QNN_HTP_REAL"]]
    assert shown[1].endswith(inherited or str(environment.library_path[-1]))


def test_a_path_with_a_space_survives_the_shell(tmp_path: Path, forwarding: Path) -> None:
    made = env.prepare(tmp_path / "my sdk; echo x", forwarding)
    script = made.shell() + 'printf "%s" "$QNN_SDK_ROOT"'
    assert subprocess.check_output(["sh", "-c", script], text=True) == str(made.root)


def test_a_users_own_folder_is_refused_and_unchanged(tmp_path: Path, forwarding: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(OpdbError, match="not a folder that opdb made"):
        env.prepare(tmp_path, forwarding)
    with pytest.raises(OpdbError, match="not a folder that opdb made"):
        env.prepare(tmp_path / "precious.txt", forwarding)
    assert [p.name for p in tmp_path.iterdir()] == ["precious.txt"]


def test_an_unwritable_folder_is_one_clear_error(forwarding: Path) -> None:
    with pytest.raises(OpdbError, match=r"/proc/opdb: .*; name a folder that can be written"):
        env.prepare(Path("/proc/opdb"), forwarding)


def test_a_missing_forwarding_library_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(OpdbError, match=r"nothing\.so: there is no such library"):
        env.prepare(tmp_path / "sdk", tmp_path / "nothing.so")
    assert not (tmp_path / "sdk").exists()


@pytest.mark.parametrize(
    ("package", "version", "message"),
    [
        ("executorch", "1.3.2", r"executorch 1\.3\.2 is installed, but opdb plugs into 1\.4\.1 and later"),
        ("onnxruntime-qnn", "2.6.0", r"onnxruntime-qnn 2\.6\.0 is installed.*onnxruntime-qnn==2\.3\.0"),
    ],
)
def test_another_version_is_one_clear_error(
    tmp_path: Path,
    forwarding: Path,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    version: str,
    message: str,
) -> None:
    monkeypatch.syspath_prepend(dist_info(tmp_path / "site", package, version))
    with pytest.raises(OpdbError, match=message):
        env.prepare(tmp_path / "sdk", forwarding)


@pytest.mark.parametrize(
    ("present", "extra"),
    [([], "executorch"), ([("executorch", env.EXECUTORCH)], "qnn")],
)
def test_a_missing_package_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: list[tuple[str, str]], extra: str
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "cpuinfo.py").touch()
    for name, version in present:
        dist_info(site, name, version)
    monkeypatch.setattr(sys, "path", [str(site)])
    with pytest.raises(MissingExtra, match=rf"pip install 'qnn-opdb\[{extra}\]'"):
        env.prepare(tmp_path / "sdk", tmp_path)


def test_a_missing_environment_is_reported(
    environment: env.Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QNN_SDK_ROOT", raising=False)
    with pytest.raises(OpdbError, match=r"QNN_SDK_ROOT is not set; .*opdb executorch env"):
        env.require_active()
    monkeypatch.setenv("QNN_SDK_ROOT", "/nowhere")
    with pytest.raises(OpdbError, match=r"there is no lib/x86_64-linux-clang/libQnnHtp\.so in it"):
        env.require_active()
    monkeypatch.setenv("QNN_SDK_ROOT", str(environment.root))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    with pytest.raises(OpdbError, match="LD_LIBRARY_PATH does not contain"):
        env.require_active()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(environment.library_path[0]) + "/")
    assert env.require_active() == str(environment.root)


def test_the_report_names_missing_parts_and_fixes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QNN_SDK_ROOT", raising=False)
    report = {c.name: c for c in env.environment_report()}
    assert report["executorch"] == env.Check("executorch", True, metadata.version("executorch"))
    assert report["onnxruntime-qnn"].found.startswith(env.ONNXRUNTIME_QNN)
    assert not report["this process"].ok and "opdb executorch env" in report["this process"].cure


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, opdb.plugins.executorch.env as e; e.environment_report(); import opdb.plugins.executorch.process\n"
        "print([m for m in ('torch', 'numpy', 'executorch') if m in sys.modules])"
    )
    env_ = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    assert subprocess.check_output([sys.executable, "-c", code], text=True, env=env_).strip() == "[]"


def test_the_old_name_of_preserve_ops_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """register(whole=...) of 0.1; without the environment it then fails like register(preserve_ops=...)."""
    monkeypatch.delenv("QNN_SDK_ROOT", raising=False)
    with (
        pytest.warns(DeprecationWarning, match="preserve_ops"),
        pytest.raises(OpdbError, match="QNN_SDK_ROOT is not set"),
    ):
        registration.register(whole=())
