"""The plug-in for ExecuTorch's Qualcomm backend.

import opdb.plugins.executorch

opdb.plugins.executorch.register()      # in a process started with the environment of `opdb executorch env`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdb.core.lazy import lazy

if TYPE_CHECKING:
    from opdb.plugins.executorch.delegate.partitioner import OpdbPartitioner
    from opdb.plugins.executorch.delegate.run import Runner
    from opdb.plugins.executorch.delegate.specs import Options
    from opdb.plugins.executorch.registration import (
        Registration,
        differences,
        errata,
        forget,
        forms,
        reasons,
        register,
        unregister,
    )

_REGISTRATION = "opdb.plugins.executorch.registration"
_DELEGATE = "opdb.plugins.executorch.delegate"
#: The module of each public name.
_MODULES = {
    "OpdbPartitioner": f"{_DELEGATE}.partitioner",
    "Options": f"{_DELEGATE}.specs",
    "Registration": _REGISTRATION,
    "Runner": f"{_DELEGATE}.run",
    "differences": _REGISTRATION,
    "errata": _REGISTRATION,
    "forget": _REGISTRATION,
    "forms": _REGISTRATION,
    "reasons": _REGISTRATION,
    "register": _REGISTRATION,
    "unregister": _REGISTRATION,
}

__all__ = [
    "OpdbPartitioner",
    "Options",
    "Registration",
    "Runner",
    "differences",
    "errata",
    "forget",
    "forms",
    "reasons",
    "register",
    "unregister",
]

__getattr__ = lazy(__name__, _MODULES)
