"""Where opdb keeps its data, and writing so that a reader never sees half of a file or folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from opdb.errors import OpdbError


def data_folder() -> Path:
    """The user's data folder.  platformdirs is slow to import: on Linux the short rule of XDG is here."""
    if os.name == "posix" and os.uname().sysname == "Linux":
        base = os.environ.get("XDG_DATA_HOME", "").strip()
        return (Path(base) if base else Path("~/.local/share").expanduser()) / "opdb"
    import platformdirs

    return platformdirs.user_data_path("opdb", appauthor=False)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes to a temporary name beside ``path``, flushes to disk, renames.  Raises OpdbError; then nothing changed."""
    data = content.encode() if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OpdbError(f"{path}: cannot write: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise OpdbError(f"{path}: cannot write: {error.strerror}") from None


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder under a temporary name beside ``path``, renamed to it at the end; removed if anything fails.

    Raises OpdbError where it cannot be made, or ``path`` holds something by then.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise OpdbError(f"{path}: cannot write: {error.strerror}") from None
    try:
        yield made
        made.chmod(0o755)
        os.rename(made, path)
    except OSError as error:
        raise OpdbError(f"{path}: cannot write: {error.strerror}") from None
    finally:
        shutil.rmtree(made, ignore_errors=True)
