"""Keeps warnings of other projects' code for -v: PyTorch's, torchao's, ExecuTorch's.  Errors are always shown."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Sequence

#: What people give to see them.
VERBOSE = ("-v", "--verbose")


def hide_warnings(words: Sequence[str]) -> None:
    """Hides Python's and logged warnings in this process, unless one of a command's ``words`` or python -W asks for them."""
    if sys.warnoptions or any(word in VERBOSE for word in words):
        return
    warnings.showwarning = lambda *_args, **_more: None
    logging.disable(logging.WARNING)
