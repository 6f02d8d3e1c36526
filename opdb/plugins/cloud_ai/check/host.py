"""Calls a package's functions and kernels in a separate process, where a crash or a hang is an answer.

The program is opdb/plugins/cloud_ai/c/host, compiled for an interface with opdb's stand-ins for the headers of the SDK.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy.typing as npt

from opdb.core.errors import OpdbError
from opdb.plugins.cloud_ai.check.toolchain import Toolchain

ROOT = Path(str(files("opdb.plugins.cloud_ai"))) / "c"
HOST = ROOT / "host"
#: The timeout after which a call counts as hung.
SECONDS = 10.0
#: Interface -> the folder of its headers, its adapter in the host, macros.
INTERFACES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "1.17": ("v1_17", "arrays.cpp", ()),
    "5.0.0": ("v5_0_0", "properties.cpp", ()),
    "1.21": ("v1_21", "properties.cpp", ("-DHOST_HANDLE",)),
}
#: CustomOpDataType -> numpy type.  bfloat16 is read as 16 bits.
DTYPES: Mapping[int, str] = {
    0: "f4", 1: "f2", 2: "u2", 3: "i1", 4: "u1", 5: "i2", 6: "i4", 7: "i4", 8: "i8", 9: "?", 10: "S1",
}  # fmt: skip
DTYPE_NAMES = (
    "float", "float16", "bfloat16", "int8 (quantized)", "uint8 (quantized)", "int16 (quantized)", "int32 (quantized)",
    "int32", "int64", "bool", "string",
)  # fmt: skip
FLOAT, FLOAT16, QINT8, INT32, INT64, BOOL, STRING = 0, 1, 3, 7, 8, 9, 10


@dataclass(frozen=True)
class TensorGiven:
    """An input.  ``dtype``: its CustomOpDataType."""

    name: str
    dtype: int
    dims: tuple[int, ...]
    scale: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class ParamGiven:
    """``size``: 0 for a scalar, else the number of values."""

    name: str
    dtype: int
    size: int
    values: tuple[float | str, ...]


@dataclass(frozen=True)
class Node:
    """A model's node as its op sees it.  Outputs: name and maxDims, in order."""

    inputs: tuple[TensorGiven, ...]
    outputs: tuple[tuple[str, int], ...]
    params: tuple[ParamGiven, ...] = ()
    scratch: tuple[tuple[str, int], ...] = ()
    implementations: tuple[tuple[str, str], ...] = ()  # kernel, backend
    output_scale: float = 1.0
    output_offset: float = 0.0


