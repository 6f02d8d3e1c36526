"""A package for Cloud AI on disk, with and without a fault, and opdb's verdict on it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import cloud_ai_ops
from fault import Mutant

from opdb.core import c_compiler
from opdb.core.errors import OpdbError
from opdb.plugins.cloud_ai.check.check import check
from opdb.plugins.cloud_ai.check.trials import Asked
from opdb.plugins.cloud_ai.codegen import aic

HERE = Path(__file__).parent
TIMEOUT = 120
#: Little optimized, without clones: kernels are small here.
QUICK = " ".join((*(f for f in aic.CFLAGS if f != "-O3"), "-O1", "-DOPDB_NO_CLONES", "-Wno-error"))
#: Ops for which `opdb aic check` runs: one divided with scratch, one whole with scratch.
CHECKED = ("Grouped", "Turned")


class Package:
    """A built package.  ``sanitize``: runs `opdb aic check` instead of the battery."""

    def __init__(self, kind: str, folder: Path, sanitize: bool = False) -> None:
        self.kind, self.sanitize, self.spare = kind, sanitize, folder / "fault"
        self.written = cloud_ai_ops.write(folder)
        self._make(self.written.folder)

    def fails(self) -> str:
        """The error without a fault; "" for none."""
        return self._said(self.written.folder)

    def with_fault(self, mutant: Mutant) -> str:
        """The error of the package with a fault; "" if the fault survives."""
        shutil.rmtree(self.spare, ignore_errors=True)
        shutil.copytree(
            self.written.folder, self.spare
        )  # keeps their times, so make compiles only changed files
        source = self.spare / "src" / "packages" / mutant.file
        if source.read_text().count(mutant.old) != 1:
            sys.exit(f"{mutant.file}: the mutant {mutant.what!r} has to name one place")
        for file in (
            source,
            *self.spare.glob("*/src/*_aic.c"),
        ):  # the one file of the card's compiler has it, too
            text = file.read_text()
            if mutant.old in text:
                file.write_text(text.replace(mutant.old, mutant.new))
        if self.sanitize:
            return self._said(self.spare)
        try:
            self._make(self.spare)
        except OpdbError as error:
            sys.exit(f"{mutant.what}: the mutant cannot be compiled, so it tests nothing: {error}")
        return self._said(self.spare)

    def _make(self, folder: Path) -> None:
        c_compiler.make(folder, "the package", f"CFLAGS={QUICK}", "all", "card")

    def _said(self, folder: Path) -> str:
        return checked(folder) if self.sanitize else battery(folder)


def battery(folder: Path) -> str:
    command = [sys.executable, "-X", "faulthandler", str(HERE / "cloud_ai_battery.py"), str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer for {TIMEOUT} s"
    if done.returncode == 0 and done.stdout.strip().endswith("passed"):
        return ""
    said = [line for line in done.stderr.splitlines() if line.strip()] or [""]
    return said[-1][:110] if done.returncode > 0 else f"the process ends with signal {-done.returncode}"


def checked(folder: Path) -> str:
    """The first error of `opdb aic check`."""
    for op in CHECKED:
        for finding in check(folder, Asked(), op).findings:
            if finding.severity == "error":
                return f"{finding.id}: {finding.message}"[:110]
    return ""
