"""The folder of drafts (specs/drafts): a person adopts them with ``opdb add-op``; they are not in the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from opdb.core.errors import OpdbError
from opdb.core.files import write_atomically


def write_drafts(folder: Path, texts: Mapping[str, str], force: bool = False) -> list[Path]:
    """Writes a file per op and returns the paths.  All or nothing: raises OpdbError if a draft already exists."""
    paths = {name: folder / f"{name}.yaml" for name in texts}
    there = [path for path in paths.values() if path.exists()]
    if there and not force:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise OpdbError(
            f"{there[0]}: is there already{more}; take it up with 'opdb add-op', delete it, or overwrite with --force"
        )
    made: list[tuple[Path, bytes | None]] = []
    try:
        for name, path in paths.items():
            before = path.read_bytes() if path.exists() else None
            write_atomically(path, texts[name])
            made.append((path, before))
    except BaseException:
        for path, before in made:
            if before is None:
                path.unlink(missing_ok=True)
            else:
                write_atomically(path, before)
        raise
    return list(paths.values())
