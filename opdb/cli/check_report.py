"""Prints the verdicts on a model, or writes them to a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from opdb.checks.coverage import VERDICTS, Coverage
from opdb.checks.report import lines, table
from opdb.checks.report.plain import summary
from opdb.cli.screen import meaning, painted, print_paged, print_whole
from opdb.core.files import write_atomically


def report(
    coverage: Coverage, format_: str, title: str, output: Path | None, verbose: bool, pager: bool
) -> None:
    """Writes to standard output, or to a complete file; then the summary goes to standard error."""
    if output is not None:
        write_atomically(output, "".join(f"{line}\n" for line in lines(coverage, format_, title, verbose)))
        for line in (*summary(coverage), f"written to {output}"):
            print(line, file=sys.stderr)
    elif format_ == "table":
        print_coverage(coverage, verbose, pager)
    else:
        for line in lines(coverage, format_, title, verbose):
            print_whole(line)


def print_coverage(coverage: Coverage, verbose: bool = False, pager: bool = False) -> None:
    """Prints the answer, why nodes fall back to the CPU, and which; ``verbose``: all nodes."""
    shown = _colored(coverage, verbose)
    if pager:
        print_paged(shown, wrap=True)
        return
    for line in shown:
        print(line)


def _colored(coverage: Coverage, verbose: bool) -> Iterator[str]:
    """The lines of the table; the answer and the word that a line begins with have the colors of their meaning."""
    whole = "good" if coverage.complete else "partly" if coverage.count("supported") else "bad"
    for number, line in enumerate(table(coverage, verbose)):
        word = line.partition(" ")[0]
        if number == 0:
            yield painted(line, whole)
        elif word.rstrip(":") in (*VERDICTS, "warning"):
            yield painted(word, meaning(word)) + line[len(word) :]
        else:
            yield line
