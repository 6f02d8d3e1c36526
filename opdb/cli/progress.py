"""Progress of long commands on standard error: a bar with the stage and the time on a terminal, else plain lines.

    with Stages(("export", "lower", "finalize")) as stages:
        stages("export")
        ...
        stages("lower")

Nothing is printed for what takes less than two seconds.  OPDB_PROGRESS=0 switches all of it off, OPDB_PROGRESS=all prints
every stage when it is done, however short.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

#: A stage is mentioned if it takes this long, in seconds; and again after STILL_SECONDS, then after twice as long, ...
PATIENCE = 2.0
STILL_SECONDS = 10.0
#: Set to 0 for no progress, to all for every stage.
VARIABLE = "OPDB_PROGRESS"


class Stages:
    """Shows one stage after another; a context manager.

    ``plan``: the names of the stages in order, for a bar that shows how far the command is.  QNN reports nothing while it
    finalizes, so that inside a stage only the time can be shown, and a number of parts where the stage counts them.
    """

    def __init__(self, plan: Sequence[str] = ()) -> None:
        self.seconds: list[tuple[str, str, float]] = []  # finished stages: (stage, graph, wall time)
        self._plan = tuple(plan)
        self._place: tuple[str, str] | None = None
        self._begun = self._mention = 0.0
        self._done, self._parts = 0, ""
        self._bar: Any = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        asked = os.environ.get(VARIABLE, "")
        self._shown = asked not in ("0", "off", "no")
        self._least = 0.0 if asked == "all" else PATIENCE  # seconds of a stage that is worth a line

    def __enter__(self) -> Stages:
        if self._shown and sys.stderr.isatty():
            self._bar = _bar(len(self._plan))
            self._bar.start()
        elif self._shown:
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._leave(done=error is None)
        self.end()

    def end(self) -> None:
        """Takes the bar away, before the results are printed."""
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, stage: str, graph: str = "", so_far: float = 0.0) -> None:
        """Begins a stage, unless it is the current one; VendorWorker calls this as ``progress``."""
        if (stage, graph) == self._place:
            return
        self._leave(done=True)
        with self._lock:
            self._place, self._begun, self._mention = (stage, graph), time.perf_counter(), PATIENCE
            self._parts = ""
        if self._bar is not None:
            if stage in self._plan:
                self._done = max(self._done, self._plan.index(stage))
            self._bar.update(self._bar.task_ids[0], description=_label(stage, graph), completed=self._done)

    def count(self, done: int, total: int, what: str = "") -> None:
        """Reports that ``done`` of ``total`` parts of the current stage are done; ``what``: where it is, e.g. "qnn-htp SM8650"."""
        if self._place is None:
            return
        self._parts = f"{done} of {total}{f', {what}' if what else ''}"
        if self._bar is not None:
            text = f"{_label(*self._place)} {self._parts}"
            counts = {} if self._plan else {"completed": done, "total": total}
            self._bar.update(self._bar.task_ids[0], description=text, **counts)

    def note(self, text: str) -> None:
        """Prints a line about what is done, above the bar."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        elif self._shown:
            _say(text)

    def _watch(self) -> None:
        """Mentions a stage while it runs."""
        while not self._ended.wait(0.25):
            with self._lock:
                passed = time.perf_counter() - self._begun
                if self._place is None or passed < self._mention:
                    continue
                first = self._mention == PATIENCE
                parts = f": {self._parts}" if self._parts else ""
                still = "" if first else f"{',' if parts else ':'} {passed:.0f} s so far"
                _say(f"{_label(*self._place)}{parts}{still or ' ...'}")
                self._mention = STILL_SECONDS if first else 2 * self._mention

    def _leave(self, *, done: bool) -> None:
        with self._lock:
            if self._place is None:
                return
            place, seconds = self._place, time.perf_counter() - self._begun
            self._place = None
        if not done:
            return
        self.seconds.append((*place, seconds))
        if seconds >= self._least and self._shown:
            self.note(f"{_label(*place)}: {seconds:.1f} s")


@contextmanager
def working(on: str) -> Iterator[Stages]:
    """Shows one stage, e.g. "compile the package"."""
    with Stages() as stages:
        stages(on)
        yield stages


def _bar(stages: int) -> Any:
    """A bar over ``stages`` stages, or over the parts of one; it disappears when done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
    )
    bar = Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
    )
    bar.add_task("", total=stages or None)
    return bar


#: What a library calls its stages, for people.
WORDS = {"open": "open the library", "save": "write"}


def _label(stage: str, graph: str) -> str:
    return f"{WORDS.get(stage, stage)} {graph}".rstrip()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
