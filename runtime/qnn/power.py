"""Power and performance settings of the HTP: votes for voltage corners, sleep, and RPC polling.

Behavior of QNN 2.47 on x86-64 Linux (measured, HTP for SM8650): every call answers 0 for valid arguments,
13001 for an unknown id, 13002 for an unknown option; device 0 has only core 0.  Values are not checked: any
power mode, corner, or latency answers 0.  The log at level verbose reads every field back, then says
"No perf settings support on this platform": there is no chip, so no effect can be seen.  CPU has no power
settings: deviceGetInfrastructure answers 1000.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.runtime.qnn.device import Device
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.handles import Handle, Resource
from opdb.runtime.qnn.native import Arena, CData, ffi, lib
from opdb.runtime.qnn.session import NOT_SUPPORTED, Session

if TYPE_CHECKING:
    from opdb.runtime.qnn.backend import Backend

DEVICE, CORE = 0, 0
RPC_LATENCY_US, RPC_POLLING_US = 100, 9999  # for speed; mllm and ExecuTorch use the same values
MOST_POLLING_US = (
    lib.QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIG_MAX_RPC_POLLING_TIME
)  # libraries do not check it
MOST = 2**32 - 1

#: e.g. "verbose: sleepLatency 40", "verbose: set power settings rpc polling time 9999"
_FIELD = re.compile(r"\w+: (?:set (?:power|memory) settings )?(\w+|(?:rpc|memory)(?: \w+)+) (\d+)")
_SPEED = lib.QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_PERFORMANCE_MODE
_BOTH_WAYS = lib.QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_ADJUST_UP_DOWN
_SAVING = lib.QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_POWER_SAVER_MODE
_MLLM = "mllm, setPowerConfigBurst and setPowerConfigBalanced"
_ORT = "ONNX Runtime, htp_performance_mode"
_EXECUTORCH = "ExecuTorch, HtpDevice.cpp"


@dataclass(frozen=True)
class PowerProfile:
    """One vote for DCVS, the HTP's scaling of voltage and clock.

    ``corner`` is the voltage corner of bus and core, for minimum, maximum, and target; ``dcvs`` lets the clock
    follow the load; ``sleep_latency_us`` is the maximum wake-up time; ``sleep_disable`` is not set if None.
    ``source`` is the origin of the values.
    """

    mode: int
    dcvs: bool
    sleep_latency_us: int
    corner: int
    source: str
    sleep_disable: bool | None = None


PROFILES: Mapping[str, PowerProfile] = {
    "burst": PowerProfile(_SPEED, False, 40, lib.DCVS_VOLTAGE_VCORNER_MAX_VOLTAGE_CORNER, _MLLM),
    "high_performance": PowerProfile(_SPEED, False, 100, lib.DCVS_VOLTAGE_VCORNER_TURBO, _ORT),
    "balanced": PowerProfile(_BOTH_WAYS, True, 1000, lib.DCVS_VOLTAGE_VCORNER_TURBO, _MLLM, False),
    "low_balanced": PowerProfile(_SPEED, True, 1000, lib.DCVS_VOLTAGE_VCORNER_NOM, _ORT),
    "high_power_saver": PowerProfile(_SPEED, True, 1000, lib.DCVS_VOLTAGE_VCORNER_SVS_PLUS, _ORT),
    "power_saver": PowerProfile(_SPEED, True, 1000, lib.DCVS_VOLTAGE_VCORNER_SVS, _ORT),
    "low_power_saver": PowerProfile(_SPEED, True, 1000, lib.DCVS_VOLTAGE_VCORNER_SVS2, _ORT),
    "idle": PowerProfile(_SAVING, True, 2000, lib.DCVS_VOLTAGE_VCORNER_SVS2, _EXECUTORCH),
}


@dataclass(frozen=True)
class PowerResult:
    """A setting that the library accepted with code 0.

    ``log`` has its log lines, ``values`` the fields that they read back (none if the log level is below
    verbose).  ``effect`` describes the known effect.
    """

    setting: str
    log: tuple[str, ...]
    values: Mapping[str, int]
    effect: str

    def __str__(self) -> str:
        return f"{self.setting}: accepted; {self.effect}"


class Power(Resource):
    """A power client of the HTP device, from ``Backend.create_power``.

    Its votes hold until it is closed, at the latest with the device: it is released before the device.
    """

    def __init__(self, session: Session, device: Device, infrastructure: CData, number: int) -> None:
        self.session = session
        self._infrastructure = infrastructure
        destroy = infrastructure.destroyPowerConfigId
        handle = Handle(number, destroy, device._handle)
        super().__init__(f"power settings of {session.what}", handle, device)

    @classmethod
    def create(cls, backend: Backend, profile: str | None) -> Power:
        """See ``Backend.create_power``."""
        if profile is not None:
            _profile(profile)
        session, number = backend.session, ffi.new("uint32_t *")
        with session.lock:
            infrastructure = _infrastructure(session)
            if backend.device is None:
                raise OpdbError(f"{backend.what} has no device, which power settings are for")
            session.call("create power settings", infrastructure.createPowerConfigId, DEVICE, CORE, number)
            power = cls(session, backend.device, infrastructure, number[0])
        try:
            if profile is not None:
                power.set_profile(profile)
        except BaseException:
            power.close()
            raise
        return power

    @property
    def number(self) -> int:
        """QNN's power config id.  Raises OpdbError if it was released."""
        return int(self.pointer)

    def set_profile(self, name: str) -> PowerResult:
        """Votes for one of PROFILES, replacing the previous vote.  Raises OpdbError, QnnError."""
        arena = Arena()
        return self._set(f"power profile {name}", dcvs_config(arena, self.number, _profile(name)))

    def set_rpc(self, latency_us: int = RPC_LATENCY_US, polling_us: int = RPC_POLLING_US) -> PowerResult:
        """Sets the latency of RPC calls and the time the host polls for their end before it sleeps, in us.

        0 disables polling.  Raises OpdbError for values that are too large for QNN, QnnError.
        """
        _within("RPC control latency", latency_us, MOST)
        _within("RPC polling time", polling_us, MOST_POLLING_US)
        arena = Arena()
        latency = arena.new("QnnHtpPerfInfrastructure_PowerConfig_t *")
        latency.option = lib.QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_RPC_CONTROL_LATENCY
        latency.u.rpcControlLatencyConfig = latency_us
        polling = arena.new("QnnHtpPerfInfrastructure_PowerConfig_t *")
        polling.option = lib.QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_RPC_POLLING_TIME
        polling.u.rpcPollingTimeConfig = polling_us
        return self._set(f"RPC latency {latency_us} us, polling {polling_us} us", latency, polling)

    def set_memory_growth(self, size: int) -> PowerResult:
        """Sets the minimum growth of the device heap when it is full, in bytes; QNN's default is 16 MB.

        Applies to the whole process; QNN intends it to be called once.  Raises OpdbError, QnnError.
        """
        _within("memory growth", size, MOST)
        arena = Arena()
        config = arena.new("QnnHtpPerfInfrastructure_MemoryConfig_t *")
        config.option = lib.QNN_HTP_PERF_INFRASTRUCTURE_MEMORY_CONFIGOPTION_GROW_SIZE
        config.u.memGrowSizeConfig = size
        configs = arena.configs("QnnHtpPerfInfrastructure_MemoryConfig_t", config)
        setting = f"memory growth {counted(size, 'byte')}"
        self.number  # noqa: B018  # raises if this is closed
        log = self.session.call(f"set {setting}", self._infrastructure.setMemoryConfig, DEVICE, CORE, configs)
        return _result(setting, log)

    def _set(self, setting: str, *configs: CData) -> PowerResult:
        arena = Arena()
        pointers = arena.configs("QnnHtpPerfInfrastructure_PowerConfig_t", *configs)
        log = self.session.call(f"set {setting}", self._infrastructure.setPowerConfig, self, pointers)
        return _result(setting, log)


