"""Implements QNN's ``qti.aisw.converters.common.backend_opinfo`` with opdb's catalog.

ExecuTorch's quantizer queries it for the data types and encodings that an op may have on a chip; without Qualcomm's SDK
it has nothing to query and checks nothing.

    from opdb.plugins.executorch import backend_opinfo
    backend_opinfo.install()          # in a process with opdb's environment; before a QnnQuantizer is made

Properties that the rules leave open are None, never False: ExecuTorch treats an output's False as a requirement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from opdb.catalog.query.encodings import Encodings, Port, Ports, Variant
from opdb.catalog.store import Store
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.settings import database_url
from opdb.generated.constants.backends import BACKENDS, DEFAULT
from opdb.generated.constants.sdks import DEFAULT_SDK
from opdb.generated.constants.socs import SOCS
from opdb.plugins.executorch import env

_undo: list[Callable[[], None]] = []


def __getattr__(name: str) -> str:
    """The names of backends that ExecuTorch looks up, the same as in Qualcomm's module, e.g. HTP."""
    if name in BACKENDS:
        return name
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def install() -> None:
    """Replaces Qualcomm's module with this one, for every QnnQuantizer made from now on.

    Raises OpdbError if the process lacks the environment (``opdb executorch env``), the catalog is missing
    (``opdb init``), or it is already installed.
    """
    env.require_active()
    if _undo:
        raise OpdbError("opdb's backend_opinfo is installed already; call uninstall() first")
    BackendOpInfo(
        DEFAULT, next(iter(SOCS.values())).soc_model
    )  # raise now if the catalog is missing: ExecuTorch would hide it
    import sys

    from executorch.backends.qualcomm.quantizer import backend_opinfo_adapter as adapter

    was = adapter.backend_opinfo, adapter._HAS_BACKEND_OPINFO
    # Since 1.5, get_backend_opinfo looks for the SDK each time and calls the cached function.
    asked = getattr(adapter, "_get_backend_opinfo_cached", adapter.get_backend_opinfo)

    def undo() -> None:
        adapter.backend_opinfo, adapter._HAS_BACKEND_OPINFO = was
        asked.cache_clear()

    adapter.backend_opinfo, adapter._HAS_BACKEND_OPINFO = sys.modules[__name__], True
    asked.cache_clear()
    _undo.append(undo)


def uninstall() -> None:
    """Undoes ``install``; does nothing if it is not installed."""
    while _undo:
        _undo.pop()()


class BackendOpInfo:
    """The ops and types that one backend supports on one chip.

    ``soc_model``: QNN's number of the chip, e.g. 57 for SM8650.  ``store``: by default the catalog at ``OPDB_URL``.
    Raises OpdbError for an unknown backend or chip, and if the catalog is missing.
    """

    def __init__(
        self, backend: str, soc_model: int, *, store: Store | None = None, sdk: str = DEFAULT_SDK
    ) -> None:
        chip = next((chip for chip, s in SOCS.items() if s.soc_model == int(soc_model)), None)
        if chip is None:
            raise OpdbError(f"no SoC has the number {int(soc_model)}; 'opdb query socs' lists the known ones")
        self._ports = Ports(store or Store(database_url(None)), backend, chip, sdk)

    def get_all_supported_ops(self) -> list[str]:
        return self._ports.supported()

    def get_op_info(self, op_name: str) -> list[OpInfo]:
        """One for each combination of data types that ExecuTorch has names for; [] for an unsupported op."""
        found = (OpInfo(v) for v in self._ports.variants(op_name))
        return [info for info in found if info.nameable]


@dataclass(frozen=True)
class OpInfo:
    variant: Variant

    def get_input_info(self) -> list[DatatypeInfo]:
        return [DatatypeInfo(p) for p in self.variant.inputs]

    def get_output_info(self) -> list[DatatypeInfo]:
        return [DatatypeInfo(p) for p in self.variant.outputs]

    @property
    def nameable(self) -> bool:
        """True if ExecuTorch has a name for every data type."""
        known = _adaptor().Qnn_DataType_t
        return all(
            hasattr(known, BY_SHORT[p.dtype].macro) for p in (*self.variant.inputs, *self.variant.outputs)
        )


@dataclass(frozen=True)
class DatatypeInfo:
    port: Port

    def get_datatype(self) -> Any:
        return getattr(_adaptor().Qnn_DataType_t, BY_SHORT[self.port.dtype].macro)

    def is_applicable_from_current_dtype_onward(self) -> bool:
        """True if it stands for any number of tensors: a variadic slot."""
        return self.port.variadic

    def get_quant_constraint_info(self) -> list[QuantConstraintInfo]:
        found = (QuantConstraintInfo(e) for e in self.port.encodings)
        return [info for info in found if info.get_encoding_types()]


@dataclass(frozen=True)
class QuantConstraintInfo:
    encodings: Encodings

    def get_encoding_types(self) -> list[Any]:
        return list(self._types)

    def is_symmetric(self) -> bool | None:
        return self.encodings.symmetric or None

    def get_axis(self) -> Sequence[int] | None:
        return self.encodings.axes

    def is_math_invariant(self) -> bool | None:
        """True if the encoding must equal that of another tensor of the op; else None."""
        return self.encodings.shared or None

    def get_scale(self) -> float | None:
        """None: no rule requires a certain scale."""
        return None

    def get_offset(self) -> int | None:
        return None

    @cached_property
    def _types(self) -> tuple[Any, ...]:
        known = _adaptor().Qnn_QuantizationEncoding_t
        names = (f"QNN_QUANTIZATION_ENCODING_{name}" for name in self.encodings.names)
        return tuple(getattr(known, n) for n in names if hasattr(known, n))


def _adaptor() -> Any:
    """ExecuTorch's binding, whose enums its quantizer compares."""
    env.require_active()
    from executorch.backends.qualcomm.python import PyQnnManagerAdaptor

    return PyQnnManagerAdaptor
