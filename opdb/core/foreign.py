"""Log lines and warnings of other libraries: kept from the terminal, where opdb's own message says what matters, unless -v asks for them."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_asked = [False]


def show() -> None:
    """Lets everything through from now on: -v."""
    _asked[0] = True


@contextmanager
def quiet() -> Iterator[None]:
    """Drops what other libraries log and warn of inside; not after ``show``, nor if the user asks PyTorch for logs (TORCH_LOGS)."""
    if _asked[0] or os.environ.get("TORCH_LOGS"):
        yield
        return
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
