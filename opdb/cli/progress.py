"""Progress of long commands: on a terminal a line that counts seconds, else a plain line per stage."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

#: Without a terminal, a running stage is reported after this time, then after twice as long, ...
STILL_SECONDS = 10.0


class Stages:
    """Shows one stage after another; a context manager.

    QNN reports nothing while it finalizes, so only the elapsed time of a stage can be shown.
    Output to a terminal goes to stderr; plain lines go to stdout, unless ``quiet``.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.seconds: list[tuple[str, str, float]] = []  # finished stages: (stage, graph, wall time)
        self._place: tuple[str, str] | None = None
        self._begun = self._mention = 0.0
        self._bar: Any = None

    def __enter__(self) -> Stages:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(done=error is None)
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, stage: str, graph: str = "", so_far: float = 0.0) -> None:
        """Begins a stage, or continues it after ``so_far`` seconds; VendorWorker calls this as ``progress``."""
        if (stage, graph) != self._place:
            self._leave(done=True)
            self._place, self._begun, self._mention = (stage, graph), time.perf_counter(), STILL_SECONDS
            if self._bar is not None:
                self._bar.add_task(_label(stage, graph))
        elif self._bar is None and so_far >= self._mention:
            self._mention *= 2
            self._say(f"{_label(stage, graph)}: {so_far:.0f} s so far")

    def count(self, done: int, total: int) -> None:
        """Reports that ``done`` of ``total`` parts of the current stage are done."""
        if self._place is None:
            return
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[-1], description=f"{_label(*self._place)} {done} of {total}")
        elif (so_far := time.perf_counter() - self._begun) >= self._mention:
            self._mention *= 2
            self._say(f"{_label(*self._place)}: {done} of {total}, {so_far:.0f} s so far")

    def _leave(self, *, done: bool) -> None:
        if self._place is None:
            return
        seconds = time.perf_counter() - self._begun
        if self._bar is not None:
            self._bar.remove_task(self._bar.task_ids[-1])
        if done:
            self.seconds.append((*self._place, seconds))
            self._say(f"{_label(*self._place)}: {seconds:.2f} s")
        self._place = None

    def _say(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        elif not self.quiet:
            print(text, flush=True)


@contextmanager
def waiting(for_what: str) -> Iterator[None]:
    """Shows a spinner with the seconds on a terminal, nothing elsewhere; it disappears when done."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task(for_what)
        yield


def _label(stage: str, graph: str) -> str:
    return f"{stage} {graph}".rstrip()
