"""Runs the reproductions of errata on vendor libraries and chips, and proposes scopes from the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from opdb.catalog.targets.target import Target, half
from opdb.core.errors import OpdbError
from opdb.core.sdk import sdk_number
from opdb.execute.libraries.client import VendorWorker
from opdb.measure.conformance.executors.base import NoOracle
from opdb.measure.conformance.reproductions import Trial, reproduction, trial
from opdb.measure.conformance.tolerance import bounds, compare
from opdb.runtime.qnn.libraries import Libraries
from opdb.spec.catalog import Catalog
from opdb.spec.erratum import Erratum

#: The number of random data sets tried, because data can decide whether a fault shows.
TRIES = 3
#: Symptom -> its letter in a table.
LETTERS = {
    "right": "-",
    "wrong-result": "W",
    "not-finalized": "F",
    "crash": "C",
    "not-executed": "E",
    "refused": "r",
    "unknown": "?",
}
#: Effect of a record -> the symptoms that show it.  Any other symptom is another fault, which hides this one.
SHOWN_BY = {
    "wrong-result": ("wrong-result", "crash"),
    "imprecise": ("wrong-result",),
    "not-finalized": ("not-finalized", "crash", "not-executed"),
    "crash": ("crash", "not-executed", "wrong-result"),
    "refuses-valid": ("refused",),
}


@dataclass(frozen=True)
class Observation:
    """The behavior of one library on one chip.  ``symptom``: one of LETTERS."""

    erratum: str
    qnn: str  # e.g. 2.47
    soc: str  # "" for a library without chips
    symptom: str
    detail: str = ""

    def shows(self, effect: str) -> bool | None:
        """True if the fault is there; None if this library and chip cannot tell."""
        if self.symptom in SHOWN_BY[effect]:
            return True
        return False if self.symptom == "right" else None

    def data(self) -> dict[str, Any]:
        return asdict(self)


def observe(
    catalog: Catalog,
    errata: Sequence[Erratum],
    libraries: Libraries,
    qnn: str,
    soc: str,
) -> Iterator[Observation]:
    """Yields each record's behavior on one set of libraries for one chip, in a child process.  A crash raises nothing."""
    for backend in dict.fromkeys(e.backend for e in errata):
        chip = soc if catalog.backends[backend].per_soc else ""
        with VendorWorker(backend, chip or None, libraries=libraries.folder) as worker:
            for erratum in errata:
                if erratum.backend == backend:
                    yield _observed(catalog, erratum, worker, qnn, chip)


def _observed(catalog: Catalog, erratum: Erratum, worker: VendorWorker, qnn: str, soc: str) -> Observation:
    target = Target(erratum.backend, soc or None, qnn)
    halved = half(erratum.backend)
    symptom, detail = "unknown", "no config of the op shows it alone"
    configs = reproduction(catalog, erratum, target)
    given = erratum.reproduction.inputs if erratum.reproduction is not None else {}
    random = erratum.reproduction is None or "random" in given.values() or not given
    for number in range(TRIES if random and configs else min(1, len(configs))):
        ident = erratum.erratum if number == 0 else f"{erratum.erratum}#{number}"
        try:
            made = trial(catalog, erratum, configs, ident, halved)
            symptom, detail = _symptom(catalog, worker, made, halved, erratum.effect)
        except (OpdbError, NoOracle, ValueError) as error:
            symptom, detail = "unknown", str(error)
        if symptom != "right":
            break
    return Observation(erratum.erratum, qnn, soc, symptom, detail)


def _symptom(
    catalog: Catalog, worker: VendorWorker, made: Trial, halved: bool, effect: str
) -> tuple[str, str]:
    floats = any(t.dtype == "f32" for t in made.graph.tensors.values())
    said = worker.run(made.graph, made.inputs, "fp16" if halved and floats else None)
    if said.verdict == "yes" and effect in ("not-finalized", "refuses-valid"):
        return "right", ""  # whatever the numbers are
    if said.verdict != "yes":
        if said.verdict in ("crashed", "hung"):
            return "crash", f"{said.stage}: {said.verdict} {said.code_name}".rstrip()
        stages = {"validate": "refused", "finalize": "not-finalized"}
        return stages.get(said.stage, "not-executed"), f"{said.stage}: {said.explained}"
    if made.unknown:
        return "unknown", made.unknown
    got = [said.outputs[t.name] for t in made.graph.outputs]
    compared = compare(made.last, made.expected, got, bounds(catalog, made.last), halved)
    return ("right", "") if compared.matches else ("wrong-result", compared.detail)


@dataclass(frozen=True)
class Proposal:
    """The scope that the observations suggest, and what was asked."""

    erratum: str
    versions: tuple[str, ...]  # QNN versions, in order, that show it on some chip; () for none
    arch: tuple[int, ...]  # Hexagon versions that show it in some version
    asked_versions: tuple[str, ...]
    asked_arch: tuple[int, ...]

    @property
    def until(self) -> str | None:
        """The last version that shows it; None if that is the last one asked."""
        return None if self.versions[-1:] == self.asked_versions[-1:] else self.versions[-1]

    def differs(self, erratum: Erratum) -> bool:
        """True if the record's scope contradicts the observations.  Versions and chips that were not asked contradict nothing."""
        stated = erratum.scope
        if not self.versions:
            return not erratum.flaky
        first, last = sdk_number(self.versions[0]), sdk_number(self.asked_versions[-1])
        since = 0 if stated.since is None else sdk_number(stated.since)
        if since > first or (first > since and self.versions[0] != self.asked_versions[0]):
            return True
        until = None if stated.until is None or sdk_number(stated.until) >= last else stated.until
        if until != self.until:
            return True
        arch = set(self.asked_arch) & set(stated.arch) if stated.arch else set(self.asked_arch)
        return not stated.socs and arch != set(self.arch)

    def text(self) -> str:
        if not self.versions:
            return "no library shows it"
        parts = [f"since {self.versions[0]}"]
        parts += [f"until {self.until}"] * (self.until is not None)
        parts += [f"arch {list(self.arch)}"] * (self.arch != self.asked_arch)
        return ", ".join(parts)


def propose(catalog: Catalog, erratum: Erratum, seen: Sequence[Observation]) -> Proposal | None:
    """The scope of one record; None if no library could tell."""
    told = [(o, o.shows(erratum.effect)) for o in seen if o.erratum == erratum.erratum]
    asked = [o for o, shows in told if shows is not None]
    shown = [o for o, shows in told if shows]
    if not asked:
        return None
    arch_of = {s.chip: s.htp_arch for s in catalog.socs.values()}

    def versions(of: Sequence[Observation]) -> tuple[str, ...]:
        return tuple(sorted({o.qnn for o in of}, key=sdk_number))

    def arch(of: Sequence[Observation]) -> tuple[int, ...]:
        return tuple(sorted({a for o in of if (a := arch_of.get(o.soc)) is not None}))

    return Proposal(erratum.erratum, versions(shown), arch(shown), versions(asked), arch(asked))
