"""A package of the ops of ``ops.py`` on disk, with and without a fault, and the battery's verdict on it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import ops
from fault import Mutant

from opdb.codegen import c_sources, package_folder
from opdb.core.c_compiler import compiled, compiler_command
from opdb.core.errors import OpdbError
from opdb.execute.packages import package
from opdb.plugins.packages import ort_package
from opdb.plugins.packages.codegen import ort

HERE = Path(__file__).parent
NAME, DOMAIN = "mutants", "com.opdb.mutants"  # of the custom ops of ONNX Runtime
TIMEOUT = 120
SANITIZE = ("-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
#: ONNX Runtime throws, so C++ has to be there when the sanitizer looks for it.
PRELOADED = ("libasan.so", "libstdc++.so")
#: Signals are left to the vendor's own handlers; memory that Python never frees is in the report, too.
ASAN = "detect_leaks=1:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_abort=0:max_malloc_fill_size=0"


class Package:
    """A built package with an object file for each source.  ``sanitize``: with AddressSanitizer and UBSan."""

    def __init__(self, kind: str, folder: Path, sanitize: bool = False) -> None:
        catalog, kernels = ops.catalog(folder / "specs")
        self.kind, self.folder, self.sanitize = kind, folder / "made", sanitize
        if kind == "ORT":
            fitting = [n for n in ops.SPECS if not ort.unfit(catalog.compiled(n))]
            _, self.files = ort_package.write(
                catalog, fitting, NAME, self.folder, domain=DOMAIN, kernels=[kernels], force=True
            )
            self.library = (self.folder / ort.library(NAME)).resolve()
            self.library.parent.mkdir(exist_ok=True)
        else:
            made = package.write(
                catalog, list(ops.SPECS), self.folder, kernels=[kernels], backend=kind, force=True
            )
            self.files, self.library = made.files, package.build(made)  # with the stand-in that it links to
        self.objects = {s: self._compiled(s, self.folder / s) for s in package_folder.sources(self.files)}
        self._link(self.objects)

    def fails(self) -> str:
        """The reason the battery fails; "" if it passes."""
        command = [
            sys.executable,
            "-X",
            "faulthandler",
            str(HERE / "battery.py"),
            self.kind,
            str(self.library),
        ]
        env = dict(os.environ)
        if self.sanitize:
            env |= {
                "LD_PRELOAD": " ".join(map(_runtime, PRELOADED)),
                "ASAN_OPTIONS": ASAN,
                "PYTHONMALLOC": "malloc",
            }
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT, check=False, env=env
            )
        except subprocess.TimeoutExpired:
            return f"no answer for {TIMEOUT} s"
        if self.sanitize and (report := self._reported(done.stderr)):
            return report
        if done.stdout.strip().endswith("passed"):  # with lost memory of others the exit code is not 0
            return ""
        said = [line for line in done.stderr.splitlines() if line.strip()] or [""]
        return said[-1][:110] if done.returncode > 0 else f"the process ends with signal {-done.returncode}"

    def with_fault(self, mutant: Mutant) -> str:
        """The reason the battery fails with a fault; "" if the fault survives."""
        source = f"src/packages/{mutant.file}"
        text = (self.folder / source).read_text()
        if text.count(mutant.old) != 1:
            sys.exit(
                f"{mutant.file}: {mutant.old!r} is there {text.count(mutant.old)} times; the mutant has to name one place"
            )
        changed = self.folder / "src" / "packages" / "mutant.c"
        changed.write_text(text.replace(mutant.old, mutant.new))
        try:
            built = self._compiled(source, changed)
        except OpdbError as error:
            sys.exit(f"{mutant.what}: the mutant cannot be compiled, so it tests nothing: {error}")
        try:
            self._link({**self.objects, source: built})
            return self.fails()
        finally:
            changed.unlink()

    def _reported(self, stderr: str) -> str:
        """A sanitizer's report about the package: an error, or memory that it allocated and lost; "" for nothing."""
        found = re.search(r"ERROR: AddressSanitizer.*|.*runtime error: .*", stderr)
        blocks = re.split(r"\n\s*\n", stderr)
        own = f"{self.folder.resolve()}/"
        lost = [block.strip() for block in blocks if " leak of " in block and own in block]
        return (found.group() if found else "".join(lost[:1]).partition("\n")[0])[:110]

    def _compiled(self, source: str, file: Path) -> Path:
        target = self.folder / "objects" / f"{file.stem}-{len(source)}.o"
        target.parent.mkdir(exist_ok=True)
        flags = [*c_sources.CFLAGS, "-Wno-error", *self._sanitizers(), *package_folder.INCLUDES]
        compiled(self.folder, source, [*compiler_command(), *flags, "-c", str(file), "-o", str(target)])
        return target

    def _link(self, objects: dict[str, Path]) -> None:
        linked = None if self.kind == "ORT" else package_folder.stand_in(self.kind)
        link = linked.link if linked else ()
        command = [*compiler_command(), *self._sanitizers(), *map(str, objects.values())]
        # A sanitizer needs names, and its functions come with the process.
        left_out = ("-s", "-Wl,-z,defs") if self.sanitize else ()
        command += [f for f in package_folder.LDFLAGS if f not in left_out]
        command += [*link, "-o", str(self.library)]
        compiled(self.folder, "the package", command)

    def _sanitizers(self) -> tuple[str, ...]:
        return SANITIZE if self.sanitize else ()


def _runtime(name: str) -> str:
    """The file of one of the compiler's libraries."""
    command = [*compiler_command(), f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
