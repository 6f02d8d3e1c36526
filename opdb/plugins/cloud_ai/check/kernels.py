"""Runs kernels on samples: what they write, whether four threads agree, and whether they stay inside their buffers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from opdb.core.names import counted
from opdb.plugins.cloud_ai.check import source
from opdb.plugins.cloud_ai.check.config import CARD, Implementation, Op
from opdb.plugins.cloud_ai.check.findings import Findings
from opdb.plugins.cloud_ai.check.functions import Sample
from opdb.plugins.cloud_ai.check.host import (
    BOOL,
    DTYPES,
    FLOAT,
    FLOAT16,
    INT32,
    INT64,
    QINT8,
    Answer,
    Host,
    sanitizer_report,
)
from opdb.plugins.cloud_ai.check.source import Source
from opdb.plugins.cloud_ai.check.trials import described

#: The fill byte of outputs before each run; scratch buffers hold its complement.
FILLS = (0x5A, 0xA6)
#: The number of samples that run under the sanitizers.
SANITIZED = 2
Array = npt.NDArray[Any]
#: The relative difference allowed between two implementations, by data type of the output; integers: one step.
TOLERANCE = {FLOAT: 1e-3, FLOAT16: 2e-2}
#: Words in a kernel's source -> the only data type it computes, if it never reads dtype.
ELEMENTS = ((r"\b(float16_ty|__fp16|_Float16)\b", FLOAT16), (r"\bint8_t\b", QINT8), (r"\bfloat\b", FLOAT))


@dataclass(frozen=True)
class Kernel:
    """One implementation.  ``text``: its source if it is there; ``libraries``: by sanitizer."""

    implementation: Implementation
    text: Source | None
    libraries: dict[str, Path]

    def place(self, op: Op) -> tuple[Path, int]:
        body = source.body(self.text, self.implementation.type) if self.text is not None else None
        if self.text is not None and body is not None:
            return self.text.path, body[0]
        return op.file, self.implementation.line


class Runs:
    """Runs the kernels of one op."""

    def __init__(self, op: Op, functions: Path, host: Host, folder: Path, findings: Findings) -> None:
        self.op, self.functions, self.host, self.folder, self.findings = op, functions, host, folder, findings
        self.ran: list[str] = []  # kernels
        self._said: set[tuple[str, str, str]] = set()

    def check(self, kernel: Kernel, samples: Sequence[Sample]) -> dict[Sample, list[Array]]:
        """Adds findings about a kernel; returns its outputs for each sample."""
        computed, sanitized = {}, 0
        aic = kernel.implementation.backend == CARD
        for sample in samples:
            if not self._is_for(kernel, sample, aic):
                continue
            if kernel.implementation.type not in self.ran:
                self.ran.append(kernel.implementation.type)
            outputs = self._plain(kernel, sample)
            if (kernel.implementation.type, "hang", "") in self._said:
                break
            if outputs is not None:
                computed[sample] = outputs
            sanitized += 1
            for sanitizer in ("addresses", "threads") if aic else ("addresses",):
                if sanitizer in kernel.libraries and sanitized <= SANITIZED:
                    self._sanitized(kernel, sample, sanitizer)
        return computed

    def _is_for(self, kernel: Kernel, sample: Sample, aic: bool) -> bool:
        """True if select names this kernel for the sample, and its source does not imply another data type."""
        if sample.selected.get(kernel.implementation.backend) != kernel.implementation.type:
            return False
        only = element(kernel) if aic else None
        return only is None or sample.node.inputs == () or sample.node.inputs[0].dtype == only

    def _fault(
        self, kernel: Kernel, id_: str, message: str, cure: str, at: tuple[str, int] | None = None, of: str = ""
    ) -> None:  # fmt: skip
        """Adds a finding, only for the first sample that shows it.  ``of``: the tensor."""
        key = (kernel.implementation.type, id_, of)
        if key in self._said:
            return
        self._said.add(key)
        path, line = kernel.place(self.op)
        if at is not None and at[0]:
            path, line = Path(at[0]), at[1]
        self.findings.add(id_, path, line, self.op.type, f"{kernel.implementation.type} {message}", cure)

    def _ask(self, kernel: Kernel, sample: Sample, sanitizer: str, fills: Sequence[int]) -> Answer:
        backend = kernel.implementation.backend
        todo = ["infer", *(f"run {backend} {fill}" for fill in fills)]
        return self.host.ask(
            self.functions, sample.node, todo, kernel=(kernel.libraries[sanitizer], kernel.implementation.type),
            inputs=inputs(sample), outputs_file=self.folder / "outputs.bin", sanitizer=sanitizer,
        )  # fmt: skip

    def _plain(self, kernel: Kernel, sample: Sample) -> list[Array] | None:
        """Runs it twice with different bytes in memory; returns the outputs, or None if it did not finish or they are bad."""
        answer = self._ask(kernel, sample, "plain", FILLS)
        on = described(sample.node)
        for outside in answer.all("outside"):
            self._outside(kernel, outside, on)
        for changed in answer.all("changed"):
            self._fault(kernel, "input-changed", f"writes to its input {changed['changed']} with {on}",
                        "compute in the output, or in a scratch buffer")  # fmt: skip
        for barriers in answer.all("barriers"):
            self._barriers(kernel, barriers, on)
        if failed := answer.first("failed"):
            self.findings.add("library-load", self.op.file, kernel.implementation.impl_line, self.op.type,
                              str(failed["failed"]), "link what is missing into it")  # fmt: skip
            return None
        if answer.died == "hang":
            self._fault(kernel, "hang", f"did not come back with {on}", "look for a loop without end")
            return None
        if answer.died:
            if not answer.first("outside"):
                self._fault(
                    kernel, "crash", f"crashed ({answer.died}) with {on}", "check ranks and counts before use"
                )
            return None
        return self._compared(kernel, sample, on)

    def _outside(self, kernel: Kernel, outside: dict[str, Any], on: str) -> None:
        name, by = outside["outside"], int(outside["by"])
        where = f"{counted(-by, 'byte')} before" if by < 0 else f"{counted(by, 'byte')} behind the end of"
        self._fault(kernel, "out-of-bounds", f"touches memory {where} {name} with {on}",
                    "use the sizes of the tensor, of each dimension")  # fmt: skip

    def _barriers(self, kernel: Kernel, answer: dict[str, Any], on: str) -> None:
        counts = answer["barriers"]
        if len(set(counts)) > 1:
            each = ", ".join(f"{i}: {n}" for i, n in enumerate(counts))
            self._fault(kernel, "barrier", f"calls syncThread {each} times by thread with {on}: the others wait forever",
                        "let each thread reach each syncThread, also without work")  # fmt: skip
        if answer["wrong_ids"]:
            self._fault(kernel, "barrier", f"passes syncThread the id of another thread with {on}",
                        "pass the threadID that the kernel was given")  # fmt: skip

    def _compared(self, kernel: Kernel, sample: Sample, on: str) -> list[Array] | None:
        """Compares both runs: elements that keep the fill are unwritten, others must be equal; returns the outputs or None."""
        raw = (self.folder / "outputs.bin").read_bytes()
        half = len(raw) // 2
        first, second = outputs(sample, raw[:half]), outputs(sample, raw[half:])
        for tensor, a, b in zip(self.op.outputs, first, second, strict=True):
            left = _holds(a, FILLS[0]) & _holds(b, FILLS[1])
            if left.any():
                at = [int(i) for i in np.argwhere(left)[0]]
                self._fault(
                    kernel, "unwritten",
                    f"leaves {int(left.sum())} of {counted(left.size, 'element')} of {tensor.name} unwritten with {on}, the first at "
                    f"{at}{_pattern(left)}",
                    "loop over all dimensions, and over what four threads leave of the last piece", of=tensor.name,
                )  # fmt: skip
            differ = (a.view(np.uint8).reshape(a.size, -1) != b.view(np.uint8).reshape(a.size, -1)).any(
                axis=1
            )
            if (differ & ~left.reshape(-1)).any():
                self._fault(
                    kernel, "depends",
                    f"computes {tensor.name} from what outputs or scratch buffers held before, with {on}",
                    "write an element before it is read: contents are not kept between calls", of=tensor.name,
                )  # fmt: skip
            if left.any() or differ.any():
                return None
        return first

    def _sanitized(self, kernel: Kernel, sample: Sample, sanitizer: str) -> None:
        answer = self._ask(kernel, sample, sanitizer, FILLS[:1])
        if not answer.died:
            return
        text = kernel.text
        report = sanitizer_report(
            answer.printed, [text.path, *source.included(text)] if text is not None else []
        )
        if report is None:
            return
        words, file, line = report
        on = described(sample.node)
        if "data race" in words:
            self._fault(kernel, "race", f"has a data race between its threads with {on}",
                        "call syncThread between writing and reading, and write each element in one thread",
                        (file, line))  # fmt: skip
        elif "overflow" in words or "use-after" in words or "SEGV" in words:
            self._fault(kernel, "out-of-bounds", f"touches memory outside of its buffers ({words}) with {on}",
                        "use the sizes of the tensor, of each dimension", (file, line))  # fmt: skip
        else:
            self._fault(kernel, "undefined", f"has undefined behavior ({words}) with {on}",
                        "C and C++ allow any result there", (file, line))  # fmt: skip

    def agree(self, computed: Sequence[tuple[Kernel, dict[Sample, list[Array]]]]) -> None:
        """Compares the results of two implementations for the same samples."""
        for (one, ours), (other, theirs) in itertools.pairwise(computed):
            for sample in ours:
                if (match := next((s for s in theirs if _same_but_type(s, sample)), None)) is not None:
                    self._agree(one, other, sample, match, ours[sample], theirs[match])

    def _agree(
        self,
        one: Kernel,
        other: Kernel,
        sample: Sample,
        match: Sample,
        ours: list[Array],
        theirs: list[Array],
    ) -> None:
        for tensor, a, b, (dtype, _), (with_, _) in zip(
            self.op.outputs, ours, theirs, sample.outputs, match.outputs, strict=True
        ):
            tolerance = max(TOLERANCE.get(dtype, 0.0), TOLERANCE.get(with_, 0.0))
            x, y = a.astype(np.float64), b.astype(np.float64)
            allowed = tolerance * (np.abs(y) + 1e-2) if tolerance else 1.0
            both = np.isfinite(x) & np.isfinite(y)
            wrong = both & (np.abs(np.where(both, x - y, 0)) > allowed)
            if wrong.any():
                i = tuple(int(n) for n in np.argwhere(wrong)[0])
                self._fault(
                    other, "differs",
                    f"computes {tensor.name}{list(i)} = {y[i]:.6g}, and {one.implementation.type} {x[i]:.6g}, with "
                    f"{described(match.node)}",
                    "find out which of them is right", of=tensor.name,
                )  # fmt: skip


def element(kernel: Kernel) -> int | None:
    """The data type that an AIC kernel assumes; None if it reads dtype, or nothing is known."""
    if kernel.text is None or re.search(r"\bdtype\b|\bDT[A-Z]\w+", kernel.text.code):
        return None
    return next((dtype for pattern, dtype in ELEMENTS if re.search(pattern, kernel.text.code)), None)


def inputs(sample: Sample) -> list[Array]:
    """The same values for each data type as far as it can hold them: exact in float16, whole steps in int8."""
    made = []
    for i, t in enumerate(sample.node.inputs):
        random = np.random.default_rng(i)
        values = np.round(random.uniform(-1.5, 1.5, t.dims) * 64) / 64
        if t.dtype == QINT8:
            made.append(np.clip(np.round(values / t.scale + t.offset), -128, 127).astype(np.int8))
        elif t.dtype in (INT32, INT64, BOOL):
            made.append(random.integers(0, 2, t.dims).astype(DTYPES[t.dtype]))
        else:
            made.append(values.astype(DTYPES[t.dtype]))
    return made


def outputs(sample: Sample, raw: bytes) -> list[Array]:
    made, at = [], 0
    for dtype, dims in sample.outputs:
        kind = np.dtype(DTYPES[dtype])
        count = int(np.prod(dims, dtype=np.int64))
        made.append(np.frombuffer(raw, kind, count, at).reshape(dims))
        at += count * kind.itemsize
    return made


def _holds(array: Array, fill: int) -> npt.NDArray[np.bool_]:
    """True where all bytes of an element are ``fill``."""
    bytes_ = np.ascontiguousarray(array).view(np.uint8).reshape(*array.shape, array.itemsize)
    return np.asarray((bytes_ == fill).all(axis=-1))


def _pattern(left: npt.NDArray[np.bool_]) -> str:
    """A note if everything except the first index of a dimension is unwritten; else ""."""
    for axis in range(left.ndim):
        moved = np.moveaxis(left, axis, 0)
        if left.shape[axis] > 1 and not moved[0].any() and moved[1:].all():
            name = ", the batch" if axis == 0 and left.ndim > 1 else ""
            return f": it computes only the first of dimension {axis}{name}, and needs tiles of one"
    return ""


def _same_but_type(a: Sample, b: Sample) -> bool:
    """True if two samples are the same node with equal types, or floating-point types of different width."""
    floats = (FLOAT, FLOAT16)
    return a.node.params == b.node.params and all(
        x.dims == y.dims and (x.dtype == y.dtype or (x.dtype in floats and y.dtype in floats))
        for x, y in zip(a.node.inputs, b.node.inputs, strict=True)
    )
