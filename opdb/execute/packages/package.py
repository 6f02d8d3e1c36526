"""Op packages on disk: a folder of sources with a Makefile, and the library that a C compiler makes from it.

The same specs, kernels and compiler give the same bytes in any folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opdb.catalog.targets.target import soc_name
from opdb.codegen import c_sources, package_folder, packages
from opdb.core.c_compiler import compiled, compiler_command
from opdb.core.errors import OpdbError
from opdb.core.source_folder import write_folder
from opdb.generated.constants.backends import BACKENDS, PACKAGED
from opdb.generated.constants.socs import SOCS
from opdb.spec.catalog import Catalog

MANIFEST = "opdb-package.json"
MADE_FOR = " and ".join(b.name for b in BACKENDS.values() if b.op_packages == "opdb")


@dataclass(frozen=True)
class PackageFolder:
    """An op package on disk.  ``library`` may not exist yet: ``build`` makes it."""

    package: str
    ops: tuple[str, ...]
    folder: Path
    files: tuple[str, ...]  # below the folder
    backend: str = PACKAGED

    @property
    def library(self) -> Path:
        """The absolute path of the library, e.g. libs/cpu/libQnnOpdbCustom.so below the folder."""
        return (self.folder / package_folder.library(self.package, self.backend)).resolve()

    @property
    def provider(self) -> str:
        """The name of the function that QNN gets with the library; e.g. OpdbCustomInterfaceProvider."""
        return packages.provider(self.package)


def check_backend(backend: str) -> None:
    """Raises OpdbError for a backend whose op packages opdb cannot make."""
    record = BACKENDS.get(backend)
    if record is not None and record.op_packages == "opdb":
        return
    if record is not None and record.op_packages is not None:
        raise OpdbError(
            f"an op package for {backend} is {record.op_packages_made}; opdb can neither build nor run that here and "
            f"makes packages for --backend {MADE_FOR} only"
        )
    raise OpdbError(f"{backend!r} has no op packages that opdb makes; {MADE_FOR} have")


def write(
    catalog: Catalog,
    ops: Sequence[str],
    folder: Path | None = None,
    *,
    package: str | None = None,
    kernels: Sequence[Path] = (),
    backend: str = PACKAGED,
    soc: str | None = None,
    force: bool = False,
) -> PackageFolder:
    """Writes the sources of a package with ``ops`` for ``backend`` to ``folder``, by default the package's name.

    ``package`` and ``kernels`` as in opdb.codegen.package_folder; ``soc``: the chip for whose VTCM the tiles are made.
    If files were changed since opdb wrote them, or opdb did not write them, and ``force`` is not set, raises OpdbError and changes
    nothing.
    """
    check_backend(backend)
    vtcm_mb = None if soc is None else SOCS[soc_name(soc)].vtcm_mb
    name, texts = package_folder.folder(catalog, ops, package, kernels, backend, vtcm_mb)
    root, names = folder or Path(name), tuple(sorted(set(ops)))
    write_folder(root, texts, MANIFEST, {"package": name, "ops": names, "backend": backend}, force)
    return PackageFolder(name, names, root, tuple(texts), backend)


def build(made: PackageFolder) -> Path:
    """Compiles the library and returns its path.  The old one stays in use until the new one replaces it atomically.

    Raises OpdbError if there is no C compiler, or with the compiler's first complaint.
    """
    compiler = [*compiler_command(), *c_sources.CFLAGS, *package_folder.INCLUDES]
    target, what = made.library, f"the op package {made.package}"
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    linked = package_folder.stand_in(made.backend)
    link = linked.link if linked else ()
    command = [
        *compiler, *package_folder.sources(made.files), *package_folder.LDFLAGS, *link, "-o", str(fresh),
    ]  # fmt: skip
    try:
        if linked:
            (made.folder / linked.library).parent.mkdir(exist_ok=True)
            compiled(made.folder, what, [*compiler, linked.source, *linked.flags, "-o", linked.library])
        compiled(made.folder, what, command)
        os.replace(fresh, target)
    except OSError as error:
        raise OpdbError(f"{made.folder}: the op package {made.package} was not built: {error}") from None
    finally:
        fresh.unlink(missing_ok=True)
    return target
