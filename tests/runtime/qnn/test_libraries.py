"""Versions of QNN's libraries side by side: found, identified, unpacked, opened."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.core.op_config import OpConfig, TensorConfig
from opdb.execute.libraries.client import VendorWorker
from opdb.plugins.executorch.env import forwarding_library
from opdb.runtime.qnn import identity
from opdb.runtime.qnn import libraries as qnn_libraries
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.hardware_device import HardwareDevice
from opdb.runtime.qnn.install import install
from opdb.runtime.qnn.libraries import BACKENDS, FILES, Libraries, discover, find, in_folder

pytestmark = [pytest.mark.vendor, pytest.mark.usefixtures("libraries"), pytest.mark.slow]
HEADERS = Path(__file__).resolve().parents[3] / "generated/c/include"

#: Other versions that somebody unpacked; `opdb libraries install 2.7.0` adds one.
OTHERS = [each for each in discover([]) if each.source != "installed" and "HTP" in each.present]
others = pytest.mark.parametrize(
    "other",
    OTHERS or [pytest.param(None, marks=pytest.mark.skip("one version of QNN is here: opdb libraries install 2.7.0"))],
    ids=str,
)  # fmt: skip


@pytest.fixture(autouse=True)
def only_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Makes a test's findings independent of the machine."""
    monkeypatch.delenv("OPDB_QNN_LIBRARIES", raising=False)
    monkeypatch.delenv("QNN_SDK_ROOT", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def small(libraries: Libraries, folder: Path) -> Path:
    """A folder with two of the installed libraries, and the C++ library they need next to it."""
    folder.mkdir(parents=True)
    for name in ("SAVER", "SYSTEM"):
        shutil.copy(libraries.path(name), folder)
    (folder.parent / "onnxruntime_qnn.libs").symlink_to(libraries.folder.parent / "onnxruntime_qnn.libs")
    return folder


# Who they are


def test_each_library_is_identified(libraries: Libraries) -> None:
    build, expected = "v2.47.0.260601114230", {
        "CPU": ("CPU_QTI_AISW", 3, (1, 1, 0), 186, (17, 62, 41)),
        "HTP": ("HTP_QTI_AISW", 6, (5, 47, 0), 129, (40, 41, 39)),
        "SAVER": ("SAVER_QTI_AISW", 2, (1, 1, 0), None, None),
        "IR": ("IR_QTI_AISW", 9, (0, 1, 0), None, (3, 54, 63)),
        "GPU": ("GPU_QTI_AISW", 4, (3, 13, 0), None, (15, 64, 41)),
    }  # fmt: skip
    assert libraries.present == tuple(FILES)
    for name, (provider, number, api, ops, answers) in expected.items():
        who = libraries.identity(name)
        assert (who.provider, who.provider_id, who.backend_api) == (provider, number, api)
        assert (who.build_id, who.qnn_version, who.core_api) == (build, "2.47.0", (2, 36, 0))
        assert who.sha256 == libraries.sha256(name)
        assert (None if who.operations is None else len(who.operations)) == ops
        said = None if who.capabilities is None else list(who.capabilities.values())
        assert (said and (said.count(True), said.count(False), said.count(None))) == answers
        assert bool(who.refusal) == (name == "GPU")
    assert libraries.qnn_version() == "2.47.0"


def test_the_system_library_is_not_a_backend(libraries: Libraries) -> None:
    who = libraries.identity("SYSTEM")
    assert (who.provider, who.core_api, who.backend_api) == ("SYSTEM_QTI_AISW", None, (1, 11, 0))
    assert "SYSTEM" not in BACKENDS
    with pytest.raises(OpdbError, match="'SYSTEM' is not a QNN backend that opdb drives"):
        Backend.open("SYSTEM")


def test_the_emulation_reports_its_default_chip(libraries: Libraries) -> None:
    assert libraries.identity("HTP").devices == (
        HardwareDevice(0, 0, 1, soc_model=30, arch=68, vtcm_mb=4, signed_pd=True, dlbc=False),
    )
    assert libraries.identity("CPU").devices == ()


def test_the_gpu_refuses_with_a_reason(libraries: Libraries) -> None:
    assert libraries.identity("GPU").refusal.startswith("4000 QNN_BACKEND_ERROR_CANNOT_INITIALIZE: GPU ERROR")
    with pytest.raises(QnnError, match=r"on x86-64 the GPU library starts in tuning mode only.*: 4000 "):
        Backend.open("GPU")


def test_ir_validates_without_a_chip() -> None:
    with Backend.open("IR") as backend:
        assert backend.build_id.startswith("v2.47.0")
        with pytest.raises(OpdbError, match="the IR backend prepares for no chip; leave the SoC out"):
            Backend.open("IR", "SM8650")


#: A fake library: its interface is complete except for the fault a test plants.
FAULTY = r"""
#include <stdlib.h>
#include <unistd.h>
#include "opdb/qnn_abi.h"
static Qnn_ErrorHandle_t no(void) { return 1000; }
static Qnn_ErrorHandle_t log_create(QnnLog_Callback_t c, QnnLog_Level_t l, Qnn_LogHandle_t *h) {
    (void)c, (void)l; *h = h; return 0;
}
static Qnn_ErrorHandle_t build_id(const char **id) { *id = BUILD; return 0; }
static Qnn_ErrorHandle_t create(Qnn_LogHandle_t l, const void **c, Qnn_BackendHandle_t *b) {
    (void)l, (void)c, (void)b; CREATE;
    return 1000;
}
static QnnInterface_t interface = {42, "FAULTY", {{CORE, 0}, {1, 2, 3}}, {0}};
static const QnnInterface_t *list[] = {&interface};
Qnn_ErrorHandle_t QnnInterface_getProviders(const QnnInterface_t ***providers, uint32_t *n) {
    OPEN;
    interface.api.propertyHasCapability = (Qnn_ErrorHandle_t (*)(QnnProperty_Key_t))no;
    interface.api.logCreate = log_create;
    interface.api.logFree = (Qnn_ErrorHandle_t (*)(Qnn_LogHandle_t))no;
    interface.api.backendGetBuildId = build_id;
    interface.api.backendCreate = create;
    *providers = list, *n = 1;
    return 0;
}
"""


def faulty(
    folder: Path, create: str = "", open_: str = "", core: str = "2, 36", build: str = "v9.8.7.1"
) -> Path:
    folder.mkdir(exist_ok=True)
    source, library = folder / "faulty.c", folder / "libQnnCpu.so"
    source.write_text(FAULTY)
    macros = [f"-DCREATE={create}", f"-DOPEN={open_}", f"-DCORE={core}", f'-DBUILD="{build}"']
    command = ["gcc", "-w", "-shared", "-fPIC", f"-I{HEADERS}", *macros, str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


def test_a_crashing_library_is_reported(tmp_path: Path) -> None:
    who = identity.ask("CPU", faulty(tmp_path, create="abort()"))
    assert (who.provider, who.provider_id, who.build_id, who.qnn_version) == (
        "FAULTY",
        42,
        "v9.8.7.1",
        "9.8.7",
    )
    assert who.refusal == "it crashed with SIGABRT when asked to start its backend"
    assert who.capabilities is not None and set(who.capabilities.values()) == {False}
    with pytest.raises(
        OpdbError, match=r"libQnnCpu\.so: asking this library for its version .*crashed with SIGSEGV"
    ):
        identity.ask("CPU", faulty(tmp_path, open_="raise(11)"))
    with pytest.raises(OpdbError, match=r"libQnnCpu\.so: .* its version .*ended its process with 7"):
        identity.ask("CPU", faulty(tmp_path, open_="_exit(7)"))


def test_a_hanging_library_is_reported(tmp_path: Path) -> None:
    who = identity.ask("CPU", faulty(tmp_path, create="pause()"), seconds=2)
    assert who.refusal == "it hung for 2 s when asked to start its backend"


def test_an_unknown_core_api_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(OpdbError, match=r"its core API is 2\.7\.0; opdb needs 2\.x from 2\.18 \(QNN 2\.25\)"):
        identity.ask("CPU", faulty(tmp_path, core="2, 7"))


def test_identification_leaves_no_files(
    libraries: Libraries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the Saver would write
    identity._ask.cache_clear()
    libraries.identity("SAVER")
    assert list(tmp_path.iterdir()) == []


# Locations


def test_every_location_is_searched_once(
    libraries: Libraries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = small(libraries, tmp_path / "wheel/onnxruntime_qnn")
    sdk = small(libraries, tmp_path / "sdk/lib/x86_64-linux-clang")
    unpacked = small(libraries, qnn_libraries.unpacked_folder() / "onnxruntime-qnn-2.9.0/onnxruntime_qnn")
    folders = os.pathsep.join(map(str, (wheel.parent, wheel, libraries.folder, "")))
    monkeypatch.setenv("OPDB_QNN_LIBRARIES", folders)
    monkeypatch.setenv("QNN_SDK_ROOT", str(tmp_path / "sdk"))
    assert [(each.source, each.folder) for each in discover()] == [
        ("installed", libraries.folder),
        ("OPDB_QNN_LIBRARIES", wheel),
        ("QNN_SDK_ROOT", sdk),
        ("opdb libraries", unpacked),
    ]
    assert in_folder(tmp_path / "sdk").folder == sdk
    assert in_folder(sdk).qnn_version() == "2.47.0"  # a plain folder: from the build id


def test_a_location_without_libraries_is_named(
    libraries: Libraries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPDB_QNN_LIBRARIES", str(tmp_path / "nowhere"))
    with pytest.raises(OpdbError, match=r"OPDB_QNN_LIBRARIES: .*nowhere: no such folder"):
        discover()
    monkeypatch.setenv("QNN_SDK_ROOT", str(tmp_path))
    problems: list[str] = []
    assert discover(problems) == (libraries,)
    assert [problem.partition(":")[0] for problem in problems] == ["OPDB_QNN_LIBRARIES", "QNN_SDK_ROOT"]


def test_a_wheel_must_be_unpacked_first(tmp_path: Path) -> None:
    wheel = tmp_path / "onnxruntime_qnn-2.7.0-py3-none-any.whl"
    wheel.touch()
    with pytest.raises(
        OpdbError, match=r"has to be unpacked first: opdb libraries install .*2\.7\.0-py3-none-any"
    ):
        in_folder(wheel)


def test_a_version_is_found_by_either_number(libraries: Libraries, tmp_path: Path) -> None:
    for wanted in (
        "2.47",
        "2.47.0",
        "2.3.0",
        "2.3",
        "2",
        str(libraries.folder),
        str(libraries.folder.parent),
    ):
        assert find(wanted) == libraries, wanted
    for wanted in ("2.4", "2.470", "47", "3"):
        with pytest.raises(
            OpdbError, match=r"no QNN libraries of version .*there are: QNN 2\.47\.0 \(onnxruntime-qnn"
        ):
            find(wanted)
    with pytest.raises(OpdbError, match="no such folder"):
        find("latest")
    with pytest.raises(OpdbError, match=r"none of libQnnCpu\.so.* is in this folder"):
        find(str(tmp_path))


def test_an_ambiguous_version_is_rejected_with_the_choices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty(tmp_path)
    monkeypatch.setenv("OPDB_QNN_LIBRARIES", str(tmp_path))
    assert find("9.8").folder == tmp_path
    other = tmp_path / "other"
    faulty(other, build="v9.8.8.1")
    monkeypatch.setenv("OPDB_QNN_LIBRARIES", f"{tmp_path}{os.pathsep}{other}")
    with pytest.raises(OpdbError, match=r"'9\.8' is the version of several.*QNN 9\.8\.7 .*QNN 9\.8\.8 "):
        find("9.8")
    assert find("9.8.8").folder == other


def test_a_missing_library_names_its_fix(libraries: Libraries, tmp_path: Path) -> None:
    folder = small(libraries, tmp_path / "onnxruntime_qnn")
    newer = Libraries(folder, "onnxruntime-qnn", "2.7.0", "opdb libraries")
    with pytest.raises(
        OpdbError, match=r"2\.7\.0 has no CPU library, 2\.3\.0 has: pip install 'qnn-opdb\[qnn\]'"
    ):
        newer.path("CPU")
    with pytest.raises(
        OpdbError, match=r"unpack onnxruntime-qnn again: remove .*, opdb libraries install 2\.7\.0"
    ):
        newer.path("HTP")
    with pytest.raises(OpdbError, match=r"pip install --force-reinstall --no-deps onnxruntime-qnn==2\.3\.0"):
        replace(newer, version="2.3.0", source="installed").path("CPU")


# Unpacking a version


@pytest.fixture
def make_wheel(libraries: Libraries, tmp_path: Path) -> Callable[..., Path]:
    """A wheel with two of the installed libraries and their dependencies; ``change`` edits its files by name."""

    def make(version: str = "2.99.0", change: Callable[[dict[str, bytes]], None] | None = None) -> Path:
        info = f"onnxruntime_qnn-{version}.dist-info"
        files = {
            f"onnxruntime_qnn/{FILES[name]}": libraries.path(name).read_bytes()
            for name in ("SAVER", "SYSTEM")
        }
        beside = libraries.folder.parent / "onnxruntime_qnn.libs"
        files |= {f"onnxruntime_qnn.libs/{file.name}": file.read_bytes() for file in beside.iterdir()}
        files[f"{info}/METADATA"] = (
            f"Metadata-Version: 2.1\nName: onnxruntime-qnn\nVersion: {version}\n".encode()
        )
        files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        files[f"{info}/RECORD"] = _record(files, info)
        if change:
            change(files)
        (tmp_path / "wheels").mkdir(exist_ok=True)
        wheel = tmp_path / "wheels" / f"onnxruntime_qnn-{version}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return wheel

    return make


def _record(files: dict[str, bytes], info: str) -> bytes:
    lines = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}")
    return "\n".join([*lines, f"{info}/RECORD,,"]).encode()


def nothing_is_left() -> bool:
    folder = qnn_libraries.unpacked_folder()
    return not folder.exists() or list(folder.iterdir()) == []


def test_a_wheel_is_unpacked_and_opens(make_wheel: Callable[..., Path]) -> None:
    libraries, new = install(str(make_wheel()))
    assert (
        new and libraries.folder == qnn_libraries.unpacked_folder() / "onnxruntime-qnn-2.99.0/onnxruntime_qnn"
    )
    assert (libraries.package, libraries.version) == ("onnxruntime-qnn", "2.99.0")
    assert libraries.present == ("SAVER", "SYSTEM")
    assert libraries.qnn_version() == "2.47.0"  # the version actually in it
    assert find("2.99.0") == libraries
    assert libraries in discover()
    assert install("2.99.0") == (libraries, False)


def _not_a_library(files: dict[str, bytes]) -> None:
    files["onnxruntime_qnn/libQnnSaver.so"] = b"this is not a library"
    del files["onnxruntime_qnn/libQnnSystem.so"]
    info = "onnxruntime_qnn-2.99.0.dist-info"
    files[f"{info}/RECORD"] = _record({n: c for n, c in files.items() if not n.endswith("RECORD")}, info)


def _changed(files: dict[str, bytes]) -> None:
    files["onnxruntime_qnn/libQnnSaver.so"] += b" "


def _unlisted(files: dict[str, bytes]) -> None:
    files["onnxruntime_qnn-2.99.0.dist-info/RECORD"] += b"\nonnxruntime_qnn/absent.so,sha256=,0"


def _outside(files: dict[str, bytes]) -> None:
    files["../escaped"] = b"x"
    files["onnxruntime_qnn-2.99.0.dist-info/RECORD"] += b"\n../escaped,sha256=,1"


def _no_record(files: dict[str, bytes]) -> None:
    del files["onnxruntime_qnn-2.99.0.dist-info/RECORD"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_not_a_library, r"libQnnSaver\.so: cannot open this QNN library: .*(header|too short)"),
        (_changed, r"libQnnSaver\.so is not what its RECORD says; get it again"),
        (_unlisted, "this wheel is damaged .*absent"),
        (_outside, r"\.\./escaped lies outside of this wheel"),
        (_no_record, "not a wheel: it has no RECORD"),
    ],
)
def test_a_damaged_wheel_leaves_no_files(
    make_wheel: Callable[..., Path], change: Callable[..., None], message: str
) -> None:
    with pytest.raises(OpdbError, match=message):
        install(str(make_wheel(change=change)))
    assert nothing_is_left()


def test_a_truncated_wheel_leaves_no_files(make_wheel: Callable[..., Path]) -> None:
    wheel = make_wheel()
    wheel.write_bytes(wheel.read_bytes()[:500_000])
    with pytest.raises(OpdbError, match="this wheel is damaged"):
        install(str(wheel))
    assert nothing_is_left()


def test_pip_installs_a_version_or_explains_why_not(
    make_wheel: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    with pytest.raises(OpdbError, match=r"2\.98\.0 is not on the package index .*there are: 2\.99\.0"):
        install("2.98.0")
    assert install("2.99.0")[1]
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent.parent))
    with pytest.raises(OpdbError, match=r"no package index .* can be reached; .*opdb libraries install FILE"):
        install("2.98.0")
    assert [folder.name for folder in qnn_libraries.unpacked_folder().iterdir()] == ["onnxruntime-qnn-2.99.0"]


@pytest.mark.parametrize(
    "what", ["", "latest", "2", "2.7.0; x", "../2.7.0", "x.whl", "onnxruntime_qnn-2.7.0-a-b-c.whl"]
)
def test_invalid_versions_are_refused(what: str) -> None:
    with pytest.raises(OpdbError, match=r"is not a version|not the name of a wheel|no such file"):
        install(what)
    assert nothing_is_left()


# The layout of the device's configuration

#: Creates a device with each layout, then through opdb's own choice; in a child, as HTP keeps global state.
CREATE = """
import json, sys
from pathlib import Path
from opdb.core.errors import OpdbError
from opdb.runtime.qnn import device
from opdb.runtime.qnn.native import NULL, Arena, ffi
from opdb.runtime.qnn.session import Session

session = Session(Path(sys.argv[1]), "HTP", 5)
if len(sys.argv) > 2:
    session.core_api = tuple(map(int, sys.argv[2].split(".")))
out, answers = ffi.new("Qnn_DeviceHandle_t *"), {}
for layout in ("QnnHtpDevice_CustomConfig_2_43_t", "QnnHtpDevice_CustomConfig_t"):
    arena = Arena()
    configs = device.custom_config(arena, layout, 57)
    code, log = session.ask("deviceCreate", session.handle.pointer, configs, out)
    answers[layout] = [code, [line for line in log if line.startswith("warning") and "SoC 57" in line]]
    if not code:
        session.ask("deviceFree", out[0])
first = session.layouts("QnnHtpDevice_CustomConfig_t")[0]
with device.Device(session, "SM8650", 57):
    pass
unknown = ""
try:
    device.Device(session, None, 9999)
except OpdbError as error:
    unknown = str(error)
print("answer", json.dumps({"answers": answers, "first": first, "unknown": unknown}))
"""
CHIP = [
    "warning: Arch 68 set by custom config is different from arch associated with SoC 57, will overwrite it to 75"
]
SIXTEEN, TWELVE = "QnnHtpDevice_CustomConfig_t", "QnnHtpDevice_CustomConfig_2_43_t"


def create(library: Path, *core_api: str, **variables: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", CREATE, str(library), *core_api],
        env={**os.environ, **variables}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("answer ")]
    assert lines, done.stderr
    document: dict[str, object] = json.loads(lines[0].removeprefix("answer "))
    return document


def test_the_16_byte_layout_is_chosen_for_2_47(libraries: Libraries) -> None:
    got = create(libraries.path("HTP"))
    assert got["first"] == SIXTEEN
    assert got["answers"] == {TWELVE: [14001, []], SIXTEEN: [0, CHIP]}
    # of the tries for a chip that no layout reaches, the first one's reason is given
    assert str(got["unknown"]).endswith(
        ": Unknown config socModel 0; see opdb explain 14001"
    )  # whatever the number


@pytest.mark.parametrize(
    ("core_api", "first"), [("2.32.0", TWELVE), ("2.34.0", SIXTEEN), ("2.36.0", SIXTEEN)]
)
def test_the_forwarding_library_takes_the_12_byte_layout(
    libraries: Libraries, core_api: str, first: str
) -> None:
    """It reads only the layout of headers up to 2.43.  If the other is likelier, the second attempt succeeds."""
    forward = forwarding_library()
    got = create(forward, core_api, OPDB_QNN_HTP_REAL=str(libraries.path("HTP")))
    assert got["first"] == first
    assert got["answers"] == {TWELVE: [0, CHIP], SIXTEEN: [14001, []]}


@others
def test_the_right_layout_is_chosen_for_other_versions(other: Libraries) -> None:
    got = create(other.path("HTP"))
    first = str(got["first"])
    right, wrong = (first, TWELVE if first == SIXTEEN else SIXTEEN)
    assert got["answers"] == {right: [0, CHIP], wrong: [14001, []]}


@others
@pytest.mark.parametrize("soc", ["SM8550", "SM8650", "SM8750", "SM8850"])
def test_other_versions_work(other: Libraries, soc: str, relu_graph: QnnGraph) -> None:
    x = np.random.default_rng(1).normal(size=(7, 33)).astype(np.float32)
    tensors = [TensorConfig(name, "f32", (2, 3)) for name in "xy"]
    with VendorWorker("HTP", soc, libraries=other.folder) as worker:
        info = worker.info()
        assert (info.package, info.version) == (other.package, other.version)
        assert info.build_id == other.identity("HTP").build_id
        assert worker.validate(OpConfig("Relu", (tensors[0],), (), (tensors[1],))).verdict == "accept"
        result = worker.run(relu_graph, {"x": x})
    assert (result.stage, result.verdict) == ("done", "yes"), result
    # HTP computes float32 in float16
    assert np.abs(result.outputs["y"] - np.maximum(x, 0)).max() < 2**-10 * np.abs(x).max()


# Versions of QNN and of the wheel


def test_each_version_of_qnn_has_its_wheel_in_the_documents() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "qnn-libraries.md").read_text(encoding="utf-8")
    table = page.partition("| onnxruntime-qnn | QNN |")[2].partition("\n\n")[0]
    rows = re.findall(r"(?m)^\| \**(2\.\d+\.\d+)\**[^|]*\| (2\.\d+)", table)
    assert {qnn: wheel for wheel, qnn in rows} == qnn_libraries.WHEELS


