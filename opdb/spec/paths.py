"""Where the files under specs/ are; nothing of what they say, so that asking costs nothing."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

#: What under specs/ defines the catalogue: folders of one model per file, and files of their own form.
KINDS = ("backends", "bases", "errata", "ops", "torch")
INSIDE = {"errata": "*/*.yaml"}  # where the files of a kind are in its folder, if not all side by side
SIDE_FILES = ("retired", "socs")
#: What a folder of ops of one's own takes from opdb's specs where it has none itself, and the folder of C that makes it one.
LENT = ("backends", "bases", "socs.yaml")
KERNELS = "kernels"


def spec_files(folder: Path) -> dict[str, Path]:
    """The files that define the catalogue, in order of name: by path below the folder.

    A folder with kernels/ is one of ops of one's own: its backends/, bases/ and socs.yaml may be missing and are
    opdb's then.
    """
    found = _own(folder)
    if is_own(folder):
        bundled = _own(Path(str(files("opdb.specs"))))
        lent = [name for name in LENT if not (folder / name).exists()]
        found |= {n: p for n, p in bundled.items() if n.partition("/")[0] in lent}
    return dict(sorted(found.items()))


def is_own(folder: Path) -> bool:
    """Whether a folder has ops of one's own: it has kernels/, and no database has it."""
    return (folder / KERNELS).is_dir()


def kernel_files(folder: Path) -> list[Path]:
    """The C files of a folder of ops of one's own; none for opdb's specs, whose kernels are of the runtime."""
    return sorted((folder / KERNELS).glob("*.c"))


def _own(folder: Path) -> dict[str, Path]:
    side = [folder / f"{name}.yaml" for name in SIDE_FILES]
    own = [p for kind in KINDS for p in (folder / kind).glob(INSIDE.get(kind, "*.yaml"))]
    return {p.relative_to(folder).as_posix(): p for p in own + [p for p in side if p.is_file()]}


def spec_name(kind: str, name: str) -> str:
    """The path of a definition below specs/; e.g. ops/Relu.yaml, errata/htp/HTP-0042.yaml."""
    folder = f"{name.rpartition('-')[0].lower()}/" if kind == "errata" else ""
    return f"{kind}/{folder}{name}.yaml"
