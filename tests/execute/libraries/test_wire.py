"""Values with large arrays arrive as they were sent."""

from __future__ import annotations

import socket
import threading
from typing import Any

import numpy as np
import pytest

from opdb.execute.libraries.wire import LARGE, Wire


def through(value: Any) -> Any:
    """The value as received at the other end; a large one does not fit into the socket at once."""
    a, b = socket.socketpair()
    with Wire(a.detach()) as ours, Wire(b.detach()) as theirs:
        sender = threading.Thread(target=ours.send, args=(value,))
        sender.start()
        try:
            return theirs.recv()
        finally:
            sender.join()


@pytest.mark.parametrize("size", [0, 1, LARGE - 1, LARGE, 5 * LARGE + 3])
def test_arrays_of_any_size_arrive(size: int) -> None:
    sent = np.arange(size, dtype=np.uint8)
    name, (got, same) = through(("name", [sent, sent]))
    assert name == "name" and got.dtype == sent.dtype and np.array_equal(got, sent)
    assert same is got
    got[:1] = 7  # as a copy, it can be written
    assert size == 0 or sent[0] == 0


def test_strided_and_reversed_arrays_arrive() -> None:
    wide = np.arange(2 * LARGE, dtype=np.float32).reshape(1024, -1)
    for sent in (wide[:, ::2], wide.T, wide[::-1]):
        assert np.array_equal(through(sent), sent)


def test_many_messages_arrive_in_order() -> None:
    a, b = socket.socketpair()
    with Wire(a.detach()) as ours, Wire(b.detach()) as theirs:
        for n in range(3):
            ours.send({"n": n})
        assert [theirs.recv() for _ in range(3)] == [{"n": n} for n in range(3)]
