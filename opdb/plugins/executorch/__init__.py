"""Everything that plugs into ExecuTorch's Qualcomm backend.

import opdb.plugins.executorch

opdb.plugins.executorch.register()      # in a process started with the environment of `opdb executorch env`
"""

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
