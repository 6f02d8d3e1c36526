"""The command ``opdb`` by fork, from a process that has already imported PyTorch.

Some five hundred tests run a command each, and its imports take most of the time of a short one.  The child is a separate process
with its own streams, folder and variables, and exits as `opdb` does.
"""

from __future__ import annotations

import atexit
import fcntl
import importlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path

#: The imports of commands.  ExecuTorch registers operators with PyTorch, visible only to commands that import it.
IMPORTED = (
    "sqlalchemy", "alembic.command", "jinja2", "yaml", "torch", "torch.export._trace", "onnx", "opdb.cli",
    "opdb.checks.verdicts", "opdb.programs.torch.program", "opdb.programs.onnx.files", "opdb.execute.compile.model",
    "opdb.lower.passes", "opdb.catalog.store",
)  # fmt: skip
EXECUTORCH = (*IMPORTED, "executorch.exir", "executorch.backends.qualcomm.quantizer.quantizer")
#: Variables that Python and the loader read when they start; "ignore" is set in the child.
AT_START = ("PYTHON", "LD_")
_servers: dict[bool, subprocess.Popen[str]] = {}


def can_run(variables: Mapping[str, str]) -> bool:
    """True if a forked process is equivalent to a new one with these variables."""
    here, there = (
        {n: v for n, v in some.items() if n.startswith(AT_START) and (n, v) != ("PYTHONWARNINGS", "ignore")}
        for some in (os.environ, variables)
    )
    return here == there


def run(
    args: list[str],
    variables: Mapping[str, str],
    cwd: Path,
    stdin: str | None,
    timeout: float,
    terminal: Terminal | None = None,
) -> subprocess.CompletedProcess[str]:
    """Like subprocess.run of ``python -m opdb`` with text; raises TimeoutExpired at the time limit, in seconds.

    ``terminal``: both outputs go there, and none is returned.
    """
    command = [sys.executable, "-m", "opdb", *args]
    with tempfile.TemporaryDirectory() as folder:
        given, out, err = (Path(folder, name) for name in ("in", "out", "err"))
        given.write_text(stdin or "")
        for stream in (out, err) if terminal else ():
            stream.symlink_to(terminal.path)
        server = _server("--help" not in args and any("executorch" in a or a.endswith(".pte") for a in args))
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps([args, dict(variables), str(cwd), folder, timeout]) + "\n")
        server.stdin.flush()
        code: int | None = json.loads(server.stdout.readline())
        if code is None:
            raise subprocess.TimeoutExpired(command, timeout)
        shown = ("", "") if terminal else (out.read_text(), err.read_text())
        return subprocess.CompletedProcess(command, code, *shown)


class Terminal:
    """A pseudo-terminal of so many columns; a context manager, after which ``text`` has what was written to it."""

    def __init__(self, columns: int) -> None:
        self.ours, self.theirs = os.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.path = os.ttyname(self.theirs)
        self.text = ""
        self._parts: list[bytes] = []
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Terminal:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.theirs)
        self._reader.join()
        os.close(self.ours)
        self.text = b"".join(self._parts).decode().replace("\r\n", "\n")

    def _read(self) -> None:
        while True:
            try:
                self._parts.append(os.read(self.ours, 65536))
            except OSError:  # nobody has it open any more
                return


def _server(executorch: bool) -> subprocess.Popen[str]:
    if executorch not in _servers:
        names = EXECUTORCH if executorch else IMPORTED
        paths = [str(Path(__file__).parent), *sys.path]
        code = f"import sys; sys.path[:] = {paths!r}; import forked_command; forked_command.serve({names!r})"
        made = subprocess.Popen(
            [sys.executable, "-c", code], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        atexit.register(made.kill)
        _servers[executorch] = made
    return _servers[executorch]


def serve(names: tuple[str, ...]) -> None:
    """Answers each command with a line of JSON: its exit code, or null if it was stopped."""
    with os.fdopen(os.dup(1), "w", buffering=1) as answers:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for output of the imports
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in names:
                importlib.import_module(name)
        importlib.import_module("spare_time").spare_time()
        wait = importlib.import_module("forked").wait
        ours = Path(__file__).parent
        sys.path[:] = [p for p in sys.path if Path(p) != ours]
        for line in sys.stdin:
            args, variables, cwd, folder, timeout = json.loads(line)
            child = os.fork()
            if child == 0:
                _become(args, variables, cwd, Path(folder))
            print(json.dumps(wait(child, timeout)), file=answers)


def _become(args: list[str], variables: dict[str, str], cwd: str, folder: Path) -> None:
    """Becomes the child, as if started this way.  Never returns."""
    code = 1
    try:
        os.setsid()
        os.chdir(cwd)
        made = os.O_WRONLY | os.O_CREAT | os.O_NOCTTY
        for opened, stream in (
            (os.open(folder / "in", os.O_RDONLY), 0),
            (os.open(folder / "out", made), 1),
            (os.open(folder / "err", made), 2),
        ):
            os.dup2(opened, stream)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115  the server has read ahead in its own
        os.environ.clear()
        os.environ.update(variables)
        if variables.get("PYTHONWARNINGS") == "ignore":
            warnings.simplefilter("ignore")
        sys.path.insert(0, cwd)  # as -m does
        sys.argv[:] = [
            str(Path(importlib.import_module("opdb").__file__ or "").with_name("__main__.py")),
            *args,
        ]
        importlib.import_module("opdb.cli").main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
