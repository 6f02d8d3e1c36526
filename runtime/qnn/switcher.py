"""Switches between several contexts, identified by file, at run time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from opdb.core.errors import OpdbError
from opdb.runtime.qnn.context import Context
from opdb.runtime.qnn.graph import Graph

if TYPE_CHECKING:
    import numpy as np

    from opdb.runtime.qnn.backend import Backend


class ContextSwitcher:
    """Context files of one backend: loaded on first use, the least recently used released first.

    ``keep`` is the number of contexts that stay loaded; switching to one of them costs nothing.  ``folder`` is the
    base of relative names (default: the current folder).  A file that changes after loading is only reread after its
    context was released.  Threads may share a switcher: they take turns.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        keep: int = 4,
        folder: Path | str | None = None,
        allow_other_build: bool = False,
    ) -> None:
        if keep < 1:
            raise OpdbError(f"a switcher keeps at least one context loaded, not {keep}")
        self.backend = backend
        self.keep = keep
        self.loads = 0  # the number of times a file was read
        self._folder = Path() if folder is None else Path(folder)
        self._allow_other_build = allow_other_build
        self._contexts: OrderedDict[Path, Context] = OrderedDict()  # the most recently used last
        self._lock = threading.RLock()

    @property
    def loaded(self) -> tuple[Path, ...]:
        """The files whose contexts are loaded, the most recently used last."""
        with self._lock:
            return tuple(path for path, context in self._contexts.items() if not context.closed)

    def context(self, file: Path | str) -> Context:
        """The context of a file.  A later switch may release it: keep the name, not the context.

        Raises the errors of ``Backend.load_context``; loaded contexts then stay loaded.
        """
        path = (self._folder / file).resolve()
        with self._lock:
            context = self._contexts.get(path)
            if context is None or context.closed:
                self._contexts.pop(path, None)
                context = self.backend.load_context(path, allow_other_build=self._allow_other_build)
                self.loads += 1
                self._contexts[path] = context
                while len(self._contexts) > self.keep:
                    self._contexts.popitem(last=False)[1].close()
            self._contexts.move_to_end(path)
            return context

    def graph(self, file: Path | str, name: str) -> Graph:
        """The graph with this name in a file.  It lives as long as its context; see ``context``."""
        with self._lock:
            return self.context(file).graph(name)

    def execute(
        self,
        file: Path | str,
        graph: str,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, np.ndarray[Any, Any]] | None = None,
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Switches to a graph and runs it once; see ``Graph.execute``."""
        with self._lock:  # no other thread's switch releases the context in between
            return self.graph(file, graph).execute(inputs, outputs)

    def release(self, file: Path | str) -> None:
        """Releases the context of a file, if it is loaded."""
        with self._lock:
            context = self._contexts.pop((self._folder / file).resolve(), None)
            if context is not None:
                context.close()

    def close(self) -> None:
        """Releases all contexts; safe to repeat.  Later use loads them again."""
        with self._lock:
            while self._contexts:
                self._contexts.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
