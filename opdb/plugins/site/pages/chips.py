"""A page for each chip: its names and numbers, and what its backends take of every op."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opdb.plugins.site.facts import Facts
from opdb.plugins.site.page import Page, file_name


def pages(facts: Facts) -> Iterator[Page]:
    per_soc = [b for b in facts.backends if facts.catalog.backends[b].per_soc]
    for chip, row in facts.chips.items():
        soc = facts.catalog.socs[chip]
        names = [n.strip() for n in (row["names"] or "").split(",") if n.strip()]
        part = facts.support.part_of.get(chip, chip)
        same = [c for c in facts.support.members.get(part, ()) if c != chip]
        known = {
            "chip": chip,
            "names": names,
            "soc_model": soc.soc_model,
            "htp_arch": soc.htp_arch,
            **{k: v for k, v in soc.more.items() if k != "names"},
            "like": same,
            "support": [_support(facts, b, part) for b in per_soc],
        }
        fp16, bf16 = bool(soc.more.get("fp16")), bool(soc.more.get("bf16"))
        arch = f"Hexagon v{soc.htp_arch}" if soc.htp_arch else "no HTP"
        summary = (
            f"{', '.join(names) or chip}: {arch}, {'fp16' if fp16 else 'no floats'}{', bf16' if bf16 else ''}"
        )
        view = {"floats": fp16, "brain_floats": bf16, "vtcm": soc.more.get("vtcm_mb")}
        yield Page("chip", file_name(chip), chip, "chip.html.j2", known, view, tuple(names), summary)


def _support(facts: Facts, backend: str, part: str) -> dict[str, Any]:
    """The word of each op for each kind of numbers, with the newest measured SDK."""
    sdk, kinds = facts.newest(backend), facts.support.kinds(backend)
    rows = []
    for op in facts.catalog.ops:
        cells = [facts.support.of_kind(op, backend, kind, part, sdk) for kind in kinds]
        if any(cells):
            rows.append({"op": op, "support": [None if c is None else c.word for c in cells]})
    return {"backend": backend, "sdk": sdk, "kinds": kinds, "ops": rows}
