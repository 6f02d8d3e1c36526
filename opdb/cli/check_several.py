"""The report of check on several targets."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from opdb.checks.coverage import Coverage
from opdb.checks.report import table
from opdb.checks.report.several import lines
from opdb.checks.side_by_side import COLUMNS, labels, overview
from opdb.cli.options import Format
from opdb.cli.output import print_rows
from opdb.cli.screen import print_whole
from opdb.core.files import write_atomically


def report(
    coverages: Sequence[Coverage], format_: str, title: str, output: Path | None, verbose: bool
) -> None:
    """Writes to standard output, or to a complete file; then the overview goes to standard error."""
    buffer = io.StringIO()
    with redirect_stdout(sys.stdout if output is None else buffer):
        if format_ == "table":
            print_targets(coverages, title, verbose)
        else:
            for line in lines(coverages, format_, title):
                print_whole(line)
    if output is not None:
        write_atomically(output, buffer.getvalue())
        with redirect_stdout(sys.stderr):
            print_overview(coverages)
            print(f"written to {output}")


def print_targets(coverages: Sequence[Coverage], title: str, verbose: bool) -> None:
    """Prints the overview and how to see more; ``verbose``: the nodes on each target."""
    print_overview(coverages)
    if verbose:
        for label, coverage in zip(labels(coverages), coverages, strict=True):
            print(f"\n{label}")
            for line in table(coverage, verbose=True):
                print(line)
    elif left := next((c for c in coverages if not c.complete), None):
        sdk = f" --sdk {left.sdk}" if left.sdk else ""
        soc = f" --soc {left.soc}" if left.soc else ""
        print(f"each node with its reasons: opdb check {title}{soc}{sdk}, or -v for all targets")


def print_overview(coverages: Sequence[Coverage]) -> None:
    """Prints a line for each target: what it takes, and the reason that leaves the most nodes to the CPU."""
    print_rows(overview(coverages), COLUMNS, Format.table)
