"""Files are written whole; devices and pipes stay what they are."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from opdb.core.errors import OpdbError
from opdb.core.files import check_writable, write_atomically


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "a.txt"
    write_atomically(path, "one")
    write_atomically(path, b"two")
    assert path.read_text() == "two" and list(path.parent.iterdir()) == [path]


def test_a_pipe_gets_the_content(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, "through the pipe")
    reader.join(10)
    assert found == [b"through the pipe"] and stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_stays_a_device(tmp_path: Path) -> None:
    """As root, in a container, `-o /dev/null` must not put a file in its place."""
    null = tmp_path / "null"
    try:
        os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this container makes no devices")
    check_writable(null)
    write_atomically(null, "gone")
    assert stat.S_ISCHR(null.stat().st_mode) and list(tmp_path.iterdir()) == [null]


def test_a_folder_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    with pytest.raises(OpdbError, match="this is a folder; name a file"):
        check_writable(tmp_path)
    with pytest.raises(OpdbError, match="cannot write"):
        write_atomically(tmp_path, "x")
    assert list(tmp_path.iterdir()) == []
