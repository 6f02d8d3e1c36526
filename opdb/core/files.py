"""Finds opdb's data folders, and writes so that a reader never sees half of a file or folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from opdb.core.errors import OpdbError


def data_folder() -> Path:
    """The user's data folder.  platformdirs is slow to import, so XDG's short rule for Linux is here."""
    if os.name == "posix" and os.uname().sysname == "Linux":
        base = os.environ.get("XDG_DATA_HOME", "").strip()
        return (Path(base) if base else Path("~/.local/share").expanduser()) / "opdb"
    import platformdirs

    return platformdirs.user_data_path("opdb", appauthor=False)


def cache_folder() -> Path:
    """The user's folder for files that can be made again, by the same rule."""
    if os.name == "posix" and os.uname().sysname == "Linux":
        base = os.environ.get("XDG_CACHE_HOME", "").strip()
        return (Path(base) if base else Path("~/.cache").expanduser()) / "opdb"
    import platformdirs

    return platformdirs.user_cache_path("opdb", appauthor=False)


def check_writable(*paths: Path | None, option: str = "-o") -> None:
    """Raises OpdbError if a file cannot be written at one of ``paths``, before hours of work for it; None is skipped.

    Missing folders are made when the file is written, so that the nearest folder above counts.
    """
    for path in paths:
        if path is None or (_is_special(path) and os.access(path, os.W_OK)):
            continue
        if path.is_dir():
            raise OpdbError(f"{option} {path}: this is a folder; name a file")
        above = next(p for p in path.absolute().parents if p.exists())
        try:
            with tempfile.TemporaryFile(dir=above):
                pass
        except OSError as error:
            why = "is a file" if above.is_file() else f"cannot be written to: {error.strerror}"
            raise OpdbError(f"{option} {path}: the folder {above} {why}; give another path") from None


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes to a temporary name beside ``path``, flushes to disk, renames.  Raises OpdbError; then nothing changed."""
    data = content.encode() if isinstance(content, str) else content
    with written_atomically(path) as name, open(name, "wb") as file:
        file.write(data)


@contextlib.contextmanager
def written_atomically(path: Path) -> Iterator[str]:
    """A temporary name beside ``path`` to write to; at the end flushed to disk and renamed, removed if anything fails.

    A device or a pipe, e.g. /dev/null, stays what it is: at the end the content is written to it.  Raises OpdbError if it cannot
    be written; then nothing changed.
    """
    if _is_special(path):
        with _copied(path) as name:
            yield name
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OpdbError(f"{path}: cannot write: {error.strerror}") from None
    try:
        yield name
        os.fsync(handle)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError as error:
        raise OpdbError(f"{path}: cannot write: {error.strerror}") from None
    finally:
        os.close(handle)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _is_special(path: Path) -> bool:
    """True for what is neither a file nor a folder: a device, a pipe, a socket."""
    return path.exists() and not path.is_file() and not path.is_dir()


@contextlib.contextmanager
def _copied(path: Path) -> Iterator[str]:
    """A temporary file whose content is written to ``path`` at the end."""
    with tempfile.NamedTemporaryFile(prefix="opdb-") as file:
        yield file.name
        try:
            with open(file.name, "rb") as made, open(path, "wb") as special:
                shutil.copyfileobj(made, special)
        except OSError as error:
            raise OpdbError(f"{path}: cannot write: {error.strerror}") from None


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder under a temporary name beside ``path``, renamed to it at the end; removed if anything fails.

    Raises OpdbError if it cannot be made, or if ``path`` is not empty by then.
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
