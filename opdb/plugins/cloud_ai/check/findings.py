"""The kinds of faults of a package, and the findings with their places.

The limits are from the Cloud AI SDK's page "Custom operations"; sizes of memory and stack are from
quic/software-kit-for-qualcomm-cloud-ai-100-cc.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ERROR, WARNING = "error", "warning"

#: Id of a finding -> its severity and meaning.
KINDS = {
    "yaml-form": (ERROR, "a key is missing, or its value is not allowed"),
    "yaml-key": (WARNING, "a key that no form of the YAML has"),
    "yaml-version": (WARNING, "the version is missing, or no version"),
    "name-twice": (ERROR, "two ops of one package, or two arguments of an op, have one name"),
    "backend": (ERROR, "the backend is neither Interpreter nor AIC"),
    "parameter": (ERROR, "type, scalar and size of a parameter contradict each other"),
    "path": (ERROR, "there is no such file"),
    "memory-name": (ERROR, "memoryConfig names something that the op does not have"),
    "memory-twice": (WARNING, "memoryConfig names one thing for two memories"),
    "memory-required": (ERROR, "a buffer in requiredFor cannot fit"),
    "memory-fit": (WARNING, "not everything that memoryConfig wants in a memory fits"),
    "memory-size": (ERROR, "a buffer is bigger than a 32-bit machine can have"),
    "library-load": (ERROR, "a library cannot be loaded"),
    "library-symbol": (ERROR, "a library lacks a function that its interface has"),
    "kernel-symbol": (ERROR, "an implementation does not have the kernel that its 'type' names"),
    "build": (ERROR, "a source does not compile"),
    "no-return": (ERROR, "a function has a path without return"),
    "stub": (ERROR, "a function that the package generator left empty"),
    "crash": (ERROR, "a function crashed"),
    "hang": (ERROR, "a function did not return"),
    "verify-name": (ERROR, "verify wants a parameter whose name the YAML does not have"),
    "verify-never": (WARNING, "verify accepted no sample"),
    "verify-refuses": (ERROR, "verify refuses the sample that was given"),
    "infer-never": (WARNING, "the shape inference accepted no sample"),
    "infer-refuses": (ERROR, "the shape inference refuses the sample that was given"),
    "infer-output": (ERROR, "the shape inference gives an output no shape, or more dimensions than maxDims"),
    "select-nothing": (ERROR, "select names no kernel for a backend that has one"),
    "select-unknown": (ERROR, "select names a kernel that no implementation has"),
    "unwritten": (ERROR, "a kernel leaves elements of an output unwritten"),
    "input-changed": (ERROR, "a kernel writes to an input"),
    "depends": (ERROR, "the result of a kernel depends on what memory held before"),
    "differs": (ERROR, "two implementations of an op compute different results"),
    "race": (ERROR, "threads of a kernel touch the same memory, one of them writing, without syncThread between"),
    "barrier": (ERROR, "the threads of a kernel do not call syncThread equally often"),
    "out-of-bounds": (ERROR, "a kernel reads or writes outside of its buffers"),
    "undefined": (ERROR, "undefined behavior of C or C++"),
    "allocation": (ERROR, "an AIC kernel allocates memory"),
    "stdio": (ERROR, "an AIC kernel uses standard input or output, or files"),
    "threads": (ERROR, "an AIC kernel makes or locks threads of its own"),
    "container": (ERROR, "an AIC kernel uses containers or streams of the C++ library"),
    "vla": (ERROR, "an array whose length is not constant"),
    "frame": (ERROR, "a function needs more stack than an AIC thread has"),
    "constructor": (ERROR, "an object that is constructed when the kernel is loaded"),
    "format": (ERROR, "a log macro with more than ten format specifiers"),
    "format-64": (WARNING, "a 64-bit number in a log macro without AIC_LOG64_DATA"),
    "not-run": (WARNING, "a part that could not be run here, with the reason"),
}  # fmt: skip


@dataclass(frozen=True, order=True)
class Finding:
    """One fault.  ``line`` counts from 1; 0 is the file as a whole.  ``op``: the op's type, or ""."""

    file: str
    line: int
    id: str
    op: str
    message: str
    cure: str

    @property
    def severity(self) -> str:
        return KINDS[self.id][0]

    def json(self) -> dict[str, Any]:
        return {
            "id": self.id, "severity": self.severity, "file": self.file, "line": self.line, "op": self.op,
            "message": self.message, "cure": self.cure,
        }  # fmt: skip

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        op = f"{self.op}: " if self.op else ""
        return f"{place}: {self.severity}: {op}{self.message}; {self.cure} [{self.id}]"


class Findings:
    """Collects findings without duplicates.  Shows paths below the current folder relative to it."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}

    def add(self, id_: str, path: Path | str, line: int, op: str, message: str, cure: str) -> None:
        """``id_`` is one of KINDS."""
        assert id_ in KINDS, id_
        self._found[Finding(shown(path), line, id_, op, message, cure)] = None

    def has(self, id_: str, op: str | None = None, path: Path | None = None) -> bool:
        return any(
            f.id == id_ and op in (None, f.op) and (path is None or f.file == shown(path))
            for f in self._found
        )

    def sorted(self) -> list[Finding]:
        """Sorts by file and line; "not-run" comes last."""
        return sorted(self._found, key=lambda f: (f.id == "not-run", f))


def shown(path: Path | str) -> str:
    """A path as messages show it."""
    try:
        return str(Path(path).resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def listed(names: Iterable[str]) -> str:
    """Returns ``a, b`` or "none"."""
    return ", ".join(names) or "none"
