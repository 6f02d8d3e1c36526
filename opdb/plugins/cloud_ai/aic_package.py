"""Custom-op packages for Cloud AI on disk: a folder of sources with a Makefile, and the libraries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opdb.core.c_compiler import make
from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.core.source_folder import write_folder
from opdb.execute.packages.package import MANIFEST
from opdb.plugins.cloud_ai.codegen import aic
from opdb.spec.catalog import Catalog


@dataclass(frozen=True)
class AicFolder:
    """A package for Cloud AI on disk.  The libraries may be missing: ``build`` makes them."""

    ops: tuple[str, ...]
    folder: Path
    files: tuple[str, ...]  # below the folder
    name: str = "opdb"

    @property
    def config(self) -> Path:
        """The absolute path for the compiler's option -register-custom-op."""
        return (self.folder / "custom_op_config.yaml").resolve()

    @property
    def libraries(self) -> tuple[Path, ...]:
        """The functions library of each op, then the library of the kernels for the host; absolute paths."""
        names = (*map(aic.functions_library, self.ops), aic.interpreter_library(self.name))
        return tuple((self.folder / name).resolve() for name in names)


def write(
    catalog: Catalog,
    ops: Sequence[str],
    choice: aic.Choice,
    folder: Path | None = None,
    *,
    kernels: Sequence[Path] = (),
    force: bool = False,
) -> AicFolder:
    """Writes the sources of a package for Cloud AI to ``folder``, by default named after the package.

    ``kernels`` as in opdb.codegen.package_folder.  Raises OpdbError as ``write_folder`` does, for an op that does not fit,
    and for an invalid choice.
    """
    if not re.fullmatch(r"[A-Za-z]\w*", choice.name):
        raise OpdbError(f"{choice.name!r}: not a valid package name; use letters, digits, and _")
    if not re.fullmatch(r"[A-Za-z][\w.-]*", choice.domain):
        raise OpdbError(
            f"{choice.domain!r} is not a valid ONNX domain; use letters, digits, ., _, and -, e.g. com.opdb"
        )
    if choice.version is not None and not re.fullmatch(r"\d+\.\d+\.\d+", choice.version):
        raise OpdbError(f"{choice.version!r} is not a version; expected Major.Minor.Patch, e.g. 1.0.0")
    if not 0 < choice.scratch < 2**31:
        raise OpdbError(f"{counted(choice.scratch, 'byte')} of scratch: expected 1 to {2**31 - 1}")
    texts = aic.folder(catalog, ops, choice, kernels)
    root, names = folder or Path(choice.name), tuple(sorted(set(ops)))
    about = {"package": choice.name, "ops": names, "api": choice.api, "domain": choice.domain}
    write_folder(root, texts, MANIFEST, about, force)
    return AicFolder(names, root, tuple(texts), choice.name)


def build(made: AicFolder, card: bool = False) -> tuple[Path, ...]:
    """Compiles the libraries and returns their paths; with ``card`` also builds the card's kernels for this machine.

    Raises OpdbError as ``make`` does.
    """
    make(made.folder, f"the Cloud AI package {made.name}", "all", *(["card"] if card else []))
    return made.libraries
