"""The paths of the files under specs/, without reading them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

#: The parts of specs/ that define the catalog: folders with one model per file, and files with their own format.
KINDS = ("backends", "bases", "errata", "ops", "torch")
INSIDE = {"errata": "*/*.yaml"}  # file patterns inside a kind's folder, if not *.yaml
SIDE_FILES = ("retired", "socs")
#: The parts of opdb's specs that a folder of custom ops uses if it lacks them, and the C folder that identifies it.
LENT = ("backends", "bases", "socs.yaml")
KERNELS = "kernels"


def spec_files(folder: Path) -> dict[str, Path]:
    """Maps the paths below the folder to the files that define the catalog, ordered by name.

    A folder with kernels/ has custom ops: if it lacks backends/, bases/, or socs.yaml, opdb's are used.
    """
    found = _own(folder)
    if is_own(folder):
        bundled = _own(Path(str(files("opdb.specs"))))
        lent = [name for name in LENT if not (folder / name).exists()]
        found |= {n: p for n, p in bundled.items() if n.partition("/")[0] in lent}
    return dict(sorted(found.items()))


def is_own(folder: Path) -> bool:
    """True if a folder has custom ops: it has kernels/, and is in no database."""
    return (folder / KERNELS).is_dir()


def kernel_files(folder: Path) -> list[Path]:
    """The C files of a folder of custom ops; none for opdb's specs, whose kernels belong to the runtime."""
    return sorted((folder / KERNELS).glob("*.c"))


def _own(folder: Path) -> dict[str, Path]:
    side = [folder / f"{name}.yaml" for name in SIDE_FILES]
    own = [p for kind in KINDS for p in (folder / kind).glob(INSIDE.get(kind, "*.yaml"))]
    return {p.relative_to(folder).as_posix(): p for p in own + [p for p in side if p.is_file()]}


def spec_name(kind: str, name: str) -> str:
    """The path of a definition below specs/, e.g. ops/Relu.yaml, errata/htp/HTP-0042.yaml."""
    folder = f"{name.rpartition('-')[0].lower()}/" if kind == "errata" else ""
    return f"{kind}/{folder}{name}.yaml"
