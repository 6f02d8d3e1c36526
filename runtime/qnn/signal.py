"""Signals: stop a finalization or an execution from outside, or after a time.

Behavior of QNN 2.47 on x86-64 Linux (measured): no library has signals.  CPU and HTP answer 1000, not supported,
to every signalCreate, HTP with "QnnSignal_signalCreate API not supported" although it declares the properties
GRAPH_SUPPORT_EXECUTE_SIGNAL, SIGNAL_SUPPORT_ABORT, and SIGNAL_SUPPORT_TIMEOUT; SAVER and IR answer 1000 too.  So
a library's reaction to a signal was never observed.  To stop a library that hangs here, call it through
opdb.execute.libraries.client.VendorWorker, whose requests have a timeout.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from opdb.core.errors import OpdbError
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.handles import Handle, Resource
from opdb.runtime.qnn.native import CODE, Arena, CData, ffi, lib
from opdb.runtime.qnn.session import NOT_SUPPORTED, Session

if TYPE_CHECKING:
    from opdb.runtime.qnn.backend import Backend

MOST_US = 2**64 - 1


class Signal(Resource):
    """Stops the call that it is passed to; from ``Backend.create_signal``.

    Pass it as ``signal=`` to Graph.finalize, Graph.execute or Graph.bind, to one call at a time.
    """

    def __init__(self, backend: Backend, pointer: CData) -> None:
        self.session: Session = backend.session
        self._trigger = self.session.api.signalTrigger
        self._busy = busy = threading.Lock()
        free = self.session.api.signalFree

        def release(pointer: CData) -> None:
            with busy:
                free(pointer)

        super().__init__(f"a signal of {backend.what}", Handle(pointer, release, backend._backend), backend)

    @classmethod
    def create(cls, backend: Backend, timeout_us: int | None) -> Signal:
        """See ``Backend.create_signal``."""
        arena = Arena()
        out = ffi.new("Qnn_SignalHandle_t *")
        code, log = backend.session.ask("signalCreate", backend, _configs(arena, timeout_us), out)
        if code == NOT_SUPPORTED:
            stage = f"create a signal of {backend.what}: it has none on this machine; run without a signal"
            raise QnnError(stage, code, log)
        if code:
            raise QnnError("create a signal", code, log, backend.session.message(code))
        return cls(backend, out[0])

    def trigger(self) -> None:
        """Aborts the call that this signal was passed to.  Use it from another thread than the call's.

        It does not wait for the library's lock, which the running call holds.  That is safe: QNN intends the
        function to be called meanwhile, opdb shares only the handle with it, and the signal's own lock keeps the
        handle from being freed.  Raises QnnError (9001: no call has the signal; without the library's log, which
        belongs to the call), OpdbError if the signal is closed.
        """
        with self._busy:
            code = int(self._trigger(self.pointer)) & CODE
        if code:
            raise QnnError("trigger a signal", code)


def _configs(arena: Arena, timeout_us: int | None) -> CData:
    config = arena.new("QnnSignal_Config_t *")
    if timeout_us is None:
        config.option = lib.QNN_SIGNAL_CONFIG_OPTION_ABORT
    else:
        if not 0 < timeout_us <= MOST_US:
            raise OpdbError(f"a signal cannot have the timeout {timeout_us} us; give 1 to {MOST_US}")
        config.option = lib.QNN_SIGNAL_CONFIG_OPTION_TIMEOUT
        config.u.timeoutDurationUs = timeout_us
    return arena.configs("QnnSignal_Config_t", config)
