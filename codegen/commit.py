"""Writes texts to files, all or nothing as far as a file system allows.

One process at a time (a lock that ends with its process).  Every new text is written to a temporary file
beside its place and synced before the first file is replaced, so a full disk changes nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from opdb.core.errors import OpdbError

LOCK = "generated/.lock"
CURES = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "the disk quota is used up; free some space",
    errno.EACCES: "no permission; make the folder and its files writable",
    errno.EPERM: "no permission; make the folder and its files writable",
    errno.EROFS: "the file system is read-only; work on a writable copy",
}


@contextlib.contextmanager
def lock(root: Path) -> Iterator[None]:
    """Holds the lock of ``root``.  Raises OpdbError if another running process holds it."""
    path = root / LOCK
    with writing(LOCK):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _locked(path)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _locked(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise OpdbError(
                f"another opdb generate (process {holder}) is writing {path.parent}; wait until it ends"
            ) from None
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the holder removed this file between open and flock


def clean(root: Path, others: Iterable[str] = ()) -> None:
    """Removes the temporary files that an interrupted run left under generated/ and beside ``others``."""
    with writing("generated"):
        for path in others:
            _temporary(root / path).unlink(missing_ok=True)
        for folder, _, files in os.walk(root / "generated"):
            for name in files:
                if name.startswith(".") and name.endswith(".new"):
                    Path(folder, name).unlink(missing_ok=True)


def install(root: Path, texts: Mapping[str, str], removed: Sequence[str]) -> None:
    """Writes ``texts`` by path, and removes files and the folders that become empty.

    Raises OpdbError on failure; if the disk is full, nothing was changed.
    """
    _prepare(root, texts)
    folders = {(root / path).parent for path in texts}
    path = "generated"
    try:
        for path in texts:
            os.replace(_temporary(root / path), root / path)
        for path in removed:
            (root / path).unlink(missing_ok=True)
            folder = (root / path).parent
            while folder != root / "generated" and _is_empty(folder):
                folder.rmdir()
                folder = folder.parent
            folders.add(folder)
        _sync(sorted(f for f in folders if f.is_dir()))
    except OSError as error:
        clean(root, texts)
        raise OpdbError(f"{message(path, error)}; then run opdb generate again") from error


def _prepare(root: Path, texts: Mapping[str, str]) -> None:
    """Writes a temporary file for each path of ``texts``.  Cleans up on an error."""
    done: list[Path] = []
    made: list[Path] = []
    path = "generated"
    try:
        for path, text in texts.items():
            made += _make_folders((root / path).parent)
            _write(root / path, text, done)
        _sync(done)
    except OSError as error:
        for leftover in done:
            with contextlib.suppress(OSError):
                leftover.unlink(missing_ok=True)
        for folder in reversed(made):
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise OpdbError(f"{message(path, error)}; nothing was changed") from error


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Turns a file system failure into one clear error about ``path``."""
    try:
        yield
    except OSError as error:
        raise OpdbError(message(path, error)) from error


def message(path: str, error: OSError) -> str:
    return f"cannot write {path}: {CURES.get(error.errno or 0) or (error.strerror or str(error)).lower()}"


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def _write(path: Path, text: str, done: list[Path]) -> None:
    temporary = _temporary(path)
    done.append(temporary)
    with open(temporary, "w", encoding="utf-8", newline="\n") as file:
        if path.exists():
            os.fchmod(file.fileno(), path.stat().st_mode & 0o777)
        file.write(text)


def _sync(files: Sequence[Path]) -> None:
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _make_folders(folder: Path) -> list[Path]:
    """Creates ``folder``; returns the folders that were missing, outermost first."""
    missing = [f for f in (folder, *folder.parents) if not f.exists()][::-1]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())