@pytest.mark.parametrize(
    ("said", "qnn"),
    [("2.51", "2.51"), ("2.51.0", "2.51"), ("2.7.0", "2.51"), ("2.3.0", "2.47"), ("2.99", ""), ("2", "")],
)
def test_a_version_may_be_qnns_or_the_wheels(said: str, qnn: str) -> None:
    assert qnn_libraries.qnn_of(said) == qnn


def test_missing_libraries_name_the_command_that_adds_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPDB_QNN_LIBRARIES", "")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for wanted in ("2.51", "2.7.0"):
        with pytest.raises(
            qnn_libraries.NoLibraries, match=r"; download them: opdb libraries install 2\.51$"
        ) as found:
            find(wanted)
        assert found.value.qnn == "2.51"
    with pytest.raises(
        qnn_libraries.NoLibraries, match=r"'opdb libraries install VERSION' adds one of 2\.47, "
    ) as other:
        find("2.99")
    assert other.value.qnn == ""


def test_qnns_version_is_installed_as_its_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from opdb.runtime.qnn import install as installing

    asked: list[str] = []

    def downloaded(version: str, folder: Path) -> Path:
        asked.append(version)
        raise OpdbError("no network in this test")

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(installing, "_download", downloaded)
    for version in ("2.51", "2.51.0", "2.7.0", "2.98.0"):
        with pytest.raises(OpdbError, match="no network"):
            install(version)
    assert asked == ["2.7.0", "2.7.0", "2.7.0", "2.98.0"]
