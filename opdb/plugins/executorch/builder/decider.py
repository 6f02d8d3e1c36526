"""Chooses the form of an operator for the current program's target, and registers the builders.

``Decider`` calls ``lower`` with the target of the program's compiler specs; ``builders`` puts opdb's builder classes into
ExecuTorch's registry of builders (``node_visitor_manager``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from opdb.catalog.targets.target import Target
from opdb.judge.errata.policy import active
from opdb.judge.errata.report import Extra
from opdb.lower.errata_cost import extras
from opdb.plugins.executorch import env
from opdb.runtime.forms import Lowered, NodeView, Reason, Rejected


class Decider:
    """Calls ``lower`` with the current program's target: a given one, or the one in its compiler specs.

    ``asked``: the execution and errata policy for targets from compiler specs.
    """

    def __init__(
        self, lower: Callable[[NodeView, Any], Lowered | Rejected], target: Any, asked: Target
    ) -> None:
        self._lower = lower
        self._given = target
        self._asked = asked
        self._followed = threading.local()

    def follow(self, compiler_specs: Any) -> None:
        if self._given is None:
            self._followed.target = target_of(compiler_specs, self._asked)

    def __call__(self, view: NodeView) -> Lowered | Rejected:
        return self._lower(view, self._target())

    def extra(self, view: NodeView, lowered: Lowered) -> Mapping[str, Extra | None]:
        """The extra cost of avoiding the errata that ``lowered`` avoids or may show (opdb.judge.errata.report.Met)."""
        return extras(lowered, lambda target: self._lower(view, target), self._target())

    def avoids(self, erratum: str) -> bool:
        """True if the program's target has the erratum and wants it avoided; always True if the target is not a Target."""
        target = self._target()
        return not isinstance(target, Target) or active(erratum, target)

    def _target(self) -> Any:
        return getattr(self._followed, "target", None) if self._given is None else self._given


def target_of(compiler_specs: Any, asked: Target) -> Target:
    """The target that ExecuTorch's compiler specs name, with the execution and errata policy of ``asked``."""
    from executorch.backends.qualcomm.partition.utils import generate_qnn_executorch_option
    from executorch.backends.qualcomm.serialization.qc_schema_serialize import flatbuffer_to_option

    options = flatbuffer_to_option(generate_qnn_executorch_option(compiler_specs))
    backend = options.backend_options.backend_type.name.removeprefix("k").removesuffix("Backend").upper()
    soc = options.soc_info.soc_model.name
    target = replace(asked, backend=backend, soc=None if soc.startswith("UNKNOWN") else soc, sdk=_sdk())
    target.context()  # raises now for an SoC that is not in the catalog
    return target


@cache
def _sdk() -> str:
    """The version of the QNN libraries of this process; e.g. 2.47."""
    import executorch.backends.qualcomm.python.PyQnnManagerAdaptor as PyQnn

    library = Path(env.require_active()) / "lib" / env.HOST / env.HTP
    return ".".join(PyQnn.GetQnnSdkBuildId(str(library)).removeprefix("v").split(".")[:2])


def builders(
    names: Mapping[str, str],
    decide: Decider,
    accept: Callable[[str, Lowered, Mapping[str, Extra | None]], None],
    reject: Callable[[str, tuple[Reason, ...]], None],
    compared: Callable[[Any], None] | None = None,
) -> tuple[Callable[[], None], Mapping[str, Any]]:
    """Registers opdb's builder for every edge name in ``names``; returns the undo function and ExecuTorch's builders by edge name.

    ``compared``: if given, ExecuTorch's builders go on building, and the differences are passed to it.
    """
    from executorch.backends.qualcomm.builders import node_visitor_manager

    from opdb.plugins.executorch.builder.visitor import OpdbVisitor

    registry = node_visitor_manager._node_visitor_dict
    before = dict(registry)
    stock = {edge: before[edge] for edge in names if edge in before}
    made = {
        "target": list(names),
        "lower": staticmethod(decide),
        "names": dict(names),
        "stock": stock,
        "accept": staticmethod(accept),
        "reject": staticmethod(reject),
        "compared": None if compared is None else staticmethod(compared),
    }
    node_visitor_manager.register_node_visitor(type("RegisteredVisitor", (OpdbVisitor,), made))

    def undo() -> None:
        for edge in names:
            registry.pop(edge, None)
        registry.update(stock)

    return undo, before
