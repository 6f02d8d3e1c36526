"""The terminal that somebody reads: its width, lines wrapped at words, colors by meaning, a pager on request.

Nothing here changes what goes into a pipe or a file.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any, TextIO

#: Text wraps at the terminal's width, and before it at this column: longer lines are hard to read.  Tables use the whole width.
LONGEST = 100
#: The end of a column, where the next one begins.
_COLUMN = re.compile(r"(?<=\S)  +(?=\S)")
#: What explains a command.
_COMMENT = re.compile(r"  +(?=# )")
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_WORD = re.compile(r"(\s*)(\S+)")


def is_terminal() -> bool:
    """True if somebody reads standard output on a terminal."""
    return sys.stdout.isatty()


def width() -> int:
    """The columns of the terminal; COLUMNS in the environment comes first."""
    return shutil.get_terminal_size((80, 24)).columns


def cells(text: str) -> int:
    """The columns that a text needs: two for a character of East Asia, none for a color or a mark above another character."""
    plain = _COLOR.sub("", text) if "\x1b" in text else text
    if plain.isascii():
        return len(plain)
    from rich.cells import cell_len

    return cell_len(plain)


def filled(text: str, most: int) -> list[str]:
    """The lines of a text, broken between words so that each has at most ``most`` columns; a longer word is a line."""
    if cells(text) <= most:
        return [text]
    lines: list[str] = []
    line, used = "", 0
    for space, word in _WORD.findall(text):
        needed = cells(word)
        if line and used + len(space) + needed > most:
            lines.append(line)
            line, used = word, needed
        else:
            line, used = f"{line}{space}{word}", used + len(space) + needed
    return [*lines, line]


def wrapped(line: str, most: int) -> list[str]:
    """A line of text as lines of at most ``most`` columns.

    The later ones begin below the last column (two spaces end one) of the line's first half, else two columns further in; further
    left if a word needs it.
    """
    if cells(line) <= most:
        return [line]
    comment = _COMMENT.search(line)
    if comment and comment.start():
        text = line[: comment.start()]
        inward = " " * (len(text) - len(text.lstrip(" ")) + 4)
        return [
            *wrapped(text, most),
            *(f"{inward}{each}" for each in filled(line[comment.end() :], most - len(inward))),
        ]
    longest = max(cells(word) for word in line.split())
    most_inward = max(0, most - longest)
    half = min(most // 2, most_inward)
    ends = [found.end() for found in _COLUMN.finditer(line) if cells(line[: found.end()]) <= half]
    if ends:
        head, text = line[: ends[-1]], line[ends[-1] :]
        inward = " " * cells(head)
    else:
        text = line.lstrip(" ")
        head = " " * min(len(line) - len(text), most_inward)
        inward = " " * min(len(head) + 2, most_inward)
    first, *rest = filled(text, most - cells(head))
    later = filled(" ".join(rest), most - len(inward)) if rest else []
    return [f"{head}{first}", *(f"{inward}{each}" for each in later)]


class Wrapping:
    """A terminal's stream whose long lines are wrapped at words.

    What controls the terminal, e.g. a progress bar, is written as it is, and so is a line that is flushed before its end.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._begun = ""  # the line that has no end yet

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        if lines:
            self.stream.write("".join(f"{part}\n" for line in lines for part in _parts(line)))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if self._begun:
            self.stream.write(self._begun)
            self._begun = ""
        self.stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _parts(line: str) -> list[str]:
    most = min(width(), LONGEST)
    return wrapped(line, most) if _COLOR.sub("", line).isprintable() else [line]


def wrap_streams() -> None:
    """Wraps what the process prints from now on to terminals; see Wrapping."""
    if sys.stdout.isatty():
        sys.stdout = Wrapping(sys.stdout)
    if sys.stderr.isatty():
        sys.stderr = Wrapping(sys.stderr)


def print_whole(text: str, end: str = "\n") -> None:
    """Prints without wrapping: a table, which fits already, or what is copied elsewhere (JSON, a spec, commands of a shell)."""
    out = sys.stdout
    if isinstance(out, Wrapping):
        out.flush()
        out.stream.write(f"{text}{end}")
    else:
        out.write(f"{text}{end}")


def print_paged(lines: Iterable[str], *, wrap: bool) -> None:
    """Shows lines in $PAGER, or `less`; where standard output is no terminal, prints them.  ``wrap``: at words."""
    pager = shlex.split(os.environ.get("PAGER") or "less")
    if not is_terminal() or shutil.which(pager[0]) is None:
        for line in lines:
            (print if wrap else print_whole)(line)
        return
    text = "".join(f"{part}\n" for line in lines for part in (_parts(line) if wrap else [line]))
    # like git: colors, no waiting for less than a screen, the text stays
    subprocess.run(pager, input=text, text=True, check=False, env={"LESS": "FRX", **os.environ})


#: Meaning -> its color.  A color never says more than the words.
STYLES = {"good": "green", "partly": "yellow", "bad": "red", "unknown": "dim", "head": "bold"}
_MEANINGS = {
    word: name
    for name, words in (
        ("good", "yes ok fine accept accepted supported pass same"),
        ("partly", "warning host differs"),
        ("bad", "no crashed hung reject rejected refuses missing fail"),
        ("unknown", "unknown declared"),
    )
    for word in words.split()
}
_STATUS = re.compile(r"(\w+)(?:[:,;]| \(| on |$)")


def meaning(text: str) -> str:
    """The meaning of a status as a key of STYLES, e.g. "partly" for "yes, except without axis"; "" if the text is none."""
    if text.startswith("yes, except") or (
        text.startswith("yes") and re.search(r"; (?:no|crashed|hung)\b", text)
    ):
        return "partly"
    if text.startswith("not known"):
        return "unknown"
    found = _STATUS.match(text)
    return _MEANINGS.get(found[1], "") if found else ""


def painted(text: str, name: str) -> str:
    """A text in the color of its meaning; as it is where there are no colors (NO_COLOR, a dumb terminal, a pipe)."""
    begin, end = _escapes(name)
    return f"{begin}{text}{end}" if text else text


@cache
def _escapes(name: str) -> tuple[str, str]:
    """The escapes that switch a color on and off."""
    if name not in STYLES or not sys.stdout.isatty():
        return "", ""
    from rich.console import Console
    from rich.style import Style

    console = Console()
    if console.no_color or not console.is_terminal or console._color_system is None:
        return "", ""
    shown = Style.parse(STYLES[name]).render("\0", color_system=console._color_system)
    begin, _, end = shown.partition("\0")
    return begin, end