@dataclass
class Answer:
    """The answer of the process.  ``died``: e.g. SIGSEGV, "hang", or "" if it ran to its end."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    died: str = ""
    during: str = ""  # the last step that began
    printed: str = ""

    def first(self, key: str) -> dict[str, Any]:
        """The first line that has ``key``; {} if there is none."""
        return next((line for line in self.lines if key in line), {})

    def all(self, key: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if key in line]


class Host:
    """The programs of one interface, compiled on demand.  ``sanitizer``: plain, threads, addresses."""

    def __init__(self, interface: str, tools: Toolchain) -> None:
        self.interface, self._tools = interface, tools
        self._programs: dict[str, Path] = {}

    def ask(
        self,
        functions: Path,
        node: Node,
        todo: Sequence[str],
        *,
        kernel: tuple[Path, str] | None = None,
        inputs: Sequence[npt.NDArray[Any]] = (),
        outputs_file: Path | None = None,
        sanitizer: str = "plain",
    ) -> Answer:
        """Runs the steps ``todo`` in order: ``infer``, ``verify``, ``select BACKEND``, ``run BACKEND FILL``.

        ``kernel``: library and symbol; ``inputs``: data for a run; ``outputs_file``: gets the outputs, one run after another.
        """
        text = "\n".join(self._job(functions, node, todo, kernel, inputs, outputs_file)) + "\n"
        ours, theirs = os.pipe()
        process = subprocess.Popen(
            [str(self._program(sanitizer)), str(theirs)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=[theirs],
            cwd=self._tools.folder, env={**os.environ, **OPTIONS}, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        answer = Answer()
        with os.fdopen(ours, "rb") as pipe:
            try:
                printed, _ = process.communicate(text.encode(), timeout=SECONDS)
                code = process.returncode
            except subprocess.TimeoutExpired:
                process.kill()
                printed, _ = process.communicate()
                code = None
            said = pipe.read().decode(errors="replace")
        answer.printed = printed.decode(errors="replace")
        for line in said.splitlines():
            try:
                answer.lines.append(json.loads(line))
            except ValueError:
                continue  # truncated by a crash
        answer.during = next((str(x["begin"]) for x in reversed(answer.lines) if "begin" in x), "")
        answer.died = _death(code, answer)
        if not answer.lines:
            raise OpdbError(
                f"the program that calls packages did not start ({answer.died}): {answer.printed[:200]}"
            )
        return answer

    def _program(self, sanitizer: str) -> Path:
        if sanitizer not in self._programs:
            _, adapter, macros = INTERFACES[self.interface]
            args = ["-fno-builtin", f'-DADAPTER="{adapter}"', *macros]
            sources = [HOST / "host.cpp"]
            if sanitizer == "plain":
                args += ["-DHOST_GUARDS", "-DHOST_RECORDS"]
                sources.append(HOST / "names.cpp")
            self._programs[sanitizer] = self._tools.program(sources, sanitizer, args)
        return self._programs[sanitizer]

    def _job(
        self, functions: Path, node: Node, todo: Sequence[str], kernel: tuple[Path, str] | None,
        inputs: Sequence[npt.NDArray[Any]], outputs_file: Path | None,
    ) -> list[str]:  # fmt: skip
        lines = [f"functions {functions}"]
        for t in node.inputs:
            dims = " ".join(map(str, t.dims))
            lines.append(f"input {t.name} {t.dtype} {t.scale!r} {t.offset!r} {len(t.dims)} {dims}")
        lines += [
            f"output {n} {node.output_scale!r} {node.output_offset!r} {dims}" for n, dims in node.outputs
        ]
        for p in node.params:
            lines.append(f"param {p.name} {p.dtype} {p.size} {' '.join(map(str, p.values))}")
        lines += [f"scratch {name} {size}" for name, size in node.scratch]
        lines += [f"implementation {name} {backend}" for name, backend in node.implementations]
        if kernel is not None:
            lines += [f"kernel {kernel[0]}", f"symbol {kernel[1]}"]
        if inputs:
            path = self._tools.folder / "inputs.bin"
            path.write_bytes(b"".join(a.tobytes() for a in inputs))
            lines.append(f"from {path}")
        if outputs_file is not None:
            outputs_file.unlink(missing_ok=True)
            lines.append(f"to {outputs_file}")
        lines += [f"do {step}" for step in todo]
        if any("\n" in line for line in lines):
            raise OpdbError("a name, a path or a text has a line break")
        return lines


#: Sanitizers stop at the first fault; a failing process ends with 66.
OPTIONS = {
    "TSAN_OPTIONS": "exitcode=66 halt_on_error=1 report_signal_unsafe=0",
    "ASAN_OPTIONS": "exitcode=66 detect_leaks=0 handle_abort=1",
    "UBSAN_OPTIONS": "print_stacktrace=1 halt_on_error=1",
}


def _death(code: int | None, answer: Answer) -> str:
    if code is None:
        return "hang"
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    if code == 0 and answer.first("end"):
        return ""
    return f"exit {code}"


def sanitizer_report(printed: str, sources: Sequence[Path]) -> tuple[str, str, int] | None:
    """A sanitizer's complaint, and the file and line of its first frame in ``sources``; None if there is none."""
    match = re.search(
        r"(?:WARNING|ERROR): \w+Sanitizer: ([^\n(]*)|(\S+):(\d+):\d+: runtime error: ([^\n]*)", printed
    )
    if match is None:
        return None
    words = (match.group(1) or match.group(4)).strip()
    words = re.sub(r" on (unknown )?address.*", "", words)
    names = {s.name: s for s in sources}
    for found in re.finditer(r"(\S+?):(\d+)(?::\d+)?\)?(?=\s|$)", printed[match.start() :], re.MULTILINE):
        if (path := names.get(Path(found.group(1)).name)) is not None:
            return words, str(path), int(found.group(2))
    return words, "", 0
