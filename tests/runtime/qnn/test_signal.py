"""Signals, which no library supports on x86: that is reported, and our own code around them works."""

from __future__ import annotations

import struct
import threading
import time

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.native import Arena, ffi
from opdb.runtime.qnn.signal import Signal, _configs

pytestmark = [pytest.mark.vendor, pytest.mark.usefixtures("libraries")]


@pytest.mark.parametrize(("name", "soc"), [("CPU", None), ("HTP", "SM8650")])
@pytest.mark.parametrize("timeout_us", [None, 1000])
def test_no_library_supports_signals_here(name: str, soc: str | None, timeout_us: int | None) -> None:
    with Backend.open(name, soc) as backend:
        with pytest.raises(
            QnnError, match="it has none on this machine; run without a signal: 1000"
        ) as caught:
            backend.create_signal(timeout_us)
        assert caught.value.code == 1000
        # HTP claims otherwise
        for key in ("GRAPH_SUPPORT_EXECUTE_SIGNAL", "SIGNAL_SUPPORT_ABORT", "SIGNAL_SUPPORT_TIMEOUT"):
            assert backend.has_capability(f"QNN_PROPERTY_{key}") == (name == "HTP")


def test_a_configuration_has_the_documented_bytes() -> None:
    """QnnSignal_Config_t: the option at 0, the timeout in us at 8; 16 bytes."""
    arena = Arena()
    for timeout_us, expected in ((None, (1, 0)), (5_000_000_000, (2, 5_000_000_000))):
        configs = _configs(arena, timeout_us)
        assert struct.unpack("<I4xQ", ffi.buffer(configs[0], 16)[:]) == expected
        assert configs[1] == ffi.NULL


@pytest.mark.parametrize("timeout_us", [0, -1, 2**64])
def test_invalid_timeouts_are_rejected(timeout_us: int) -> None:
    with (
        Backend.open("CPU") as backend,
        pytest.raises(OpdbError, match=f"cannot have the timeout {timeout_us} us"),
    ):
        backend.create_signal(timeout_us)


def test_a_trigger_does_not_wait_for_a_running_call(guide_graph: QnnGraph) -> None:
    """HTP returns 1000 for any handle: enough to show that the call enters the library meanwhile."""
    x = np.ones((200, 768), np.float32)
    done: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = []
    with Backend.open("HTP", "SM8650") as backend:
        graph = backend.prepare(guide_graph)
        signal = Signal(backend, ffi.cast("void *", 1))
        thread = threading.Thread(target=lambda: done.append(graph.execute({"x": x})["y"]))
        thread.start()
        lock = backend.session.lock
        while lock.acquire(blocking=False):
            lock.release()
            time.sleep(0.001)
        start = time.perf_counter()
        with pytest.raises(QnnError, match="trigger a signal: 1000 QNN_COMMON_ERROR_NOT_SUPPORTED"):
            signal.trigger()
        took = time.perf_counter() - start
        assert not lock.acquire(blocking=False), f"the execution was over after {took} s"
        thread.join()
        assert np.isfinite(done[0]).all()
        signal.close()
        with pytest.raises(OpdbError, match="a signal of the HTP backend is closed"):
            signal.trigger()


def test_a_signal_of_another_backend_is_rejected(guide_graph: QnnGraph) -> None:
    with Backend.open("HTP", "SM8650") as htp, Backend.open("CPU") as cpu:
        signal = Signal(htp, ffi.cast("void *", 1))
        with pytest.raises(OpdbError, match="was given to a graph of another backend"):
            cpu.prepare(guide_graph).execute({"x": np.ones((200, 768), np.float32)}, signal=signal)
