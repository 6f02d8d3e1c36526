"""``opdb add-op``: from a name to a proven op.

Draft the spec from the bundled facts and ATen's schema, check it, write it, regenerate, compile, run the op's
conformance.  A spec that cannot be read, or a step that fails before the spec is good, leaves nothing behind.
"""

from __future__ import annotations

import difflib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opdb.errors import OpdbError
from opdb.files import write_atomically
from opdb.model import OpDef
from opdb.store import read_catalog

BUILD_SECONDS = 600


@dataclass(frozen=True)
class Draft:
    """A spec that has not been written: its text and where it will stand.  ``kept`` is its file in specs/drafts."""

    op: str
    path: Path
    text: str
    kept: Path | None = None


def draft(
    op: str,
    specs: Path,
    torch_targets: Sequence[str] = (),
    like: str | None = None,
    package: str | None = None,
) -> Draft:
    """The draft of ``op``: the one kept in specs/drafts, which may be the next version of a spec, else a new one.

    Targets, a similar op or a package ask for a new one.  Raises OpdbError: no facts about the op, an unknown
    ATen target, the spec exists.
    """
    from opdb.importers.draft import draft as write

    path = specs / "ops" / f"{op}.yaml"
    kept = specs / "drafts" / path.name
    if kept.is_file() and not torch_targets and like is None and package is None:
        return Draft(op, path, kept.read_text(encoding="utf-8"), kept)
    if path.exists():
        raise OpdbError(
            f"{path}: the spec is there already; edit it, or delete it to have a new draft written"
        )
    text = write(op, list(torch_targets) or None, _like(like, specs))
    if package is not None:
        text = text.replace(f"op: {op}\n", f"op: {op}\npackage: {package}\n", 1)
    return Draft(op, path, text)


def _like(name: str | None, specs: Path) -> OpDef | None:
    if name is None:
        return None
    ops = read_catalog(specs).ops
    if name not in ops:
        close = difflib.get_close_matches(name, ops, 1)
        raise OpdbError(
            f"--like {name}: no such op"
            + (f"; did you mean '{close[0]}'?" if close else f"; known: {', '.join(ops)}")
        )
    return ops[name]


def changes(new: Draft) -> str:
    """What the draft changes in the spec that is there, as a unified diff; "" where there is none."""
    if not new.path.exists():
        return ""
    before = new.path.read_text(encoding="utf-8").splitlines(keepends=True)
    name = f"specs/ops/{new.path.name}"
    return "".join(difflib.unified_diff(before, new.text.splitlines(keepends=True), name, name))


def write(new: Draft, specs: Path) -> None:
    """Writes the draft into the specs.  Raises SpecError if they cannot be read with it; then nothing has changed."""
    before = new.path.read_bytes() if new.path.exists() else None
    write_atomically(new.path, new.text)
    try:
        read_catalog(specs)
    except BaseException:
        if before is None:
            new.path.unlink(missing_ok=True)
        else:
            write_atomically(new.path, before)
        raise
    if new.kept is not None:
        new.kept.unlink(missing_ok=True)


def build(root: Path) -> None:
    """Compiles the generated C in the checkout.  Raises OpdbError with the compiler's first complaint."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    try:
        done = subprocess.run(
            command, cwd=root, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OpdbError(f"the C code was not built: {error}") from None
    if done.returncode != 0:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if "error" in line.lower()] or [
            "no message"
        ]
        raise OpdbError(f"the C code was not built: {lines[0].strip()}")


def prove(op: str, root: Path, arguments: Sequence[str] = ()) -> int:
    """Runs the op's conformance in a new process, which loads the code just built; its exit status."""
    command = [sys.executable, "-m", "opdb", "conformance", "run", "--op", op, *arguments]
    return subprocess.run(command, cwd=root, check=False).returncode
