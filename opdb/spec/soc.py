"""A system on chip as in specs/socs.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Soc:
    """One system on chip (specs/socs.yaml)."""

    chip: str  # e.g. SM8650
    soc_model: int | None = None  # QNN_SOC_MODEL; e.g. 57
    htp_arch: int | None = None  # e.g. 75
    more: Mapping[str, Any] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        known = {"chip": self.chip, "soc_model": self.soc_model, "htp_arch": self.htp_arch}
        return {k: v for k, v in known.items() if v is not None} | dict(self.more)


def libraries_in_words(entry: Any) -> str:
    """The versions of the libraries that open a chip, e.g. "since 2.48", or "none"; "" if all that were tried do."""
    if isinstance(entry, Mapping):
        return " ".join(f"{end} {version}" for end, version in entry.items())
    return str(entry or "")
