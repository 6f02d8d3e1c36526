"""What a client and its child process send each other: any Python value, with large arrays beside its pickle.

Inside a pickle an array is copied four times on its way; a graph with 350 MB of weights took 1.8 s.
"""

from __future__ import annotations

import pickle
from multiprocessing.connection import Connection
from typing import Any

#: Bytes from which on an array is sent by itself.
LARGE = 1 << 20


class Wire(Connection):
    """A ``Connection`` whose both ends are of this class."""

    def send(self, obj: Any) -> None:
        large: list[memoryview] = []

        def inside(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes < LARGE:
                return True
            large.append(raw)
            return False

        message = pickle.dumps(obj, protocol=5, buffer_callback=inside)
        self.send_bytes(pickle.dumps((message, [raw.nbytes for raw in large])))
        for raw in large:
            self.send_bytes(raw)

    def recv(self) -> Any:
        message, sizes = pickle.loads(self.recv_bytes())
        large = [bytearray(size) for size in sizes]  # arrays of these can be written
        for place in large:
            self.recv_bytes_into(place)
        return pickle.loads(message, buffers=large)
