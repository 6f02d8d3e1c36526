"""C and C++ as text: comments removed, functions by name, and the constructs that AIC kernels must not use.

The check of compiled objects finds more; this one finds the line, and works for kernels that only compile for Hexagon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opdb.plugins.cloud_ai.check.findings import Findings

SUFFIXES = (".c", ".cc", ".cpp", ".cxx")
MAX_SPECIFIERS = 10

#: Comments, strings, and characters, in the order in which they hide each other.
_TOKENS = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_WHY = {
    "allocation": ("allocates memory, which AIC kernels cannot", "use a scratch buffer (scratchBuffers in the YAML)"),
    "stdio": ("is input or output, which AIC kernels do not have", "log with AIC_PRINT_INFO of CustomOpLog.h"),
    "threads": (
        "is about threads, of which an AIC kernel has its four", "divide the work by threadID, and wait with syncThread",
    ),
    "container": (
        "is of the C++ library, which AIC kernels do not have", "use arrays, and scratch buffers for what is big"
    ),
}  # fmt: skip
#: Patterns of code -> the id of the finding.  Only in C++: new, delete.
_RULES = (
    ("allocation", re.compile(r"(?<![\w.>])(?:std\s*::\s*)?(malloc|calloc|realloc|free|aligned_alloc|posix_memalign|"
                              r"alloca|__builtin_alloca|strdup)\s*\(")),
    ("allocation", re.compile(r"\b(make_unique|make_shared)\b")),
    ("stdio", re.compile(r"(?<![\w.>])(?:std\s*::\s*)?(printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|scanf|fopen|"
                         r"fclose|fread|fwrite|fgets|fflush|open|mmap)\s*\(")),
    ("stdio", re.compile(r"\b(std\s*::\s*(?:cout|cerr|clog|cin)|std\s*::\s*[io]?fstream)\b")),
    ("threads", re.compile(r"\b(pthread_\w+|std\s*::\s*(?:thread|mutex|async|atomic|condition_variable))\b")),
    ("container", re.compile(r"\bstd\s*::\s*(vector|string|map|unordered_map|set|unordered_set|list|deque|queue|stack|"
                             r"function|shared_ptr|unique_ptr|stringstream|ostringstream)\b")),
)  # fmt: skip
_HEADERS = {
    **dict.fromkeys(("stdio.h", "cstdio", "iostream", "fstream", "fcntl.h", "unistd.h"), "stdio"),
    **dict.fromkeys(("pthread.h", "thread", "mutex", "threads.h", "atomic", "future"), "threads"),
    **dict.fromkeys(
        ("vector", "string", "map", "unordered_map", "set", "list", "deque", "queue", "stack", "functional", "memory",
         "sstream"), "container",
    ),
}  # fmt: skip
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)
_CPP_RULES = (
    ("allocation", re.compile(r"(?<![\w.])(?<!operator )(new)\b(?!\s*\()")),
    ("allocation", re.compile(r"(?<![\w.=])(?<!= )(?<!operator )(delete)\b")),
)
_LOG = re.compile(r"\bAIC_PRINT_(?:DEBUG|INFO|WARN|ERROR|FATAL)\s*\(")
_SPECIFIER = re.compile(r"%[-+ #0]*[\d*]*(?:\.[\d*]*)?(?:hh|h|ll|l|j|z|t|L)?[a-zA-Z]|%%")
#: Adjacent strings and macros.
_FORMAT = re.compile(r"(?:\w+\s*)?\"(?:\\.|[^\"\\\n])*\"(?:\s*(?:\"(?:\\.|[^\"\\\n])*\"|\w+))*")
_LONG = re.compile(r"%[-+ #0]*[\d*]*(?:\.[\d*]*)?(?:ll|j)[a-zA-Z]")


@dataclass(frozen=True)
class Source:
    """``code``: the text with comments blanked, and strings and characters emptied; line numbers are unchanged."""

    path: Path
    text: str
    code: str
    bare: str  # comments blanked, strings kept

    @property
    def is_cpp(self) -> bool:
        return self.path.suffix != ".c"

    def line(self, at: int) -> int:
        return self.code.count("\n", 0, at) + 1


def read(path: Path) -> Source:
    text = path.read_text(encoding="utf-8", errors="replace")
    return Source(path, text, _TOKENS.sub(_emptied, text), _TOKENS.sub(_uncommented, text))


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _emptied(match: re.Match[str]) -> str:
    token = match.group()
    return _blank(token) if token[0] == "/" else token[0] + _blank(token[1:-1]) + token[-1]


def _uncommented(match: re.Match[str]) -> str:
    return _blank(match.group()) if match.group()[0] == "/" else match.group()


def body(source: Source, function: str) -> tuple[int, str] | None:
    """The line of a function that a file defines, and the text between its braces; None if it does not define it."""
    for match in re.finditer(rf"\b{re.escape(function)}\s*\(", source.code):
        end = _closed(source.code, match.end() - 1, "()")
        begin = re.compile(r"\s*(?:noexcept\s*)?\{").match(source.code, end)
        if begin is not None:
            return source.line(match.start()), source.code[
                begin.end() : _closed(source.code, begin.end() - 1, "{}") - 1
            ]
    return None


def _closed(code: str, at: int, pair: str) -> int:
    """The position after the bracket that closes the one at ``at``."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] == pair[0]) - (code[i] == pair[1])
        if depth == 0:
            return i + 1
    return len(code)


