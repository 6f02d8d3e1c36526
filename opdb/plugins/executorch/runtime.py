"""The runtime of the executorch wheel, without its exporter."""

from __future__ import annotations

import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

from opdb.plugins.executorch import env

#: The exporter; portable_lib imports a warning from it, and with it all of it, which takes four seconds.
EXPORTER = "executorch.exir"


def portable_lib() -> Any:
    """ExecuTorch's bindings.  Without the exporter if that was not imported before; it can still be imported later."""
    import torch  # noqa: F401  loads the libraries that the bindings need

    if EXPORTER in sys.modules:
        from executorch.extension.pybindings import portable_lib

        return portable_lib
    import executorch

    empty = ModuleType(EXPORTER)
    empty.__path__ = [f"{place}/exir" for place in executorch.__path__]
    sys.modules[EXPORTER] = empty
    try:
        from executorch.extension.pybindings import portable_lib
    finally:
        for name in [n for n in sys.modules if n == EXPORTER or n.startswith(f"{EXPORTER}.")]:
            del sys.modules[name]
        if getattr(executorch, "exir", None) is empty:
            del executorch.exir
    return portable_lib


def load(pte: bytes) -> Any:
    """Loads a program into the runtime, which holds no reference to ``pte``."""
    env.require_active()
    runtime = portable_lib()
    with suppress(
        ImportError
    ):  # for CPU nodes between quantized tensors; before the program, which looks them up
        import executorch.kernels.quantized  # noqa: F401
    return runtime._load_for_executorch_from_buffer(pte)
