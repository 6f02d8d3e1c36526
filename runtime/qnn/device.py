"""The device of a backend: for HTP, one chip per process."""

from __future__ import annotations

from pathlib import Path

from opdb.core.errors import OpdbError
from opdb.core.guess import did_you_mean
from opdb.generated.constants.socs import SOCS
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.handles import Handle, Resource
from opdb.runtime.qnn.hardware_device import HardwareDevice
from opdb.runtime.qnn.native import NULL, Arena, CData, ffi, lib
from opdb.runtime.qnn.session import Session

#: The SoC numbers of the open HTP devices of each library; see ``_claim``.  The garbage collector may release a
#: device anywhere, so there is no lock, and each change is a single operation on a list.
_devices: dict[Path, list[int]] = {}
INVALID_CONFIG = 14001  # QNN_DEVICE_ERROR_INVALID_CONFIG: the answer to a configuration in the wrong layout


class Device(Resource):
    """A chip that a backend prepares for and runs on, from ``Backend.open``.

    ``soc_model`` is QNN's number for the chip, ``soc`` its name if opdb knows it.
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
            _release(path, soc_model)
            raise
        free = session.api.deviceFree

        def release(pointer: CData) -> None:
            free(pointer)
            _release(path, soc_model)

        super().__init__(f"the device of {session.what}", Handle(pointer, release, session.handle), None)


def soc_model_of(backend: str, soc: str | None, soc_model: int | None) -> int | None:
    """QNN's number for a chip given by name, number, or both; None for a backend without chips.

    Raises OpdbError for an unknown, missing, contradictory, or superfluous chip.
    """
    if backend != "HTP":
        if soc is not None or soc_model is not None:
            raise OpdbError(f"the {backend} backend prepares for no chip; leave the SoC out")
        return None
    if soc is None and soc_model is None:
        raise OpdbError("the HTP backend needs a SoC, as it answers differently per chip; e.g. soc='SM8650'")
    if soc is None:
        return soc_model
    if soc not in SOCS:
        hint = did_you_mean(soc, SOCS, "'opdb query socs' lists them", most=3)
        raise OpdbError(f"{soc!r} is not a SoC that opdb knows{hint}")
    known = SOCS[soc].soc_model
    if soc_model not in (None, known):
        raise OpdbError(f"{soc} has the number {known}, not {soc_model}; give one of the two")
    return known


def _create(session: Session, soc_model: int) -> CData:
    """Creates the device for a chip, trying known struct layouts, the likeliest for this library first."""
    out = ffi.new("Qnn_DeviceHandle_t *")
    first: QnnError | None = None
    for layout in session.layouts("QnnHtpDevice_CustomConfig_t"):
        arena = Arena()
        configs = custom_config(arena, layout, soc_model)
        try:
            session.call("create its device", "deviceCreate", session.handle.pointer, configs, out)
        except QnnError as error:
            if error.code != INVALID_CONFIG:
                raise
            first = first or error  # the first reason is about the chip, the others are about the layout
        else:
            return out[0]
    assert first is not None  # LAYOUTS has at least one per struct
    raise first


def custom_config(arena: Arena, layout: str, soc_model: int) -> CData:
    """The configurations of ``QnnDevice_create`` that choose a chip, in the given layout of the HTP's struct.

    The memory is zeroed and larger than any layout, so that a library with another layout reads 0, which is
    no chip.
    """
    custom = ffi.cast(f"{layout} *", arena.new("uint64_t[4]"))
    custom.option = lib.QNN_HTP_DEVICE_CONFIG_OPTION_SOC
    custom.u.socModel = soc_model
    config = arena.new("QnnDevice_Config_t *")
    config.option = lib.QNN_DEVICE_CONFIG_OPTION_CUSTOM
    config.u.customConfig = custom
    return arena.configs("QnnDevice_Config_t", config)


def platform_info(session: Session) -> tuple[HardwareDevice, ...]:
    """The devices of this machine as the library reports them; () if it reports none (CPU answers 1000)."""
    out = ffi.new("const QnnDevice_PlatformInfo_t **")
    log = session.handle.pointer
    code, _ = session.ask("deviceGetPlatformInfo", log, out)
    if code or out[0] == NULL:
        return ()
    info = out[0].u.v1
    htp = session.interface.backendId == lib.QNN_BACKEND_ID_HTP
    found = tuple(_hardware_device(info.hwDevices[i].u.v1, htp) for i in range(info.numHwDevices))
    session.ask("deviceFreePlatformInfo", log, out[0])
    return found


def _hardware_device(device: CData, htp: bool) -> HardwareDevice:
    common = (device.deviceId, device.deviceType, device.numCores)
    if not htp or device.deviceInfoExtension == NULL:
        return HardwareDevice(*common)
    extension = ffi.cast("QnnHtpDevice_DeviceInfoExtension_t *", device.deviceInfoExtension)
    if extension.devType != lib.QNN_HTP_DEVICE_TYPE_ON_CHIP:
        return HardwareDevice(*common)
    chip = extension.u.onChipDevice
    return HardwareDevice(
        *common,
        soc_model=chip.socModel,
        arch=int(chip.arch),
        vtcm_mb=chip.vtcmSize,
        signed_pd=bool(chip.signedPdSupport),
        dlbc=bool(chip.dlbcSupport),
    )


def _claim(path: Path, soc_model: int) -> None:
    """Refuses a second chip in one process, because HTP validates for the device created last, whichever
    backend is called (seen in the log of 2.47: "Set opvalidator socModel")."""
    models = _devices.setdefault(path, [])
    models.append(soc_model)
    other = next((model for model in list(models) if model != soc_model), None)
    if other is not None:
        models.remove(soc_model)
        raise OpdbError(
            f"HTP is open for SoC number {other} in this process; close it before opening {soc_model}, "
            "or ask through opdb.execute.libraries.client.VendorWorker, which has a process per SoC"
        )


def _release(path: Path, soc_model: int) -> None:
    _devices[path].remove(soc_model)