def lint_kernel(source: Source, op: str, findings: Findings) -> None:
    """Finds forbidden names in an AIC kernel's source; kernel_lint.py asks the compiler about the rest."""
    for id_, pattern in (*_RULES, *(_CPP_RULES if source.is_cpp else ())):
        for match in pattern.finditer(source.code):
            why, cure = _WHY[id_]
            name = re.sub(r"\s+", "", match.group(1))
            findings.add(id_, source.path, source.line(match.start()), op, f"{name} {why}", cure)
    for match in _INCLUDE.finditer(source.bare):
        if header := _HEADERS.get(match.group(1)):
            why, cure = _WHY[header]
            findings.add(
                header, source.path, source.line(match.start(1)), op, f"<{match.group(1)}> {why}", cure
            )
    for at, macro, format_ in _logs(source):
        count = sum(s != "%%" for s in _SPECIFIER.findall(format_))
        if count > MAX_SPECIFIERS:
            findings.add(
                "format", source.path, source.line(at), op,
                f"{macro} with {count} format specifiers; {MAX_SPECIFIERS} are the most", "log it in two calls",
            )  # fmt: skip
        if _LONG.search(format_):
            findings.add(
                "format-64", source.path, source.line(at), op, f"{macro} with a 64-bit number ({_LONG.findall(format_)[0]})",
                "wrap format and number with the AIC_LOG64 macros of CustomOpLog.h",
            )  # fmt: skip


def included(source: Source) -> list[Path]:
    """The files that a source includes from its own folder."""
    paths = [source.path.parent / m.group(1) for m in _INCLUDE.finditer(source.bare)]
    return [p for p in paths if p.is_file()]


def _logs(source: Source) -> Iterator[tuple[int, str, str]]:
    """Position, macro, and format of each log call; adjacent strings are joined, AIC_LOG64*_FMT counts as two specifiers."""
    for match in _LOG.finditer(source.code):
        end = _closed(source.code, match.end() - 1, "()")
        found = _FORMAT.search(source.bare, match.end(), end)
        text = re.sub(r"\bAIC_LOG64\w*FMT\b", '"%x%x"', found.group()) if found is not None else ""
        yield (
            match.start(),
            match.group()[:-1].strip(),
            "".join(re.findall(r"\"((?:\\.|[^\"\\\n])*)\"", text)),
        )
