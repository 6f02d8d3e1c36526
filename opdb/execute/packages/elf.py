"""Describes the file of a library of custom ops: reads only its ELF tables, whatever machine it is for."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, SymbolTableSection

from opdb.core.errors import OpdbError

#: ELF machines (e_machine) that Qualcomm's SDKs build for.
MACHINES = {"EM_X86_64": "x86-64", "EM_AARCH64": "AArch64", "EM_ARM": "ARM", "EM_QDSP6": "Hexagon"}
#: Suffix of the function that returns a package's interface, in QNN's sample packages and ExecuTorch's XML.
PROVIDER = "InterfaceProvider"
QNN_HTP_C, QNN_HTP_CPP, QNN_CPU = (
    "QNN package for HTP (QHPI)",
    "QNN package for HTP (C++)",
    "QNN package for CPU",
)
#: Functions that a library exports -> the kind of library.
EXPORTS = {
    "RegisterCustomOps": "custom ops of ONNX Runtime",
    "customOpSelectImpl": "functions library of Cloud AI",
    "SnpeUdo_getRegInfo": "registration library of SNPE (UDO)",
    "SnpeUdo_getImpInfo": "implementation library of SNPE (UDO)",
}


@dataclass(frozen=True)
class PackageFile:
    """``kind``: e.g. QNN package for HTP (QHPI).  ``machine``: e.g. Hexagon v73.  ``exports``: its functions, sorted."""

    kind: str
    bits: int
    machine: str
    build_id: str  # "" if there is none
    providers: tuple[str, ...]  # for a QNN package
    needs: tuple[str, ...]  # libraries
    exports: tuple[str, ...]

    @property
    def loadable(self) -> bool:
        """True if this machine can load it."""
        return self.machine == {"x86_64": "x86-64", "aarch64": "AArch64"}.get(platform.machine())


def read(path: Path) -> PackageFile:
    """Reads the file.  Raises OpdbError if it is not a shared library in ELF, or is truncated."""
    if not path.is_file():
        raise OpdbError(f"{path}: there is no such file; `opdb package qnn OP...` builds one")
    with path.open("rb") as file:
        try:
            return _described(ELFFile(file), path)
        except ELFError as error:
            raise OpdbError(f"{path}: not a shared library in ELF, or cut off ({error})") from None
        except (ValueError, KeyError, IndexError, AttributeError, UnicodeDecodeError) as error:
            raise OpdbError(f"{path}: its ELF tables cannot be read ({error}); build it again") from None


def _described(elf: Any, path: Path) -> PackageFile:
    kind = elf.header.e_type
    if kind != "ET_DYN":
        cure = "link it with -shared" if kind == "ET_REL" else "an op package is a shared library"
        raise OpdbError(f"{path}: an ELF file of the type {kind}, no shared library; {cure}")
    symbols = [s for t in elf.iter_sections() if isinstance(t, SymbolTableSection) for s in t.iter_symbols()]
    named = [s for s in symbols if s.name and s.entry.st_info.bind != "STB_LOCAL"]
    exports = sorted({s.name for s in named if s.entry.st_shndx != "SHN_UNDEF" and _is_function(s)})
    wanted = {s.name for s in named if s.entry.st_shndx == "SHN_UNDEF"}
    providers = tuple(n for n in exports if n.endswith(PROVIDER))
    dynamic: list[Any] = [s for s in elf.iter_sections() if isinstance(s, DynamicSection)]
    needs = [tag.needed for s in dynamic for tag in s.iter_tags("DT_NEEDED")]
    return PackageFile(
        _kind(exports, providers, wanted), elf.elfclass, _machine(elf), _build_id(elf), providers, tuple(needs),
        tuple(exports),
    )  # fmt: skip


def _is_function(symbol: Any) -> bool:
    return bool(symbol.entry.st_info.type == "STT_FUNC" and symbol.entry.st_other.visibility == "STV_DEFAULT")


def _kind(exports: Sequence[str], providers: Sequence[str], wanted: set[str]) -> str:
    if providers:
        if any(name.startswith("qhpi_") for name in wanted):
            return QNN_HTP_C
        return QNN_HTP_CPP if any("hnnx" in name for name in wanted) else QNN_CPU
    found = [kind for name, kind in EXPORTS.items() if name in exports]
    return found[0] if found else "no library of custom ops that opdb knows"


def _machine(elf: Any) -> str:
    kind = elf.header.e_machine
    name = MACHINES.get(kind, str(kind).removeprefix("EM_"))
    # EF_HEXAGON_MACH: the version in hexadecimal, as in LLVM's BinaryFormat/ELF.h.
    return f"{name} v{elf.header.e_flags & 0xFF:x}" if name == "Hexagon" else name


def _build_id(elf: Any) -> str:
    for section in elf.iter_sections():
        if isinstance(section, NoteSection):
            for note in section.iter_notes():
                if note["n_type"] == "NT_GNU_BUILD_ID":
                    return str(note["n_desc"])
    return ""
