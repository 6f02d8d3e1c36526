"""Chip classes: chips for which the specs declare the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opdb.catalog.schema.names import FEATURES

if TYPE_CHECKING:
    from opdb.spec.catalog import Catalog
    from opdb.spec.soc import Soc


def class_of(soc: Soc, models: bool) -> dict[str, Any]:
    """The row of a chip's class; with ``models``, each of QNN's chip numbers is a separate class."""
    more = {name: int(bool(soc.more.get(name))) for name in FEATURES}
    words = [f"V{soc.htp_arch}" if soc.htp_arch else "no HTP", *(n for n, has in more.items() if has)]
    if models:
        words.append(str(soc.soc_model))
    return {"name": " ".join(words), "htp_arch": soc.htp_arch, **more}


def reads_models(catalog: Catalog) -> bool:
    """True if a backend's rule reads the chip number, ``soc_model``."""
    return any("soc_model" in rule.expression or "soc_model" in (rule.when or "")
               for op in catalog.ops.values() for b in op.backends.values() for rule in b.constraints.values())  # fmt: skip
