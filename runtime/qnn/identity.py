"""Queries a QNN library's identity in a child process, because opening a library may crash or hang.

    python -m opdb.runtime.qnn.identity BACKEND PATH    writes answer.json into the current folder

This module is light: only the child loads libraries.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from opdb.core.errors import OpdbError
from opdb.runtime.qnn.hardware_device import HardwareDevice

Version = tuple[int, int, int]
ANSWER = "answer.json"
#: The answers of ``QnnProperty_hasCapability``: yes, no (not supported), unknown key.
CAPABILITY = {0: True, 1000: False, 2000: None}


@dataclass(frozen=True)
class Identity:
    """The identity of a library, as it reports itself.

    For SYSTEM, ``backend_api`` is the API of libQnnSystem.so, which has no ``core_api`` and no ``build_id``.
    ``refusal`` is the reason that the backend does not start here, "" if it does.  ``operations`` and
    ``capabilities`` (key -> True, False, or None for an unknown key) are None if the library does not report them.
    """

    provider: str  # e.g. HTP_QTI_AISW
    provider_id: int
    sha256: str
    backend_api: Version
    core_api: Version | None = None
    build_id: str = ""  # e.g. v2.47.0.260601114230
    refusal: str = ""
    operations: tuple[str, ...] | None = None
    capabilities: Mapping[str, bool | None] | None = None
    devices: tuple[HardwareDevice, ...] = field(default=())

    @property
    def qnn_version(self) -> str:
        """The QNN version in the build id, e.g. 2.47.0; "" if there is none."""
        found = re.match(r"v?(\d+\.\d+\.\d+)", self.build_id)
        return found[1] if found else ""


def ask(backend: str, path: Path, seconds: float = 60) -> Identity:
    """The identity of the library at ``path``, cached while the file is unchanged.

    Raises OpdbError if the library cannot be opened, or crashes or hangs before it has identified itself; later
    failures go into ``refusal``.
    """
    state = path.stat()
    return _ask(backend, path, seconds, (state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=64)
def _ask(backend: str, path: Path, seconds: float, _state: tuple[int, int]) -> Identity:
    # The Saver writes into the current folder, so the child gets a separate one.
    with tempfile.TemporaryDirectory(prefix="opdb-qnn-") as folder:
        # -P: the current folder is not searched for modules
        command = [sys.executable, "-P", "-m", "opdb.runtime.qnn.identity", backend, str(path.absolute())]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=seconds,
                check=False,
            )
            end = _end_of(done.returncode)
            printed = done.stderr.decode(errors="replace").strip().splitlines()
        except subprocess.TimeoutExpired:
            end, printed = f"it hung for {seconds:g} s", []
        file = Path(folder, ANSWER)
        answer = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if "error" in answer:
        raise OpdbError(answer["error"])
    doing = answer.pop("doing", "open it")
    if "provider" not in answer:
        last = f" ({printed[-1]})" if printed else ""
        raise OpdbError(f"{path}: asking this library for its version failed: {end or 'no answer'}{last}")
    if end:
        answer["refusal"] = f"{end} when asked to {doing}"
    return _identity(answer)


def _end_of(code: int) -> str:
    if code >= 0:
        return f"it ended its process with {code}" if code else ""
    try:
        return f"it crashed with {signal.Signals(-code).name}"
    except ValueError:
        return f"it crashed with signal {-code}"


def _identity(answer: dict[str, Any]) -> Identity:
    for name in ("core_api", "backend_api", "operations"):
        if answer.get(name) is not None:
            answer[name] = tuple(answer[name])
    answer["devices"] = tuple(HardwareDevice(**row) for row in answer.get("devices", ()))
    return Identity(**answer)


class _Answer:
    """The answer so far, written to disk after every step because the next one may crash."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def put(self, doing: str, **known: Any) -> None:
        """Adds ``known`` to the answer; ``doing`` is the next step."""
        self._known |= known
        Path(ANSWER).write_text(json.dumps({"doing": doing, **self._known}), encoding="utf-8")


def main() -> None:
    """Runs the child process."""
    import hashlib

    backend, path = sys.argv[1], Path(sys.argv[2])
    answer = _Answer()
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        (_ask_system if backend == "SYSTEM" else _ask_backend)(path, sha256, answer)
    except OSError as error:
        answer.put("", error=f"{path}: cannot read this library: {error.strerror}")
    except OpdbError as error:
        answer.put("", error=str(error))


def _ask_system(path: Path, sha256: str, answer: _Answer) -> None:
    from opdb.runtime.qnn import native

    why = native.ffi.new("char[1024]")
    found = native.lib.opdb_qnn_open_system(str(path).encode(), why, native.ffi.sizeof(why))
    if found == native.NULL:
        raise native.not_opened(path, native.text(why))
    api = native.version(found.systemApiVersion)
    provider = native.text(found.providerName)
    answer.put("", provider=provider, provider_id=found.backendId, sha256=sha256, backend_api=api)


def _ask_backend(path: Path, sha256: str, answer: _Answer) -> None:
    from opdb.runtime.qnn import native
    from opdb.runtime.qnn.device import platform_info
    from opdb.runtime.qnn.errors import error_name, reasons, see
    from opdb.runtime.qnn.session import Session

    ffi = native.ffi
    session = Session(path, "the library", 1)
    interface = session.interface
    answer.put(
        "give its build id",
        provider=native.text(interface.providerName),
        provider_id=interface.backendId,
        sha256=sha256,
        core_api=session.core_api,
        backend_api=session.backend_api,
    )
    text = ffi.new("const char **")
    code, _ = session.ask("backendGetBuildId", text)
    answer.put("tell its capabilities", build_id="" if code else native.text(text[0]))
    answer.put("start its backend", capabilities=_capabilities(session))
    out = ffi.new("Qnn_BackendHandle_t *")
    code, log = session.ask("backendCreate", session.handle.pointer, native.NULL, out)
    if code:
        why = (*reasons(log), session.message(code), "no reason given")
        answer.put("", refusal=f"{code} {error_name(code)}: {next(filter(None, why))}{see(code)}")
        return
    n, names = ffi.new("uint32_t *"), ffi.new("const QnnBackend_OperationName_t **")
    answer.put("list its ops")
    code, _ = session.ask("backendGetSupportedOperations", out[0], n, names)
    ops = None if code else sorted({native.text(names[0][i].name) for i in range(n[0])})
    answer.put("describe this machine", operations=ops)
    answer.put("release its backend", devices=[vars(row) for row in platform_info(session)])
    session.ask("backendFree", out[0])
    session.handle.close()
    answer.put("leave")


def _capabilities(session: Any) -> dict[str, bool | None] | None:
    """The answer for every property key that opdb declares; None if the library gives any other answer."""
    from opdb.runtime.qnn.native import lib

    found = {}
    for key in dir(lib):
        if key.startswith("QNN_PROPERTY_") and not key.startswith("QNN_PROPERTY_GROUP_"):
            code, _ = session.ask("propertyHasCapability", getattr(lib, key))
            if code not in CAPABILITY:
                return None
            found[key] = CAPABILITY[code]
    return found


if __name__ == "__main__":
    main()
