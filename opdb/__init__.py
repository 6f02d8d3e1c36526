"""opdb: the op-spec database for Qualcomm QNN (AI Engine Direct).

These names are what other programs may rely on (docs/reference/python-api.md).  Each is imported when it is first used, so
``import opdb`` is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdb.core import old_names
from opdb.core.lazy import lazy
from opdb.core.version import __version__

if TYPE_CHECKING:
    from opdb.catalog.lookup import query, show
    from opdb.catalog.targets.target import Target
    from opdb.checks.model import check
    from opdb.core.errors import OpdbError
    from opdb.core.graph import QnnGraph
    from opdb.core.op_config import OpConfig
    from opdb.execute.model import compile, quantize, run
    from opdb.judge.validate import check_config
    from opdb.measure.cost.model import cost
    from opdb.plugins.executorch.registration import register

#: The module of each public name.
_MODULES = {
    "OpConfig": "opdb.core.op_config",
    "OpdbError": "opdb.core.errors",
    "QnnGraph": "opdb.core.graph",
    "Target": "opdb.catalog.targets.target",
    "check": "opdb.checks.model",
    "check_config": "opdb.judge.validate",
    "compile": "opdb.execute.model",
    "cost": "opdb.measure.cost.model",
    "quantize": "opdb.execute.model",
    "query": "opdb.catalog.lookup",
    "register": "opdb.plugins.executorch.registration",
    "run": "opdb.execute.model",
    "show": "opdb.catalog.lookup",
}

__all__ = [
    "OpConfig",
    "OpdbError",
    "QnnGraph",
    "Target",
    "__version__",
    "check",
    "check_config",
    "compile",
    "cost",
    "quantize",
    "query",
    "register",
    "run",
    "show",
]

__getattr__ = lazy(__name__, _MODULES)
old_names.install()


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
