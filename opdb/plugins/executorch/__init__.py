"""Everything that plugs into ExecuTorch's Qualcomm backend.

import opdb.plugins.executorch

opdb.plugins.executorch.register()      # in a process started with the environment of `opdb executorch env`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdb.core.lazy import lazy

if TYPE_CHECKING:
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

__all__ = ["Registration", "differences", "errata", "forget", "forms", "reasons", "register", "unregister"]

__getattr__ = lazy(__name__, dict.fromkeys(__all__, "opdb.plugins.executorch.registration"))
