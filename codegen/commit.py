"""Texts -> files, all or nothing as far as a file system allows.

One process at a time (a lock that ends with its process).  Every new text is written to a temporary file
beside its place and synced before the first file is replaced, so a full disk changes nothing.  A journal
of the new checksums makes the next run recognize what an interrupted one has left.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opdb.codegen.artifact import PATH
from opdb.core.errors import OpdbError

LOCK = "generated/.lock"
JOURNAL = "generated/.pending.json"
CURES = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "the disk quota is used up; free some space",
    errno.EACCES: "no permission; make the folder and its files writable",
    errno.EPERM: "no permission; make the folder and its files writable",
    errno.EROFS: "the file system is read-only; work on a writable copy",
}


@dataclass(frozen=True)
class Pending:
    """What interrupted runs may have written: checksums of texts, and paths."""

    checksums: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()


@contextlib.contextmanager
def lock(root: Path) -> Iterator[None]:
    """Holds the lock of ``root``.  Raises OpdbError if another process that lives holds it."""
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


def recover(root: Path) -> Pending:
    """Removes the temporary files that interrupted runs left; returns what else they may have left."""
    pending = Pending()
    try:
        journal = json.loads((root / JOURNAL).read_text(encoding="utf-8"))
        pending = Pending(frozenset(journal["sha256"]), frozenset(filter(PATH.fullmatch, journal["paths"])))
    except FileNotFoundError:
        pass
    except (ValueError, KeyError, TypeError):
        raise OpdbError(f"{JOURNAL} is not ours; delete it and run opdb generate") from None
    with writing(JOURNAL):
        for path in [*pending.paths, JOURNAL]:
            _temporary(root / path).unlink(missing_ok=True)
    return pending


def prepare(root: Path, texts: Mapping[str, str], checksums: Iterable[str], pending: Pending) -> None:
    """Writes the journal and a temporary file for each path of ``texts``.  On an error nothing is left.

    ``checksums``: of the new texts; ``pending``: what ``recover`` returned, still to be remembered.
    """
    journal = {
        "sha256": sorted({*checksums, *pending.checksums}),
        "paths": sorted({*texts, *pending.paths}),
    }
    done: list[Path] = []
    made: list[Path] = []
    path = JOURNAL
    try:
        _write(root / JOURNAL, json.dumps(journal) + "\n", done)
        _sync(done)
        os.replace(done.pop(), root / JOURNAL)
        for path, text in texts.items():
            made += _make_folders((root / path).parent)
            _write(root / path, text, done)
        _sync(done)
    except OSError as error:
        for leftover in done if pending.paths else [*done, root / JOURNAL]:
            with contextlib.suppress(OSError):
                leftover.unlink(missing_ok=True)
        for folder in reversed(made):
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise OpdbError(f"{message(path, error)}; nothing was changed") from error


def install(root: Path, paths: Sequence[str], removed: Sequence[str]) -> None:
    """Puts prepared files into place, removes others and the folders that this empties."""
    folders = {(root / path).parent for path in paths}
    path = JOURNAL
    try:
        for path in paths:
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
        raise OpdbError(f"{message(path, error)}; then run opdb generate again") from error


def finish(root: Path) -> None:
    """Forgets the journal: everything is in place and recorded."""
    with writing(JOURNAL):
        (root / JOURNAL).unlink(missing_ok=True)


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Turns a failure of the file system into one clear error about ``path``."""
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
    """Makes ``folder``; returns those that were missing, outermost first."""
    missing = [f for f in (folder, *folder.parents) if not f.exists()][::-1]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())
