"""The table of executors, which answer conformance cases, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from opdb.core import plugins
from opdb.core.errors import OpdbError
from opdb.generated.constants.backends import ASKED

if TYPE_CHECKING:
    from opdb.measure.conformance.executors.base import Executor
    from opdb.spec.catalog import Catalog


def _python(soc: str, catalog: Catalog) -> Executor:
    from opdb.measure.conformance.executors.validators import PythonExecutor

    return PythonExecutor()


def _c(soc: str, catalog: Catalog) -> Executor:
    from opdb.measure.conformance.executors.validators import CExecutor

    return CExecutor()


def _added(name: str, soc: str, catalog: Catalog) -> Executor:
    made: Executor = plugins.load("EXECUTORS", name)(catalog)
    return made


def _torch(soc: str, catalog: Catalog) -> Executor:
    from opdb.measure.conformance.executors.torch_oracle import TorchExecutor

    return TorchExecutor()


def _onnx(soc: str, catalog: Catalog) -> Executor:
    from opdb.measure.conformance.executors.onnx_reference import OnnxExecutor

    return OnnxExecutor()


def _qnn(name: str, backend: str, soc: str, catalog: Catalog) -> Executor:
    from opdb.measure.conformance.executors.vendor import VendorExecutor

    return VendorExecutor(name, backend, catalog, soc if name in PER_SOC else "")


#: QNN's libraries that run on this machine, e.g. qnn-htp.
LIBRARIES = {f"qnn-{b.name.lower()}": b for b in ASKED}
#: name -> a function of the SoC and of the catalog, from which some build kernels.  Each raises MissingExtra, naming itself,
#: if its extra is not installed.
EXECUTORS: dict[str, Callable[[str, Catalog], Executor]] = {
    "python": _python,
    "c": _c,
    "torch": _torch,
    "onnx.reference": _onnx,
    **{name: partial(_qnn, name, b.name) for name, b in LIBRARIES.items()},
}
#: The default executors.  Those of plug-ins need more, e.g. Hexagon's compiler.
USUAL = tuple(EXECUTORS)
EXECUTORS |= {name: partial(_added, name) for name in plugins.names("EXECUTORS")}
PER_SOC = tuple(name for name, b in LIBRARIES.items() if b.per_soc)


def require_known(name: str) -> None:
    """Raises OpdbError for a name that is not in EXECUTORS."""
    if name not in EXECUTORS:
        raise OpdbError(f"no executor '{name}'; known: {', '.join(EXECUTORS)}")


def open_executors(name: str, socs: tuple[str, ...], catalog: Catalog) -> Iterator[Executor]:
    """Yields the executor of that name, once per SoC if it depends on one.

    Raises OpdbError for an unknown name, MissingExtra (naming the executor) if it is unavailable.
    """
    require_known(name)
    for soc in socs if name in PER_SOC else ("",):
        yield EXECUTORS[name](soc, catalog)
