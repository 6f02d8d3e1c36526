"""Replaces ExecuTorch's builders by opdb's, and restores them.

    import opdb.plugins.executorch

    opdb.plugins.executorch.register()

Patches change a release's private parts (opdb.plugins.executorch.patches); `opdb executorch patches`
lists the ones that apply.  After that, ExecuTorch's own flow (``to_edge_transform_and_lower_to_qnn``) works as before, for the
backend and SoC of its compiler specs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.judge.errata.policy import known_errata
from opdb.judge.errata.report import Extra, Met
from opdb.plugins.executorch import env
from opdb.runtime.forms import Lowered, NodeView, Reason, Rejected

if TYPE_CHECKING:
    from opdb.plugins.executorch.builder.builder_differences import Difference
    from opdb.plugins.executorch.patches.registry import State

#: ``lower(view, target)``: the ops for a node, or the reasons why there are none.  ``target`` is passed on as given.
Lower = Callable[[NodeView, Any], Lowered | Rejected]


@dataclass(frozen=True)
class Registration:
    """The result of ``register``."""

    #: edge names that now have opdb's builders; e.g. aten.view_copy.default
    builders: tuple[str, ...]
    #: the ones among them without an ExecuTorch builder
    added: tuple[str, ...]
    #: operator -> the reason why it could not be taken over; e.g. this PyTorch does not have it
    left_out: Mapping[str, str] = field(default_factory=dict)
    #: the state of every patch on the installed ExecuTorch
    patches: tuple[State, ...] = ()


_forms: dict[str, str] = {}
_reasons: dict[str, tuple[Reason, ...]] = {}
_errata: dict[str, Met] = {}
_differences: list[Difference] = []
_undo: list[Callable[[], None]] = []


def register(
    *,
    without: Iterable[str] = (),
    target: Any = None,
    targets: Iterable[str] | None = None,
    lower: Lower | None = None,
    preserve_ops: Iterable[str] | None = None,
    keep_stock: bool = False,
    keep_flow: bool = False,
    execution: str = "device",
    errata: str | None = None,
    ignore_errata: Iterable[str] = (),
    whole: Iterable[str] | None = None,
) -> Registration:
    """Uses opdb's builders for all ATen targets that its specs map, until ``unregister``.

    ``without``: ATen targets that keep ExecuTorch's builder, e.g. ["aten.relu.default"].
    ``targets``: take over only these ATen targets.
    ``target``: the opdb.catalog.targets.target.Target whose rules decide; by default the backend and SoC of each program's
    compiler specs.
    ``execution``: "device" or "emulator", the target of compiled programs.  ``errata``: the policy on faults of QNN's library
    ("avoid", "warn", "ignore"; the default depends on the execution, opdb.judge.errata.policy).  ``ignore_errata``: ids of faults to
    ignore.  A given ``target`` has its own values of these three.
    ``lower``: called with ``target`` instead of opdb.lower.select.lower.
    ``preserve_ops``: operators that are not decomposed if ``lower`` accepts them; by default all of ``targets`` that can
    be.  ``whole`` is its old name.
    ``keep_flow``: take over builders only; ExecuTorch's passes, layouts, and quantizer stay, except for operators that
    would end the export.
    ``keep_stock``: as ``keep_flow``, and ExecuTorch's builders stay in use where it has them; ``differences`` returns what
    opdb's would have built.

    Raises OpdbError if the process lacks the environment (opdb.plugins.executorch.env), for an executorch release that is not
    supported, for an unknown operator, and if builders are registered already.

    In a process with the environment of `opdb executorch env`:

    >>> import opdb
    >>> done = opdb.register(targets=["aten._softmax.default"])
    >>> done.builders
    ('aten._softmax.default',)
    >>> from opdb.plugins.executorch import unregister
    >>> unregister()
    """
    if whole is not None:
        warnings.warn("register(whole=...) is called preserve_ops now", DeprecationWarning, stacklevel=2)
        preserve_ops = whole
    env.require_active()
    if _undo:
        raise OpdbError("opdb's builders are registered already; call unregister() first")
    from opdb.plugins.executorch.builder import decider, operators
    from opdb.plugins.executorch.patches.registry import Context, states

    asked_of = states()
    if lower is None:
        import opdb.lower.select

        lower = opdb.lower.select.lower
    wanted, left_out = _wanted(targets, frozenset(without))
    if target is not None and (execution, errata, tuple(ignore_errata)) != ("device", None, ()):
        raise OpdbError(
            "target and execution, errata or ignore_errata: give them to the target; "
            "e.g. Target('HTP', 'SM8650', execution='emulator')"
        )
    asked = Target(execution=execution, errata=errata, ignored=known_errata(ignore_errata))
    decide = decider.Decider(lower, target, asked)
    forget()
    names = {edge: name for name in wanted for edge in operators.edge_names(name)}
    names |= {name: name for name in wanted}  # a spec of the copying form itself takes precedence
    try:
        compared = _differences.append if keep_stock else None
        undo, stock = decider.builders(names, decide, _accept, _reject, compared)
        _undo.append(undo)
        context = Context(
            wanted, {} if keep_stock else names, stock, decide, _reject, _forms,
            wanted if preserve_ops is None else tuple(preserve_ops),
        )  # fmt: skip
        for state in asked_of:
            if state.applied and (state.patch.always or not (keep_stock or keep_flow)):
                _undo.append(state.patch.apply(context))
    except BaseException:
        unregister()
        raise
    _warn_of_another_release(asked_of)
    return Registration(tuple(names), tuple(n for n in names if n not in stock), left_out, asked_of)


def _warn_of_another_release(asked_of: tuple[State, ...]) -> None:
    version = env.version()
    if version not in env.RELEASES:
        applied = sum(state.applied for state in asked_of)
        warnings.warn(
            f"executorch {version}: opdb was run with {' and '.join(env.RELEASES)}; of its "
            f"{counted(len(asked_of), 'patch', 'patches')} {applied} apply, which `opdb executorch patches` lists",
            stacklevel=3,
        )


def unregister() -> None:
    """Restores what ``register`` replaced; does nothing if nothing is registered."""
    while _undo:
        _undo.pop()()


def reasons() -> dict[str, tuple[Reason, ...]]:
    """Edge nodes that were rejected since ``register`` or ``forget``, with all reasons."""
    return dict(_reasons)


def forms() -> dict[str, str]:
    """Edge nodes that were accepted, with the form taken; e.g. LayerNorm, or a decomposition's name."""
    return dict(_forms)


