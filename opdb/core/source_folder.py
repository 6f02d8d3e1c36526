"""Writes folders of sources outside of opdb's own tree, with a manifest of the written files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opdb.core.errors import OpdbError
from opdb.core.files import write_atomically


def write_folder(
    root: Path, texts: Mapping[str, str], manifest: str, about: Mapping[str, Any], force: bool = False
) -> None:
    """Writes ``texts`` by path below ``root``, and removes files that opdb wrote there before and no longer writes.

    ``manifest``: the file that lists them, with ``about``.  Files that somebody changed since, or that opdb did not
    write, are left alone without ``force``: OpdbError, and nothing was changed.
    """
    old = _written(root / manifest)
    if not force:
        _refuse_foreign(root, texts, old)
    for path in old.keys() - texts.keys():
        (root / path).unlink(missing_ok=True)
    for path, text in texts.items():
        write_atomically(root / path, text)
    record = {**about, "files": {p: _sha256(t.encode()) for p, t in texts.items()}}
    write_atomically(root / manifest, json.dumps(record, indent=1) + "\n")


def _written(manifest: Path) -> dict[str, str]:
    """The files that opdb wrote into a folder: SHA-256 by path; empty for a folder that opdb did not write."""
    try:
        record = json.loads(manifest.read_text(encoding="utf-8"))
        return {str(path): str(digest) for path, digest in record["files"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        raise OpdbError(f"{manifest}: cannot be read; choose another folder") from None


def _refuse_foreign(root: Path, texts: Mapping[str, str], old: dict[str, str]) -> None:
    for path in sorted(texts.keys() | old.keys()):
        file = root / path
        if not file.exists():
            continue
        now = _sha256(file.read_bytes())
        if now != old.get(path) and (path not in texts or now != _sha256(texts[path].encode())):
            raise OpdbError(
                f"{file}: changed since opdb wrote it, or not opdb's; choose another folder, or overwrite "
                "with --force"
            )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