def dcvs_config(arena: Arena, number: int, profile: PowerProfile) -> CData:
    """The ``QnnHtpPerfInfrastructure_PowerConfig_t *`` of a profile, for the power config id ``number``."""
    config = arena.new("QnnHtpPerfInfrastructure_PowerConfig_t *")
    config.option = lib.QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_DCVS_V3
    vote = config.u.dcvsV3Config
    vote.contextId = number
    vote.setDcvsEnable, vote.dcvsEnable = 1, profile.dcvs
    vote.powerMode = profile.mode
    vote.setSleepLatency, vote.sleepLatency = 1, profile.sleep_latency_us
    vote.setSleepDisable, vote.sleepDisable = profile.sleep_disable is not None, bool(profile.sleep_disable)
    vote.setBusParams = vote.setCoreParams = 1
    for part in ("bus", "core"):
        for end in ("Min", "Target", "Max"):
            setattr(vote, f"{part}VoltageCorner{end}", profile.corner)
    return config


def _infrastructure(session: Session) -> CData:
    """The library's ``QnnHtpDevice_PerfInfrastructure_t``."""
    out = ffi.new("const void **")
    code, log = session.ask("deviceGetInfrastructure", out)
    if code == NOT_SUPPORTED:
        raise QnnError(f"find power settings of {session.what}: it has none, HTP does", code, log)
    if code:
        raise QnnError("find its power settings", code, log, session.message(code))
    infrastructure = ffi.cast("const QnnHtpDevice_Infrastructure_t *", out[0])
    if infrastructure.infraType != lib.QNN_HTP_DEVICE_INFRASTRUCTURE_TYPE_PERF:
        raise OpdbError(f"{session.what} has no power settings (infrastructure {infrastructure.infraType})")
    return infrastructure.u.perfInfra


def _result(setting: str, log: tuple[str, ...]) -> PowerResult:
    fields = (_FIELD.fullmatch(line) for line in log)
    effect = "opdb does not measure its effect"
    if platform.machine() in ("x86_64", "AMD64"):
        effect = "its effect cannot be observed on x86, where HTP is an emulation without power states"
    return PowerResult(setting, log, {m[1]: int(m[2]) for m in fields if m}, effect)


def _profile(name: str) -> PowerProfile:
    if name not in PROFILES:
        raise OpdbError(f"{name!r} is not a power profile; one of {', '.join(PROFILES)}")
    return PROFILES[name]


def _within(what: str, value: int, most: int) -> None:
    if not 0 <= value <= most:
        raise OpdbError(f"{what} {value} does not fit; give 0 to {most}")
