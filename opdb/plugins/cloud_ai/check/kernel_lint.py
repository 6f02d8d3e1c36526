"""Checks an AIC kernel's source for what is not allowed, in its text and in its compiled object."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opdb.plugins.cloud_ai.check import source
from opdb.plugins.cloud_ai.check.findings import Findings, listed
from opdb.plugins.cloud_ai.check.source import Source
from opdb.plugins.cloud_ai.check.toolchain import Diagnostic, Object, Toolchain

#: Bytes of stack of a thread: software-kit-for-qualcomm-cloud-ai-100-cc.
STACK = 12_288
#: Library functions that an object imports -> the finding.
NEEDS = {
    "allocation": ("malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign", "_Znwm", "_Znam", "_ZdlPv"),
    "stdio": ("fprintf", "fopen", "fclose", "fread", "fwrite", "fputs", "fgets", "open", "_ZSt4cout"),
    "threads": ("pthread_create", "pthread_mutex_lock", "pthread_join", "thrd_create"),
}  # fmt: skip
CURES = {
    "allocation": "use a scratch buffer (scratchBuffers in the YAML)",
    "stdio": "log with AIC_PRINT_INFO of CustomOpLog.h",
    "threads": "divide the work by threadID, and wait with syncThread",
}


def lint(
    text: Source, kernel: str, args: Sequence[str], op: str, tools: Toolchain, findings: Findings
) -> Object | None:
    """The compiled object; None if the source does not compile here, so that the kernel cannot run."""
    for part in (text, *(source.read(p) for p in source.included(text))):
        source.lint_kernel(part, op, findings)
    body = source.body(text, kernel)
    if body is not None and not body[1].strip():
        findings.add("stub", text.path, body[0], op, f"{kernel} is empty", "write the kernel")
    made, said = tools.object(text.path, args)
    warnings(said, text.path, op, findings)
    if made is None:
        _not_compiled(text, said, op, findings)
        return None
    _object(text, kernel, made, op, findings)
    return made


def warnings(said: Sequence[Diagnostic], path: Path, op: str, findings: Findings) -> None:
    """Turns the compiler's warnings into findings: a path without return, a variable-length array."""
    for d in said:
        at = path if not d.file or Path(d.file).name == path.name else Path(d.file)
        if d.flag == "-Wreturn-type":
            findings.add(
                "no-return",
                at,
                d.line,
                op,
                f"a way without return ({d.text})",
                "return on each way, e.g. NULL",
            )
        elif d.flag.startswith("-Wvla"):
            findings.add("vla", at, d.line, op, f"an array of variable length ({d.text})",
                         "give it a constant length, or use a scratch buffer")  # fmt: skip


def _not_compiled(text: Source, said: Sequence[Diagnostic], op: str, findings: Findings) -> None:
    error = next((d for d in said if d.is_error), None)
    if error is None or (findings.has("format", path=text.path) and "specifiers" in error.text):
        return
    hexagon = any(word in text.code for word in ("Q6_", "HVX_Vector", "hexagon_udma", "asm"))
    if hexagon or "hexagon" in error.text:
        findings.add("not-run", text.path, error.line, op, f"uses instructions of Hexagon ({error.text}): not run here",
                     "write the same in plain C under #ifndef __hexagon__, or try it on the card")  # fmt: skip
        return
    findings.add(
        "build",
        text.path,
        error.line,
        op,
        f"does not compile: {error.text}",
        "correct it; the card's compiler reads the same",
    )


def _object(text: Source, kernel: str, made: Object, op: str, findings: Findings) -> None:
    if kernel not in made.defined:
        mangled = [s for s in made.defined if kernel in s]
        body = source.body(text, kernel)
        findings.add(
            "kernel-symbol", text.path, body[0] if body else 0, op,
            f"{kernel} has the symbol {mangled[0]} of C++" if mangled else f"there is no function {kernel}",
            'declare it inside extern "C"' if mangled else f"define {kernel}, or correct 'type' in the YAML",
        )  # fmt: skip
    for frame in made.frames:
        if frame.bytes > STACK:
            findings.add(
                "frame", text.path, frame.line, op,
                f"{frame.function} needs {frame.bytes:,} bytes of stack; a thread has {STACK:,}", "use a scratch buffer",
            )  # fmt: skip
    for id_, names in NEEDS.items():
        used = [n for n in names if n in made.undefined]
        if used and not findings.has(id_, op, text.path):
            findings.add(id_, text.path, 0, op, f"the compiled kernel calls {listed(used)}", CURES[id_])
    if made.constructors:
        findings.add(
            "constructor", text.path, 0, op, "an object of the file is constructed when it is loaded",
            "make it constant (constexpr), or fill it in the kernel",
        )  # fmt: skip