def errata() -> dict[str, Met]:
    """Accepted edge nodes whose ops avoid errata of the library or may show them (opdb.judge.errata.policy)."""
    return dict(_errata)


def differences() -> tuple[Difference, ...]:
    """ExecuTorch's and opdb's ops compared, for each node that both have a builder for; only with ``keep_stock``."""
    return tuple(_differences)


def forget() -> None:
    """Clears ``reasons``, ``forms``, ``errata``, and ``differences``; node names repeat from model to model."""
    _errata.clear()
    _differences.clear()
    _reasons.clear()
    _forms.clear()


def _wanted(targets: Iterable[str] | None, without: frozenset[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The targets to take over; and, with the reason, targets of the specs that this PyTorch lacks."""
    from opdb.plugins.executorch.builder import operators

    if targets is not None:
        chosen = tuple(targets)
        for name in (*chosen, *without):
            operators.overload(name)
        return tuple(t for t in chosen if t not in without), {}
    from opdb.generated.builders import TARGETS
    from opdb.programs import torch_ops

    known = (*TARGETS, *torch_ops.targets())
    for name in without:
        operators.overload(name)
        if name not in known:
            raise OpdbError(f"without {name}: no spec maps it; `opdb executorch table` lists those that do")
    missing = {}
    for name in known:
        try:
            operators.overload(name)
        except OpdbError as e:
            missing[name] = str(e)
    return tuple(t for t in known if t not in without and t not in missing), missing


def _accept(node: str, lowered: Lowered, extra: Mapping[str, Extra | None]) -> None:
    _reasons.pop(node, None)
    _forms[node] = lowered.form
    _errata.pop(node, None)
    if lowered.avoided or lowered.warned:
        _errata[node] = Met(lowered.avoided, lowered.warned, extra)


def _reject(node: str, why: tuple[Reason, ...]) -> None:
    _forms.pop(node, None)
    _errata.pop(node, None)
    _reasons[node] = why
