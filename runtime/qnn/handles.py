"""Ownership and release order of the vendor's handles."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from opdb.core.errors import OpdbError
from opdb.runtime.qnn.native import CData

#: Unreferenced handles whose library was busy in another thread; see ``Handle.drop``.
dropped: deque[Handle] = deque()
#: The time that process exit waits for a busy library, in seconds.
EXIT_SECONDS = 5.0


class Handle:
    """One of the vendor's handles, with the handles created from it.

    It is released once, after all handles created from it, newest first.  ``lock`` is the library's: nothing is
    released while another thread is inside the library.  ``keep`` stays alive until the release: memory that the
    library may read.
    """

    def __init__(
        self,
        pointer: CData,
        release: Callable[[CData], object] | None,
        parent: Handle | None,
        lock: threading.RLock | None = None,
        keep: object = None,
    ) -> None:
        self.pointer = pointer
        self.alive = True
        self.lock: threading.RLock = lock or (parent.lock if parent else threading.RLock())
        self._release = release
        self._parent = parent
        self._keep = keep
        self._closing = False
        self._children: list[Handle] = []
        if parent is not None:
            with self.lock:
                if parent._closing:
                    raise OpdbError("what this was made from is closed; make a new one")
                parent._children.append(self)

    def close(self) -> None:
        """Releases the handles created from this one, then this one; a second call does nothing."""
        with self.lock:
            if self._closing:  # even if the garbage collector enters during this method
                return
            self._closing = True
            for child in reversed(list(self._children)):
                child.close()
            self.alive = False
            if self._parent is not None:
                self._parent._children.remove(self)
            if self._release is not None:
                self._release(self.pointer)
            self._keep = None

    def drop(self) -> None:
        """``close`` for the garbage collector, which may run anywhere, even inside a call into a library.

        Never waits for another thread, which might be waiting for this one: if the library is busy, the handle is
        released after a later call into any library, or at exit.
        """
        if self.lock.acquire(blocking=False):
            try:
                self.close()
            finally:
                self.lock.release()
        else:
            dropped.append(self)


def sweep() -> None:
    """Releases the handles that were dropped while their library was busy."""
    for _ in range(len(dropped)):
        try:
            handle = dropped.popleft()
        except IndexError:  # another thread is sweeping too
            return
        handle.drop()


@atexit.register  # runs after the finalizers of open resources: weakref registers its hook later
def _sweep_at_exit() -> None:
    while dropped:
        handle = dropped.popleft()
        if handle.lock.acquire(timeout=EXIT_SECONDS):
            try:
                handle.close()
            finally:
                handle.lock.release()


class Resource:
    """A Python object over a handle: a context manager, released by ``close`` or when unreferenced.

    It keeps its owner alive; closing an owner closes everything created from it.  Later use raises OpdbError
    and never crashes.
    """

    _finalizer: weakref.finalize[Any, Any]

    def __init__(self, what: str, handle: Handle, owner: Resource | None) -> None:
        self.what = what  # for messages; e.g. "the HTP backend"
        self._handle = handle
        self._owner = owner
        self._finalizer = weakref.finalize(self, handle.drop)

    @property
    def closed(self) -> bool:
        return not self._handle.alive

    @property
    def pointer(self) -> CData:
        """QNN's handle.  Raises OpdbError if it was released.

        Another thread may close this at any time: pass the Resource itself to ``Session.call``, which reads the
        pointer while no other thread is inside the library, or hold the session's lock.
        """
        if not self._handle.alive:
            raise OpdbError(f"{self.what} is closed; make a new one")
        return self._handle.pointer

    def close(self) -> None:
        """Releases this and everything created from it; safe to repeat, from any thread."""
        self._finalizer.detach()
        self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
