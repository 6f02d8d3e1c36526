"""A version of QNN's libraries that is not here: a question on a terminal, the command in a pipe; never a download unasked."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, one_line

pytestmark = pytest.mark.vendor
COMMAND = (sys.executable, "-m", "opdb", "cost", "nowhere.onnx", "--soc", "SA8255", "--qnn", "2.50")


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine with the installed wheel alone, and no package index."""
    return {
        **os.environ, "OPDB_QNN_LIBRARIES": "", "QNN_SDK_ROOT": "", "XDG_DATA_HOME": str(tmp_path), "PIP_NO_INDEX": "1",
        "PIP_CONFIG_FILE": os.devnull, "COLUMNS": "200", "TERM": "dumb",
    }  # fmt: skip


def test_a_pipe_gets_the_command(bare: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(COMMAND, capture_output=True, text=True, cwd=ROOT, env=bare, check=False)
    assert one_line(done).endswith("; download them: opdb libraries install 2.50")
    assert not (tmp_path / "opdb").exists()


@pytest.mark.parametrize(
    ("answer", "said"), [("n", "opdb libraries install 2.50"), ("y", "no package index")]
)
def test_a_terminal_asks_first(bare: dict[str, str], answer: str, said: str) -> None:
    leader, follower = pty.openpty()
    child = subprocess.Popen(COMMAND, stdin=follower, stdout=follower, stderr=follower, cwd=ROOT, env=bare)
    os.close(follower)
    os.write(leader, f"{answer}\n".encode())
    text = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:  # the child has ended
            break
        if not part:
            break
        text += part
    os.close(leader)
    assert child.wait(60) == 2
    shown = " ".join(text.decode().split())
    assert "QNN 2.50 is not here. Download onnxruntime-qnn 2.6.0, about 250 MB? [y/N]" in shown
    assert said in shown
