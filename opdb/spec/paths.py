"""Where the files under specs/ are; nothing of what they say, so that asking costs nothing."""

from __future__ import annotations

from pathlib import Path

#: What under specs/ defines the catalogue: folders of one model per file, and files of their own form.
KINDS = ("bases", "ops", "torch")
SIDE_FILES = ("backends", "retired", "socs")


def spec_paths(folder: Path) -> list[Path]:
    """The files that define the catalogue, in order of name."""
    side = [folder / f"{name}.yaml" for name in SIDE_FILES]
    return sorted(
        [p for kind in KINDS for p in (folder / kind).glob("*.yaml")] + [p for p in side if p.is_file()]
    )
