"""Lists what to ask: libraries of this machine, chips, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opdb.catalog.targets.target import soc_name
from opdb.core.errors import OpdbError
from opdb.core.sdk import sdk_number
from opdb.generated.constants.backends import ASKED, BACKENDS
from opdb.generated.constants.sdks import DEFAULT_SDK
from opdb.runtime.qnn.libraries import Libraries, discover
from opdb.spec.catalog import Catalog


@dataclass(frozen=True)
class Place:
    """One library for one chip ('': the backend has no chips)."""

    backend: str
    sdk: str  # e.g. 2.47
    soc: str
    folder: Path  # of the libraries

    def __str__(self) -> str:
        return " ".join(filter(None, (self.backend, self.sdk, self.soc)))


def class_of(catalog: Catalog, soc: str) -> tuple[object, ...]:
    """The properties that decide how a chip's HTP behaves: the Hexagon version, and its floating-point types."""
    chip = catalog.socs[soc]
    return (chip.htp_arch, *(bool(chip.data().get(name)) for name in ("fp16", "bf16")))


def chips(catalog: Catalog) -> tuple[str, ...]:
    """One chip of each class that every library opens: the chip of the generated tables, otherwise one that is sold in phones, by the
    order of specs/socs.yaml.  Sorted with the chips of the generated tables first, then by Hexagon version."""
    favorites = {b.measured.soc for b in catalog.backends.values() if b.measured is not None}
    oldest = max((b.oldest.arch for b in catalog.backends.values() if b.oldest is not None), default=1)
    known = [s for s in catalog.socs.values() if (s.htp_arch or 0) >= oldest]
    known = [s for s in known if s.data().get("libraries") is None]
    known.sort(key=lambda s: (s.chip not in favorites, not s.data().get("names")))
    found: dict[tuple[object, ...], str] = {}
    for s in known:
        found.setdefault(class_of(catalog, s.chip), s.chip)
    order = sorted(found.items(), key=lambda e: (e[1] not in favorites, str(e[0])))
    return tuple(soc for _, soc in order)


def libraries(wanted: Sequence[str] = ()) -> dict[str, Libraries]:
    """QNN's version (e.g. 2.47) -> its libraries on this machine: the specs' default, the newest, then the others from new to old.

    ``wanted``: only these versions.  Raises OpdbError if one is not on this machine.
    """
    found: dict[str, Libraries] = {}
    for each in discover([]):
        if version := each.qnn_version():
            found.setdefault(".".join(version.split(".")[:2]), each)
    for version in wanted:
        if version not in found:
            raise OpdbError(
                f"no QNN libraries of version {version} are here; there are: {', '.join(found) or 'none'}; "
                f"'opdb libraries install {version}' adds them"
            )
    versions = sorted(found, key=sdk_number, reverse=True)
    first = [v for v in (DEFAULT_SDK, *versions[:1]) if v in found]
    return {v: found[v] for v in dict.fromkeys([*first, *versions]) if not wanted or v in wanted}


def places(catalog: Catalog, versions: Sequence[str] = (), socs: Sequence[str] = ()) -> list[Place]:
    """Everything that can be asked here, the most important first.  ``socs``: only these chips, of any class.

    Raises OpdbError for an unknown version or chip.
    """
    chosen = [soc_name(s) for s in socs]
    found = []
    for sdk, each in libraries(versions).items():
        for backend in (b.name for b in ASKED if b.name in each.present):
            if BACKENDS[backend].per_soc:
                found += [Place(backend, sdk, soc, each.folder) for soc in chosen or chips(catalog)]
            elif not chosen:
                found.append(Place(backend, sdk, "", each.folder))
    return found
