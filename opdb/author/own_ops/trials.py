"""Runs the samples of a user's own op with its package in QNN's HTP backend, and compares with a reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from opdb.author.own_ops.references import Reference
from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.graph import single
from opdb.core.op_config import OpConfig
from opdb.execute.libraries.client import VendorWorker
from opdb.generated.constants.backends import DEFAULT
from opdb.judge.samples import kernel_types, sample_config, slot_of
from opdb.judge.trial import validator_of
from opdb.judge.validate import judge
from opdb.measure.conformance import data, tolerance
from opdb.runtime.qnn.libraries import Libraries, discover
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp


@dataclass(frozen=True)
class Trial:
    """One sample in one data type.  ``outcome``: right, wrong, ran (without a reference), refused, failed, taken (validated)."""

    name: str  # e.g. sample 0, f32
    outcome: str
    text: str = ""
    ulp: float = 0.0


def configs(catalog: Catalog, op: str, soc: str) -> Iterator[tuple[str, OpConfig, str]]:
    """Name and op config of each sample in each type of the kernel; and the reason if the rules refuse it, or ""."""
    compiled = catalog.compiled(op)
    validator = validator_of(compiled)
    kernel = compiled.definition.kernel
    target = Target(DEFAULT, soc, execution="emulator").spelled()
    shown = catalog.backends[DEFAULT].op_packages
    for sample in range(len(compiled.definition.samples)):
        for dtype in kernel.dtypes if kernel is not None else ():
            config = sample_config(compiled, sample, kernel_types(compiled, dtype), validator.infer)
            config = _with_static(compiled, config)
            hidden = {t.dtype for t in (*config.inputs, *config.outputs)} - set(shown.types if shown else ())
            if hidden:
                yield f"sample {sample}, {dtype}", config, f"{DEFAULT} has no {', '.join(sorted(hidden))}"
                continue
            found = [v for v in judge(validator, config, target).violations if not v.warning]
            broken = [v for v in found if v.rule != f"{op}.TYPES_{DEFAULT}"]
            why = f"{broken[0].rule}: {broken[0].message}" if broken else ""
            yield f"sample {sample}, {dtype}", config, why


def _with_static(compiled: CompiledOp, config: OpConfig) -> OpConfig:
    """Makes inputs static if the spec requires it."""
    static = {s.name for s in compiled.inputs if s.definition.static}
    held = (
        replace(t, type="STATIC") if slot_of(t) in static and t.type == "NATIVE" else t for t in config.inputs
    )
    return replace(config, inputs=tuple(held))


def installed() -> list[Libraries]:
    """The installed libraries with the backend, one of each version.  Raises OpdbError if there are none."""
    from opdb.runtime.qnn.libraries import installed as first

    found: dict[str, Libraries] = {}
    for libraries in discover([]):
        if DEFAULT in libraries.present:
            found.setdefault(libraries.qnn_version(), libraries)
    if not found:
        first()  # raises with instructions if nothing is installed
        raise OpdbError(f"no installed version of QNN has its {DEFAULT} backend")
    return list(found.values())


def run(
    catalog: Catalog,
    op: str,
    worker: VendorWorker,
    soc: str,
    reference: Reference | None,
    only_validate: bool = False,
) -> list[Trial]:
    """The outcome of each sample in a worker for ``soc`` with the op's package.

    ``only_validate``: True if the kernel is not written yet.
    """
    made: list[Trial] = []
    for name, config, why in configs(catalog, op, soc):
        if why:
            made.append(Trial(name, "refused", why))
        elif only_validate:
            said = worker.validate(config)
            taken = said.verdict == "accept"
            made.append(Trial(name, "taken" if taken else "failed", " ".join(said.log[:1])))
        else:
            made.append(_run(catalog, name, config, worker, reference))
    return made


def _run(
    catalog: Catalog, name: str, config: OpConfig, worker: VendorWorker, reference: Reference | None
) -> Trial:
    inputs = data.inputs(f"{config.op}, {name}", config)
    graph = single(config, inputs)
    given = {n: inputs[int(n)] for n, t in graph.tensors.items() if t.type == "APP_WRITE"}
    said = worker.run(graph, given)
    if said.verdict != "yes":
        return Trial(name, "failed", f"{said.stage} {said.verdict}{_reason(said.log)}: {said.explained}")
    if reference is None:
        return Trial(name, "ran")
    outputs = [said.outputs[t.name] for t in graph.outputs]
    allowed = tolerance.bounds(catalog, config)
    compared = tolerance.compare(config, reference(config, inputs), outputs, allowed)
    text = compared.detail.replace("PyTorch", "the reference")
    return Trial(name, "right" if compared.matches else "wrong", text, compared.ulp)


def _reason(log: Sequence[str]) -> str:
    said = [line.partition("error: ")[2] for line in log if line.startswith("error: ")]
    return f": {said[0]}" if said else ""
