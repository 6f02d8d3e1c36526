"""Power settings: calls, codes, bytes and order.  On x86 they have no effect, as the library logs."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from opdb.core.errors import OpdbError
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.native import Arena, ffi
from opdb.runtime.qnn.power import PROFILES, Power, dcvs_config

pytestmark = [pytest.mark.vendor, pytest.mark.usefixtures("libraries")]


@pytest.fixture
def htp() -> Iterator[Backend]:
    with Backend.open("HTP", "SM8650") as backend:
        yield backend


def answer(power: Power, backend: Backend, number: int) -> int:
    """The code of setPowerConfig with a power config id."""
    arena = Arena()
    configs = arena.configs(
        "QnnHtpPerfInfrastructure_PowerConfig_t", dcvs_config(arena, number, PROFILES["burst"])
    )
    return backend.session.ask(power._infrastructure.setPowerConfig, number, configs)[0]


def test_a_profile_has_the_documented_bytes() -> None:
    """A DCVS_V3 config is 68 bytes of uint32: the option, then QnnHtpPerfInfrastructure_DcvsV3_t."""
    arena = Arena()
    burst = ffi.buffer(dcvs_config(arena, 7, PROFILES["burst"]))[:]
    # option; id; dcvs: set, no; performance; sleep latency: set, 40; sleep: not set; bus and core: set, all MAX
    assert struct.unpack("<17I", burst) == (1, 7, 1, 0, 16, 1, 40, 0, 0, 1, 160, 160, 160, 1, 160, 160, 160)
    balanced = ffi.buffer(dcvs_config(arena, 8, PROFILES["balanced"]))[:]
    assert struct.unpack("<17I", balanced) == (
        1,
        8,
        1,
        1,
        1,
        1,
        1000,
        1,
        0,
        1,
        128,
        128,
        128,
        1,
        128,
        128,
        128,
    )


def test_the_library_reads_every_field(htp: Backend) -> None:
    with htp.create_power("burst") as power:
        for name, profile in PROFILES.items():
            result = power.set_profile(name)
            corners = {
                f"{part}VoltageCorner{end}" for part in ("bus", "core") for end in ("Min", "Target", "Max")
            }
            assert result.values == {
                "setDcvsEnable": 1,
                "dcvsEnable": int(profile.dcvs),
                "powerMode": profile.mode,
                "setSleepLatency": 1,
                "sleepLatency": profile.sleep_latency_us,
                "setSleepDisable": int(profile.sleep_disable is not None),
                "sleepDisable": 0,
                "setBusParams": 1,
                "setCoreParams": 1,
                **dict.fromkeys(corners, profile.corner),
            }
            assert profile.source
            assert str(result).startswith(
                f"power profile {name}: accepted; its effect cannot be observed on x86"
            )
            assert any("No perf settings support on this platform" in line for line in result.log)
        assert power.set_rpc().values == {"rpc control latency": 100, "rpc polling time": 9999}
        result = power.set_rpc(0, 0)
        assert result.values == {"rpc control latency": 0, "rpc polling time": 0}
        assert result.setting == "RPC latency 0 us, polling 0 us"
        assert power.set_memory_growth(1 << 24).values == {"memory grow size": 1 << 24}


def test_settings_work_at_any_log_level(htp: Backend) -> None:
    htp.log_level = "error"
    with htp.create_power() as power:
        result = power.set_profile("power_saver")
        assert (result.values, result.log) == ({}, ())
        assert "cannot be observed" in result.effect


def test_ids_live_from_creation_to_release(htp: Backend) -> None:
    first, second = htp.create_power(), htp.create_power()
    numbers = first.number, second.number
    assert numbers[0] != numbers[1]
    assert answer(first, htp, numbers[0]) == 0
    assert answer(first, htp, numbers[1] + 1000) == 13001
    first.close()
    assert answer(second, htp, numbers[0]) == 13001
    assert answer(second, htp, numbers[1]) == 0
    with pytest.raises(OpdbError, match="power settings of the HTP backend is closed"):
        first.set_profile("burst")
    with pytest.raises(OpdbError, match="closed"):
        first.set_memory_growth(0)


def test_settings_are_released_before_their_device() -> None:
    with Backend.open("HTP", "SM8650") as other:  # keeps the library's infrastructure in use
        with Backend.open("HTP", "SM8650") as backend:
            power = backend.create_power("burst")
            number = power.number
            assert backend.device
            order: list[str] = []
            for what, handle in (("power", power._handle), ("device", backend.device._handle)):
                release = handle._release
                assert release

                def noted(pointer: object, what: str = what, release: object = release) -> None:
                    code = release(pointer)  # type: ignore[operator]
                    order.append(f"{what} {code}")

                handle._release = noted
        assert order == ["power 0", "device None"]
        assert power.closed
        assert answer(power, other, number) == 13001


def test_a_wrong_id_is_an_error_with_its_code(htp: Backend) -> None:
    power = htp.create_power()
    wrong = Power(htp.session, power._owner, power._infrastructure, power.number + 1000)  # type: ignore[arg-type]
    with pytest.raises(QnnError, match="QNN failed to set power profile burst: 13001") as caught:
        wrong.set_profile("burst")
    assert caught.value.name == "QNN_HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT"


def test_invalid_settings_are_refused(htp: Backend) -> None:
    with pytest.raises(
        OpdbError, match=r"'fast' is not a power profile; one of burst, high_performance, balanced,"
    ):
        htp.create_power("fast")
    with htp.create_power() as power:
        with pytest.raises(OpdbError, match="RPC polling time 10000 does not fit; give 0 to 9999"):
            power.set_rpc(polling_us=10000)
        with pytest.raises(OpdbError, match="RPC control latency -1 does not fit"):
            power.set_rpc(latency_us=-1)
        with pytest.raises(OpdbError, match="memory growth 4294967296 does not fit; give 0 to 4294967295"):
            power.set_memory_growth(2**32)


def test_the_cpu_has_no_power_settings() -> None:
    with (
        Backend.open("CPU") as backend,
        pytest.raises(
            QnnError, match="find power settings of the CPU backend: it has none, HTP does: 1000"
        ) as caught,
    ):
        backend.create_power("burst")
    assert caught.value.code == 1000
