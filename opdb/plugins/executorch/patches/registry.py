"""opdb's changes to ExecuTorch: one patch for each, with the releases that need it.

A patch has an id, the symbols that it replaces, a kind, and a self-test that asks the unpatched release whether
it still needs the patch.  On a release that opdb was tested with (env.RELEASES) the range of releases decides, and the tests keep
range and self-test consistent; on a later one the self-test decides, and the symbols must exist.

=========  ============================================================================================
``bug``     ExecuTorch computes another number than PyTorch, raises at a valid program, or makes one that
            cannot run; ``upstream/`` has the reproduction and the change
``feature`` ExecuTorch has no hook for something that opdb's builders need
``policy``  ExecuTorch decides otherwise on purpose; with opdb's builders the other decision is right
=========  ============================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, MutableMapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from opdb.plugins.executorch import env
from opdb.plugins.executorch.patches.undo import Undo
from opdb.runtime.forms import Reason

if TYPE_CHECKING:
    from opdb.plugins.executorch.builder.decider import Decider

Kind = Literal["bug", "feature", "policy"]
KINDS: tuple[Kind, ...] = ("bug", "feature", "policy")
BACKEND = "executorch.backends.qualcomm."
#: The modules with patches, in the order in which a registration applies them.
MODULES = (
    "builders",
    "partitioner",
    "results",
    "inputs_outputs",
    "layouts",
    "encodings",
    "quantizer",
    "crashes",
    "values",
    "casts",
    "whole_operators",
)


@dataclass(frozen=True)
class Context:
    """The arguments of a registration for its patches."""

    #: ATen names of the operators that opdb's builders take; ``names``: edge name -> ATen name
    targets: tuple[str, ...]
    names: Mapping[str, str]
    #: edge names for which ExecuTorch has builders
    stock: Container[str]
    decide: Decider
    reject: Callable[[str, tuple[Reason, ...]], None]
    forms: MutableMapping[str, str]
    #: the operators that stay whole if ``decide`` accepts them
    preserve_ops: tuple[str, ...]


@dataclass(frozen=True)
class Patch:
    id: str
    kind: Kind
    why: str  # what happens without it
    symbols: tuple[str, ...]  # "module:name.attribute"
    apply: Callable[[Context], Undo]
    needed: Callable[
        [], bool
    ]  # asks the unpatched release; run with the environment of opdb.plugins.executorch.env
    since: str = env.RELEASES[0]
    until: str | None = None  # the first release that is correct without it, or has another patch for it
    upstream: str | None = None  # issue or pull request of pytorch/executorch
    #: also applied if ExecuTorch's flow is kept (opdb.plugins.executorch.register)
    always: bool = False

    @property
    def releases(self) -> str:
        return f">={self.since}" + (f",<{self.until}" if self.until else "")


@dataclass(frozen=True)
class State:
    """The state of a patch on the installed release.  ``why``: the reason for leaving it out; "" if it is applied."""

    patch: Patch
    why: str

    @property
    def applied(self) -> bool:
        return not self.why


_patches: dict[str, Patch] = {}


def patch(
    id_: str,
    kind: Kind,
    why: str,
    *symbols: str,
    needed: Callable[[], bool],
    since: str = env.RELEASES[0],
    until: str | None = None,
    upstream: str | None = None,
    always: bool = False,
) -> Callable[[Callable[[Context], Undo]], Callable[[Context], Undo]]:
    """Decorates the function that applies a patch.  ``symbols``: below executorch.backends.qualcomm, or in full."""

    def made(apply: Callable[[Context], Undo]) -> Callable[[Context], Undo]:
        full = tuple(s if s.startswith(("executorch.", "torch")) else BACKEND + s for s in symbols)
        assert id_ not in _patches, id_
        _patches[id_] = Patch(id_, kind, why, full, apply, needed, since, until, upstream, always)
        return apply

    return made


@cache
def patches() -> tuple[Patch, ...]:
    """All patches in the order of application.  Imports torch, not executorch."""
    room = __name__.rpartition(".")[0]
    for module in MODULES:
        import_module(f"{room}.{module}")
    order = {f"{room}.{module}": place for place, module in enumerate(MODULES)}
    return tuple(sorted(_patches.values(), key=lambda p: order[p.apply.__module__]))


def found(symbol: str) -> bool:
    """True if the installed release has a symbol."""
    module, _, names = symbol.partition(":")
    try:
        owner: Any = import_module(module)
        for name in names.split("."):
            owner = getattr(owner, name)
    except (ImportError, AttributeError):
        return False
    return True


def state(one: Patch, version: str | None = None) -> State:
    """The state of a patch on the installed release, in a process with the environment.

    ``version``: the release to assume; for one that opdb was not tested with, the self-test decides.
    """
    version = env.version() if version is None else version
    release = env.numbers(version)
    if release < env.numbers(one.since):
        return State(one, f"of {one.since} and later")
    if one.until and release >= env.numbers(one.until):
        return State(one, f"of releases before {one.until}")
    gone = [symbol for symbol in one.symbols if not found(symbol)]
    if gone:
        return State(one, f"the release has no {gone[0]}")
    if version in env.RELEASES:
        return State(one, "")
    try:
        return State(one, "" if one.needed() else "the release passes its self-test without it")
    except Exception as error:  # anything that another release raises: the patch proves nothing there
        return State(one, f"its self-test ends with {type(error).__name__}: {error}".splitlines()[0])


@cache
def states(version: str | None = None) -> tuple[State, ...]:
    """The states of all patches; call this before applying any, since self-tests need the unpatched release."""
    return tuple(state(one, version) for one in patches())
