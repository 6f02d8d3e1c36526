"""Typed options for lowering a module, and the ExecuTorch compile specs that carry them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from executorch.exir.backend.compile_spec_schema import CompileSpec

from opdb.catalog.targets.target import EXECUTIONS, POLICIES, Target, half
from opdb.core.errors import OpdbError
from opdb.core.guess import did_you_mean
from opdb.generated.constants.backends import BACKENDS
from opdb.lower.passes import check_names
from opdb.runtime.qnn.context import SHARES_WEIGHTS
from opdb.runtime.qnn.graph import GraphOptions

#: opdb's own C kernels, instead of a backend of QNN.
KERNELS = "KERNELS"
PAYLOADS = ("context", "graph")
WEIGHTS = ("named", "blob")
STATES = ("delegate", "program")
RESULTS = ("program", "all")
PREFIX = "opdb."


@dataclass(frozen=True)
class Options:
    """The target of the nodes and how they run.

    ``backend``: one of QNN's that run on this machine or emulate a chip here (HTP, CPU), or KERNELS.
    ``soc``, ``sdk``, ``execution``, ``errata``, ``ignored``: as in opdb.catalog.targets.target.Target.
    ``payload``: "context" is prepared here, "graph" when the module is loaded; KERNELS only has graphs.
    ``precision``: "fp16" computes float32 in float16; the default for backends that cannot do otherwise.
    ``optimization``, ``vtcm_mb``, ``hvx_threads``: see opdb.runtime.qnn.graph.GraphOptions.
    ``weights``: "named" puts large constants outside of the blob, where methods share them; "blob" puts them inside.
    ``mutable_buffers``: "delegate" keeps buffers that only its nodes use; "program" leaves all to ExecuTorch, which
    can share them between methods.
    ``results``: "all" makes every tensor inside the graph a result, which `opdb debug` compares with PyTorch; libraries then
    fuse fewer ops.  The C kernels show theirs anyway.
    ``without``: names of passes of opdb.lower.passes to skip.
    ``leave``: ATen targets not to take, e.g. aten.softmax.int.

    Raises OpdbError for an invalid value.
    """

    backend: str = KERNELS
    soc: str | None = None
    sdk: str | None = None
    execution: str = "device"
    errata: str | None = None
    ignored: tuple[str, ...] = ()
    payload: str | None = None
    precision: str | None = None
    optimization: int | None = None
    vtcm_mb: int | None = None
    hvx_threads: int | None = None
    weights: str = "named"
    mutable_buffers: str = "delegate"
    results: str = "program"
    without: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        backend = self.backend.upper()
        if backend != KERNELS:
            self._check_backend(backend)
        elif self.soc or self.precision or self.payload == "context":
            raise OpdbError(
                f"{KERNELS}: the C kernels have no soc, no precision and no context; leave them out"
            )
        object.__setattr__(self, "backend", backend)
        for name, allowed in (
            ("execution", EXECUTIONS),
            ("errata", POLICIES),
            ("payload", PAYLOADS),
            ("weights", WEIGHTS),
            ("mutable_buffers", STATES),
            ("results", RESULTS),
        ):
            if (value := getattr(self, name)) is not None and value not in allowed:
                raise OpdbError(f"{name}: {value!r} is not a valid value; one of {', '.join(allowed)}")
        check_names(self.without)
        self.target.context()  # raises for an unknown SoC or SDK
        if backend != KERNELS:
            self.graph_options.check(backend)

    def _check_backend(self, backend: str) -> None:
        record = BACKENDS.get(backend)
        if record is None:
            known = ", ".join((*BACKENDS, KERNELS))
            raise OpdbError(f"unknown backend {self.backend!r}; known: {known}")

    @property
    def target(self) -> Target:
        """The target for the validators; without a backend for the C kernels."""
        if self.backend == KERNELS:
            return Target(None, sdk=self.sdk)
        return Target(self.backend, self.soc, self.sdk, self.execution, self.errata, frozenset(self.ignored))

    @property
    def prepared(self) -> bool:
        """True if the payload is a context."""
        return self.backend != KERNELS and self.payload != "graph"

    @property
    def shares(self) -> bool:
        """True if one context for all methods stores equal weights once.

        The emulation cannot load such a context: "Shared weights buffer isn't supported on this platform" (1000).
        """
        return (
            self.prepared
            and self.weights == "named"
            and self.backend == SHARES_WEIGHTS
            and self.execution == "device"
        )

    @property
    def graph_options(self) -> GraphOptions:
        """Options with which the library prepares the graphs."""
        precision = self.precision or ("fp16" if half(self.backend) else None)
        return GraphOptions(precision, self.optimization, self.vtcm_mb, self.hvx_threads)

    def compile_specs(self) -> list[CompileSpec]:
        """The compile specs of options that differ from the default, in field order; equal options give equal bytes."""
        made = [CompileSpec(f"{PREFIX}backend", self.backend.encode())]
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name != "backend" and value != f.default:
                text = ",".join(value) if isinstance(value, tuple) else str(value)
                made.append(CompileSpec(PREFIX + f.name, text.encode()))
        return made


def options_of(specs: Sequence[CompileSpec]) -> Options:
    """The options in compile specs.

    Raises OpdbError for an unknown key, a repeated one, and a value of the wrong type.
    """
    given: dict[str, Any] = {}
    names = [f.name for f in fields(Options)]
    for spec in specs:
        name = spec.key.removeprefix(PREFIX)
        if spec.key != PREFIX + name or name not in READ:
            known = [PREFIX + n for n in names]
            hint = did_you_mean(PREFIX + name, known, lists=f"known: {', '.join(known)}")
            raise OpdbError(f"unknown compile spec {spec.key!r}{hint}")
        if name in given:
            raise OpdbError(f"the compile spec {spec.key} is there twice; give it once")
        try:
            given[name] = READ[name](bytes(spec.value).decode())
        except ValueError:
            raise OpdbError(
                f"the compile spec {spec.key}: {bytes(spec.value)!r} is not {KINDS[name]}"
            ) from None
    return Options(**given)


def _several(text: str) -> tuple[str, ...]:
    return tuple(t for t in text.split(",") if t)


_BY_TYPE: dict[str, tuple[Callable[[str], Any], str]] = {
    "str": (str, "UTF-8"),
    "str | None": (str, "UTF-8"),
    "int | None": (int, "a whole number"),
    "tuple[str, ...]": (_several, "UTF-8"),
}
READ = {f.name: _BY_TYPE[str(f.type)][0] for f in fields(Options)}
KINDS = {f.name: _BY_TYPE[str(f.type)][1] for f in fields(Options)}
