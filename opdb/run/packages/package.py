"""Op packages on disk: a folder of sources with a Makefile, and the library that a C compiler makes of it.

The same specs, kernels and compiler give the same bytes, in whichever folder.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opdb.catalog.targets.target import soc_name
from opdb.codegen import c_sources, package_folder, packages
from opdb.core.errors import OpdbError
from opdb.core.source_folder import write_folder
from opdb.generated.constants.backends import BACKENDS, PACKAGED
from opdb.generated.constants.socs import SOCS
from opdb.plugins.cloud_ai.codegen import aic
from opdb.plugins.packages.codegen import ort
from opdb.spec.catalog import Catalog

MANIFEST = "opdb-package.json"
MADE_FOR = " and ".join(b.name for b in BACKENDS.values() if b.op_packages == "opdb")
BUILD_SECONDS = 300


@dataclass(frozen=True)
class PackageFolder:
    """An op package on disk.  ``library`` need not be there: ``build`` makes it."""

    package: str
    ops: tuple[str, ...]
    folder: Path
    files: tuple[str, ...]  # below the folder
    backend: str = PACKAGED

    @property
    def library(self) -> Path:
        """e.g. libs/cpu/libQnnOpdbCustom.so below the folder; absolute."""
        return (self.folder / package_folder.library(self.package, self.backend)).resolve()

    @property
    def provider(self) -> str:
        """The function that QNN is given with the library; e.g. OpdbCustomInterfaceProvider."""
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

    ``package`` and ``kernels`` as in opdb.codegen.package_folder; ``soc``: the chip whose VTCM tiles are made for.
    Files that somebody changed since opdb wrote
    them, or that opdb did not write, are left alone without ``force``: OpdbError, and nothing was changed.
    """
    check_backend(backend)
    vtcm_mb = None if soc is None else SOCS[soc_name(soc)].vtcm_mb
    name, texts = package_folder.folder(catalog, ops, package, kernels, backend, vtcm_mb)
    root, names = folder or Path(name), tuple(sorted(set(ops)))
    write_folder(root, texts, MANIFEST, {"package": name, "ops": names, "backend": backend}, force)
    return PackageFolder(name, names, root, tuple(texts), backend)


def write_ort(
    catalog: Catalog,
    ops: Sequence[str],
    name: str,
    folder: Path | None = None,
    *,
    domain: str,
    kernels: Sequence[Path] = (),
    force: bool = False,
) -> tuple[Path, tuple[str, ...]]:
    """Writes the sources of a custom-op library for ONNX Runtime to ``folder``, by default ``name``; returns it, and its files.

    Raises OpdbError as ``write``, and for a name or a domain that is none.
    """
    if not re.fullmatch(r"[A-Za-z]\w*", name):
        raise OpdbError(f"{name!r}: not a valid library name; use letters, digits, and _")
    if not re.fullmatch(r"[A-Za-z][\w.-]*", domain):
        raise OpdbError(
            f"{domain!r} is not a valid ONNX domain; use letters, digits, ., _, and -, e.g. com.opdb"
        )
    texts = ort.folder(catalog, ops, name, domain, kernels)
    root = folder or Path(name)
    write_folder(root, texts, MANIFEST, {"package": name, "ops": sorted(set(ops)), "domain": domain}, force)
    return root, tuple(texts)


def build_ort(root: Path, name: str) -> Path:
    """Compiles such a library and returns its path.  Raises OpdbError as ``build``."""
    make(root, f"the custom ops {name}")
    return (root / ort.library(name)).resolve()


@dataclass(frozen=True)
class AicFolder:
    """A package for Cloud AI on disk.  The libraries need not be there: ``build_aic`` makes them."""

    ops: tuple[str, ...]
    folder: Path
    files: tuple[str, ...]  # below the folder
    name: str = "opdb"

    @property
    def config(self) -> Path:
        """What the compiler is given with -register-custom-op; absolute."""
        return (self.folder / "custom_op_config.yaml").resolve()

    @property
    def libraries(self) -> tuple[Path, ...]:
        """The functions library of each op, then the kernels for the host; absolute."""
        names = (*map(aic.functions_library, self.ops), aic.interpreter_library(self.name))
        return tuple((self.folder / name).resolve() for name in names)


def write_aic(
    catalog: Catalog,
    ops: Sequence[str],
    choice: aic.Choice,
    folder: Path | None = None,
    *,
    kernels: Sequence[Path] = (),
    force: bool = False,
) -> AicFolder:
    """Writes the sources of a package for Cloud AI to ``folder``, by default the package's name.

    ``kernels`` as in opdb.codegen.package_folder.  Raises OpdbError as ``write``, for an op that does not fit, and for a
    choice that makes no sense.
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
        raise OpdbError(f"{choice.scratch} bytes of scratch: expected 1 to {2**31 - 1}")
    texts = aic.folder(catalog, ops, choice, kernels)
    root, names = folder or Path(choice.name), tuple(sorted(set(ops)))
    about = {"package": choice.name, "ops": names, "api": choice.api, "domain": choice.domain}
    write_folder(root, texts, MANIFEST, about, force)
    return AicFolder(names, root, tuple(texts), choice.name)


def build_aic(made: AicFolder, card: bool = False) -> tuple[Path, ...]:
    """Compiles the libraries and returns their paths; with ``card`` also the kernels for the card, for this machine.

    Raises OpdbError as ``build``.
    """
    make(made.folder, f"the Cloud AI package {made.name}", "all", *(["card"] if card else []))
    return made.libraries


def build(made: PackageFolder) -> Path:
    """Compiles the library and returns its path.  The old one is in use until the new one replaces it whole.

    Raises OpdbError: there is no C compiler, or with what it complains of first.
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


def compiled(folder: Path, what: str, command: Sequence[str], seconds: float = BUILD_SECONDS) -> None:
    """Runs a compiler in a folder, or make, for so long.  Raises OpdbError: none is there, or with the first complaint."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OpdbError(f"{folder}: {what} was not built: {error}") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "rror" in line] or [
            "no message"
        ]  # Python's, too
        raise OpdbError(f"{folder}: {what} was not built: {said[0].strip()}")


def make(folder: Path, what: str, *variables: str) -> None:
    """``make`` in a folder that has a Makefile, with this machine's compiler.  Raises OpdbError as ``compiled``."""
    compiler = " ".join(compiler_command())
    compiled(folder, what, ["make", "--silent", "-j2", f"CC={compiler}", *variables])


def compiler_command() -> list[str]:
    """The C compiler: CC, or the one that Python was built with.  Raises OpdbError when it is not installed."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if not command or shutil.which(command[0]) is None:
        raise OpdbError(
            f"no C compiler: {command[0] if command else 'CC'!r} is not on PATH; install one (Debian: apt-get "
            "install gcc libc6-dev) or name yours in CC"
        )
    return command
