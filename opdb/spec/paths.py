"""Where the files under specs/ are; nothing of what they say, so that asking costs nothing."""

from __future__ import annotations

from pathlib import Path

#: What under specs/ defines the catalogue: folders of one model per file, and files of their own form.
KINDS = ("backends", "bases", "errata", "ops", "torch")
INSIDE = {"errata": "*/*.yaml"}  # where the files of a kind are in its folder, if not all side by side
SIDE_FILES = ("retired", "socs")


def spec_paths(folder: Path) -> list[Path]:
    """The files that define the catalogue, in order of name."""
    side = [folder / f"{name}.yaml" for name in SIDE_FILES]
    return sorted(
        [p for kind in KINDS for p in (folder / kind).glob(INSIDE.get(kind, "*.yaml"))]
        + [p for p in side if p.is_file()]
    )


def spec_name(kind: str, name: str) -> str:
    """The path of a definition below specs/; e.g. ops/Relu.yaml, errata/htp/HTP-0042.yaml."""
    folder = f"{name.rpartition('-')[0].lower()}/" if kind == "errata" else ""
    return f"{kind}/{folder}{name}.yaml"
