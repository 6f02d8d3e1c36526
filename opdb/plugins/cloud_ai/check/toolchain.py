"""Compiles sources with the C and C++ compilers of this machine; reads diagnostics, symbols, and stack use."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from opdb.core.c_compiler import compiler_command
from opdb.core.errors import OpdbError

SECONDS = 120
#: Arguments of Hexagon's compiler that mean the same here: macros, include folders, the language.
TAKEN = re.compile(r"-(D|U|I|std=|include|O[0-3s]$)")
_DIAGNOSTIC = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):\d+: (?P<kind>fatal error|error|warning): (?P<text>.*?)"
                         r"(?: \[(?P<flag>-W[^\]]+)\])?$", re.MULTILINE)  # fmt: skip
SANITIZERS = {
    "plain": ("-Wl,-z,defs",),
    "threads": ("-fsanitize=thread",),
    "addresses": ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
}
PROGRAM_SANITIZERS = {**SANITIZERS, "plain": ()}


@dataclass(frozen=True)
class Diagnostic:
    file: str
    line: int
    is_error: bool
    text: str
    flag: str  # e.g. -Wvla; "" for errors


@dataclass(frozen=True)
class Frame:
    """The stack that a function needs, in bytes, according to the compiler for this machine."""

    function: str
    line: int
    bytes: int
    bounded: bool  # False: variable-length arrays are not counted


@dataclass(frozen=True)
class Object:
    """``defined``, ``undefined``: global symbols.  ``constructors``: something runs at load time."""

    path: Path
    defined: tuple[str, ...]
    undefined: tuple[str, ...]
    constructors: bool
    frames: tuple[Frame, ...]


class Toolchain:
    """Compiles in a temporary ``folder``, with the headers of one interface first on the include path."""

    def __init__(self, folder: Path, headers: Sequence[Path]) -> None:
        self.folder, self._headers, self._count = folder, tuple(headers), 0

    def object(self, source: Path, args: Sequence[str] = ()) -> tuple[Object | None, list[Diagnostic]]:
        """Compiles with -O1, the default of AIC's compiler.  None if the source does not compile."""
        out = self._fresh("o")
        flags = (
            "-c",
            "-O1",
            "-fPIC",
            "-fstack-usage",
            "-Wvla",
            "-Wreturn-type",
            "-Wformat",
            "-fno-exceptions",
        )
        said = self._run([*self._command(source), *flags, *taken(args, source), *self._include(source), str(source),
                          "-o", str(out)])  # fmt: skip
        return (_object(out) if out.is_file() else None), said

    def linked(self, made: Object) -> tuple[Path | None, list[Diagnostic]]:
        """Links an object into a shared library."""
        out = self._fresh("so")
        said = self._run(
            [*cpp_command(), "-shared", *SANITIZERS["plain"], str(made.path), "-lm", "-o", str(out)]
        )
        return (out if out.is_file() else None), said

    def library(
        self, sources: Sequence[Path], sanitizer: str = "plain", args: Sequence[str] = ()
    ) -> tuple[Path | None, list[Diagnostic]]:
        """A shared library, or None if the build fails; and the compiler's diagnostics."""
        out = self._fresh("so")
        cpp = any(s.suffix != ".c" for s in sources)
        flags = (
            "-shared", "-fPIC", "-g", "-O1", "-fno-builtin", "-Wreturn-type", *SANITIZERS[sanitizer],
            *(a for a in taken(args, sources[0]) if not a.startswith("-O")),
        )  # fmt: skip
        command = [*(cpp_command() if cpp else self._command(sources[0])), *flags, *self._include(*sources)]
        said = self._run([*command, *map(str, sources), "-lm", "-o", str(out)])
        return (out if out.is_file() else None), said

    def program(self, sources: Sequence[Path], sanitizer: str, args: Sequence[str]) -> Path:
        """A program built from opdb's own sources, or taken from the user's cache if the same was built before.

        Raises OpdbError if the build fails.
        """
        flags = ["-O0", "-rdynamic", "-pthread", *PROGRAM_SANITIZERS[sanitizer], *args, *self._include()]
        command = [*cpp_command(), *flags, *map(str, sources), "-ldl"]
        kept = self._kept(command)
        if kept.is_file():
            return kept
        out = self._fresh("run")
        said = self._run([*command, "-o", str(out)])
        if not out.is_file():
            text = next((d.text for d in said if d.is_error), "no message")
            raise OpdbError(
                f"the program that runs kernels was not built: {text}; install g++ with its sanitizers"
            )
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            fresh = kept.with_name(f"{kept.name}.{os.getpid()}")
            shutil.copy2(out, fresh)
            os.replace(fresh, kept)
        except OSError:
            return out  # no room for a cache
        return kept

    def _kept(self, command: Sequence[str]) -> Path:
        """The path of a program in the cache: a hash of its command, headers, and compiler."""
        import platformdirs

        digest = hashlib.sha256("\0".join(command).encode())
        for folder in self._headers:
            for file in sorted(p for p in folder.iterdir() if p.is_file()):
                digest.update(file.read_bytes())
        compiler = shutil.which(cpp_command()[0])
        if compiler is not None:
            digest.update(str(os.stat(os.path.realpath(compiler)).st_mtime_ns).encode())
        return platformdirs.user_cache_path("opdb", appauthor=False) / "cloud-ai" / digest.hexdigest()[:32]

    def _fresh(self, suffix: str) -> Path:
        self._count += 1
        return self.folder / f"{self._count}.{suffix}"

    def _command(self, source: Path) -> list[str]:
        return [*compiler_command(), "-std=gnu11"] if source.suffix == ".c" else cpp_command()

    def _include(self, *sources: Path) -> list[str]:
        folders = dict.fromkeys([*self._headers, *(s.parent for s in sources)])
        return [f"-I{f}" for f in folders]

    def _run(self, command: Sequence[str]) -> list[Diagnostic]:
        environment = {**os.environ, "LC_ALL": "C"}
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, text=True, errors="replace",
                timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return [Diagnostic("", 0, True, f"the compiler took longer than {SECONDS} seconds", "")]
        except OSError as error:
            raise OpdbError(f"{command[0]}: {error.strerror}") from None
        found = [
            Diagnostic(m["file"], int(m["line"]), m["kind"] != "warning", m["text"], m["flag"] or "")
            for m in _DIAGNOSTIC.finditer(done.stderr)
        ]
        if done.returncode and not any(d.is_error for d in found):
            last = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
            found.append(Diagnostic("", 0, True, last[0].strip(), ""))
        return found


