"""What other libraries print: warnings and log lines are kept for -v, because opdb's own message says what matters."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

#: What people give to see them.
VERBOSE = ("-v", "--verbose")
_shown = [False]


def hide_warnings(words: Sequence[str]) -> None:
    """Hides Python's and logged warnings in this process, unless one of a command's ``words`` or python -W asks for them."""
    if sys.warnoptions or any(word in VERBOSE for word in words):
        _shown[0] = True
        return
    warnings.showwarning = lambda *_args, **_more: None
    logging.disable(logging.WARNING)


@contextmanager
def quiet() -> Iterator[None]:
    """Drops all that other libraries log inside, errors too; not with -v, nor if the user asks PyTorch for logs (TORCH_LOGS)."""
    if _shown[0] or os.environ.get("TORCH_LOGS"):
        yield
        return
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
