"""Whether the checks of op packages find faults: each is put into a package, which then has to fail.

    python benchmarks/package_mutants [--backend HTP|CPU] [--only TEXT] [--keep DIR]

A package of ops whose results depend on all that a kernel is given is written and built, and passes ``battery.py`` on Qualcomm's
library.  Then one text of one file at a time is changed (``mutants.py``), the package is built again, and the battery has to fail.
Prints a line for each, and the count; exit 1 where a fault survives.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
TIMEOUT = 120


def main() -> int:
    from mutants import MUTANTS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--backend", action="append", choices=tuple(MUTANTS), help="all by default")
    parser.add_argument("--only", default="", metavar="TEXT", help="mutants with this in what they are")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="folder of the packages; a temporary one by default"
    )
    asked = parser.parse_args()
    killed = total = 0
    with tempfile.TemporaryDirectory() as temporary:
        for backend in asked.backend or MUTANTS:
            package = Package(backend, (asked.keep or Path(temporary)) / backend)
            if why := package.fails():
                sys.exit(f"{backend}: the package fails without a fault: {why}")
            for mutant in MUTANTS[backend]:
                if asked.only in mutant.what:
                    why = package.with_fault(mutant)
                    killed, total = killed + bool(why), total + 1
                    print(f"{backend} {mutant.file:18} {mutant.what:44} {why or 'SURVIVED'}", flush=True)
    print(f"{killed} of {total} faults are found")
    return int(killed < total)


class Package:
    """A package on disk with an object file for each source."""

    def __init__(self, backend: str, folder: Path) -> None:
        import ops

        from opdb import package

        catalog, kernels = ops.catalog(folder / "specs")
        self.backend = backend
        self.made = package.write(
            catalog, list(ops.SPECS), folder / "made", kernels=[kernels], backend=backend
        )
        package.build(self.made)  # with the stand-in that it links to
        self.objects = {s: self._compiled(s, self.made.folder / s) for s in self._sources()}

    def fails(self) -> str:
        """Why the battery fails; "" where it does not."""
        command = [
            sys.executable,
            "-X",
            "faulthandler",
            str(HERE / "battery.py"),
            self.backend,
            str(self.made.library),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        except subprocess.TimeoutExpired:
            return f"no answer for {TIMEOUT} s"
        if done.returncode == 0:
            return ""
        said = [line for line in done.stderr.splitlines() if line.strip()] or [""]
        return said[-1][:110] if done.returncode > 0 else f"the process ends with signal {-done.returncode}"

    def with_fault(self, mutant: object) -> str:
        """Why the battery fails with a fault; "" where it survives."""
        from mutants import Mutant

        from opdb.errors import OpdbError

        assert isinstance(mutant, Mutant)
        source = f"src/packages/{mutant.file}"
        text = (self.made.folder / source).read_text()
        if text.count(mutant.old) != 1:
            sys.exit(
                f"{mutant.file}: {mutant.old!r} is there {text.count(mutant.old)} times; the mutant has to name one place"
            )
        changed = self.made.folder / "src" / "packages" / "mutant.c"
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

    def _sources(self) -> Iterator[str]:
        from opdb.codegen import package_folder

        return iter(package_folder.sources(self.made.files))

    def _compiled(self, source: str, file: Path) -> Path:
        from opdb.codegen import c_sources, package_folder
        from opdb.package import compiled, compiler_command

        target = self.made.folder / "objects" / f"{file.stem}-{len(source)}.o"
        target.parent.mkdir(exist_ok=True)
        flags = [*c_sources.CFLAGS, "-Wno-error", *package_folder.INCLUDES]
        compiled(self.made.folder, source, [*compiler_command(), *flags, "-c", str(file), "-o", str(target)])
        return target

    def _link(self, objects: dict[str, Path]) -> None:
        from opdb.codegen import package_folder
        from opdb.package import compiled, compiler_command

        linked = package_folder.stand_in(self.made.backend)
        link = linked.link if linked else ()
        command = [*compiler_command(), *map(str, objects.values()), *package_folder.LDFLAGS, *link]
        compiled(self.made.folder, "the mutant", [*command, "-o", str(self.made.library)])


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    sys.exit(main())