def cpp_command() -> list[str]:
    """The C++ compiler: CXX, or g++.  Raises OpdbError if it is not installed."""
    command = shlex.split(os.environ.get("CXX") or "g++")
    if not command or shutil.which(command[0]) is None:
        raise OpdbError(
            f"no C++ compiler: {command[0] if command else 'CXX'!r} is not on PATH; install g++ or name yours in CXX"
        )
    return [*command, "-std=gnu++17"]


def taken(args: Sequence[str], source: Path) -> list[str]:
    """The arguments in an implementation's compilerArgs that also apply here.  Relative -I folders start at the source's folder."""
    found, follows = [], False
    for arg in args:
        if follows:
            found.append(arg)
        elif TAKEN.match(arg):
            path = arg[2:]
            found.append(
                f"-I{source.parent / path}"
                if arg.startswith("-I") and path and not path.startswith("/")
                else arg
            )
        follows = not follows and arg in ("-I", "-D", "-U", "-include")
    return found


def _object(path: Path) -> Object:
    with path.open("rb") as file:
        elf: Any = ELFFile(file)
        symbols = [
            s
            for t in elf.iter_sections()
            if isinstance(t, SymbolTableSection)
            for s in t.iter_symbols()
            if s.name
        ]
        shared = [s for s in symbols if s.entry.st_info.bind != "STB_LOCAL"]
        defined = tuple(sorted(s.name for s in shared if s.entry.st_shndx != "SHN_UNDEF"))
        undefined = tuple(sorted(s.name for s in shared if s.entry.st_shndx == "SHN_UNDEF"))
        constructors = any(s.name.startswith((".init_array", ".ctors")) for s in elf.iter_sections())
    usage = path.with_suffix(".su")
    return Object(path, defined, undefined, constructors, tuple(_frames(usage)) if usage.is_file() else ())


def _frames(path: Path) -> list[Frame]:
    """Parses GCC's .su: file:line:column:function, bytes, how (static; dynamic; dynamic,bounded)."""
    found = []
    for line in path.read_text(errors="replace").splitlines():
        match = re.match(
            r"(?P<file>[^:]*):(?P<line>\d+):(?:\d+:)?(?P<name>.*)\t(?P<bytes>\d+)\t(?P<how>\S+)$", line
        )
        if match is not None:
            how = match["how"]
            found.append(
                Frame(
                    match["name"],
                    int(match["line"]),
                    int(match["bytes"]),
                    how in ("static", "dynamic,bounded"),
                )
            )
    return found
