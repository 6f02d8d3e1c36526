"""The device of a backend: for HTP, one chip per process."""

from __future__ import annotations

import difflib
import threading
from pathlib import Path

from opdb.errors import OpdbError
from opdb.generated.constants.socs import SOCS
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.handles import Handle, Resource
from opdb.runtime.qnn.native import Arena, CData, ffi, lib
from opdb.runtime.qnn.session import Session

#: Open HTP devices: library -> (SoC number, how many).  See ``_claim``.
_devices: dict[Path, tuple[int, int]] = {}
_devices_lock = threading.Lock()
INVALID_CONFIG = 14001  # QNN_DEVICE_ERROR_INVALID_CONFIG: what the wrong layout of a configuration gives


class Device(Resource):
    """A chip that a backend prepares for and runs on; made by ``Backend.open``.

    ``soc_model`` is QNN's number of the chip, ``soc`` its name where opdb knows it.
    """

    def __init__(self, session: Session, soc: str | None, soc_model: int) -> None:
        self.soc = soc
        self.soc_model = soc_model
        self.session = session
        path = session.path
        _claim(path, soc_model)
        try:
            pointer = _create(session, soc_model)
        except BaseException:
            _release(path)
            raise
        free = session.api.deviceFree

        def release(pointer: CData) -> None:
            free(pointer)
            _release(path)

        super().__init__(f"the device of {session.what}", Handle(pointer, release, session.handle), None)


def soc_model_of(backend: str, soc: str | None, soc_model: int | None) -> int | None:
    """QNN's number of a chip given by name, number or both; None for a backend that has no chips.

    Raises OpdbError for a chip that opdb does not know, and where one is missing or out of place.
    """
    if backend != "HTP":
        if soc is not None or soc_model is not None:
            raise OpdbError(f"the {backend} backend runs on this machine's processor; leave the SoC out")
        return None
    if soc is None and soc_model is None:
        raise OpdbError("the HTP backend needs a SoC, as it answers differently per chip; ex) soc='SM8650'")
    if soc is None:
        return soc_model
    if soc not in SOCS:
        close = difflib.get_close_matches(soc.upper(), SOCS, 1)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(SOCS)}"
        raise OpdbError(f"{soc!r} is not a SoC that opdb knows; {hint}")
    known = SOCS[soc].soc_model
    if soc_model not in (None, known):
        raise OpdbError(f"{soc} has the number {known}, not {soc_model}; give one of the two")
    return known


def _create(session: Session, soc_model: int) -> CData:
    """The device for a chip.  The layouts that the library may read are tried, the likeliest first."""
    layouts = session.layouts("QnnHtpDevice_CustomConfig_t")
    for i, layout in enumerate(layouts):
        out = ffi.new("Qnn_DeviceHandle_t *")
        arena = Arena()
        configs = custom_config(arena, layout, soc_model)
        try:
            session.call("create its device", "deviceCreate", session.handle.pointer, configs, out)
        except QnnError as error:
            if error.code == INVALID_CONFIG and i + 1 < len(layouts):
                continue
            raise
        return out[0]
    raise AssertionError("no layout")  # LAYOUTS has at least one per struct


def custom_config(arena: Arena, layout: str, soc_model: int) -> CData:
    """The configurations of ``QnnDevice_create`` that choose a chip, in the given layout of the HTP's struct.

    The memory is larger than any layout and zeroed, so that a library that reads another one finds 0 there,
    which is no chip.
    """
    custom = ffi.cast(f"{layout} *", arena.new("uint64_t[4]"))
    custom.option = lib.QNN_HTP_DEVICE_CONFIG_OPTION_SOC
    custom.u.socModel = soc_model
    config = arena.new("QnnDevice_Config_t *")
    config.option = lib.QNN_DEVICE_CONFIG_OPTION_CUSTOM
    config.u.customConfig = custom
    return arena.configs("QnnDevice_Config_t", config)


def _claim(path: Path, soc_model: int) -> None:
    """Refuses a second chip in one process: HTP validates for the device that was created last, whichever
    backend is asked (seen in the log of 2.47: "Set opvalidator socModel")."""
    with _devices_lock:
        model, n = _devices.get(path, (soc_model, 0))
        if model != soc_model:
            raise OpdbError(
                f"HTP is open for SoC number {model} in this process; close it before opening {soc_model}, "
                "or ask through opdb.probe.client.VendorWorker, which has a process per SoC"
            )
        _devices[path] = (model, n + 1)


def _release(path: Path) -> None:
    with _devices_lock:
        model, n = _devices.pop(path)
        if n > 1:
            _devices[path] = (model, n - 1)
