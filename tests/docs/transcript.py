"""What a page's commands left on a terminal, as text: docs/results/first-hour/PAGE.txt, which tools/first-hour writes.

    $ opdb check model.py:make --soc SM8650
    the lines on the screen
    [exit 1]

A line ``(40 more lines)`` stands for the rest of a long output, which was judged with the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

COLUMNS = 80
#: Kept of an output; the rest is counted.
KEPT = 120
#: Kept of pip's and apt's output: its end, since it names places of the machine.
FOREIGN_KEPT = 1
#: Only what opdb writes is judged, not pip's and apt's output.
OURS = re.compile(r"(^|[ (&|;])opdb( |$)")
#: A word that could have been broken: letters, perhaps with what QNN's and PyTorch's names have between them.
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.:/-]*")


@dataclass(frozen=True)
class Step:
    """A command, the lines that it left on the screen, and its exit code (None: it ran into the time limit)."""

    command: str
    lines: Sequence[str]
    code: int | None = 0

    def text(self) -> str:
        shown = [f"$ {self.command}"]
        if self.is_foreign:
            shown += self.lines[-FOREIGN_KEPT:]
        else:
            shown += self.lines[:KEPT]
            if len(self.lines) > KEPT:
                shown.append(f"({len(self.lines) - KEPT} more lines)")
        if self.code != 0:
            shown.append("[time limit]" if self.code is None else f"[exit {self.code}]")
        return "\n".join(shown) + "\n"

    @property
    def is_ours(self) -> bool:
        return bool(OURS.search(self.command))

    @property
    def is_foreign(self) -> bool:
        """True if the output is pip's or apt's."""
        return self.command.startswith(("pip ", "apt-get "))


def too_wide(step: Step) -> list[str]:
    """The lines that do not fit, of a command of opdb's.

    A path longer than half the terminal may end beyond it: in two lines it could not be copied.
    """
    if not step.is_ours:
        return []
    return [line for line in step.lines if len(line) > COLUMNS and len(line.split()[-1]) <= COLUMNS // 2]


def broken(step: Step, wide: Iterable[str]) -> list[str]:
    """The words on the screen that the same command does not print on a terminal wide enough for everything."""
    known = set(words(wide))
    parts = {part for word in known for part in re.split(r"(?<=[-/.:_])", word)}
    return sorted({word for word in words(step.lines) if word not in known and word not in parts})


def words(lines: Iterable[str]) -> list[str]:
    """The words of a text, without numbers, which differ from run to run."""
    return [word.rstrip(".:-/") for line in lines for word in WORD.findall(line)]


def steps(text: str) -> list[Step]:
    """The steps of a transcript, without the lines that were not kept."""
    found = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *lines = part.rstrip("\n").split("\n")
        while command.endswith("\\"):
            command = f"{command}\n{lines.pop(0)}"
        code: int | None = 0
        if lines and (ended := re.fullmatch(r"\[(?:exit (\d+)|time limit)\]", lines[-1])):
            code = int(ended[1]) if ended[1] else None
            lines.pop()
        found.append(Step(command, lines, code))
    return found


def commands(text: str) -> list[str]:
    """The commands of a transcript."""
    return [step.command for step in steps(text)]
