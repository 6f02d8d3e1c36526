"""Writes the page of errata by QNN version and chip from observations printed by ``opdb errata probe --json``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from opdb.core.errors import OpdbError
from opdb.core.sdk import sdk_number
from opdb.measure.conformance.reprobe import LETTERS, Observation, propose
from opdb.spec.catalog import Catalog
from opdb.spec.erratum import Erratum

MEANING = {
    "W": "wrong results",
    "F": "not finalized",
    "C": "crash",
    "E": "an error when it runs",
    "r": "refused by validation, so not reached",
    "-": "right: the fault does not show",
    "?": "cannot be told: no config shows it alone, or nothing says what is right",
    " ": "not asked",
}
Cells = Mapping[tuple[str, str, str], Observation]


def read_observations(rows: Iterable[Mapping[str, str]], source: str) -> list[Observation]:
    """Reads observations from JSON.  Raises OpdbError for an invalid one."""
    found = []
    for number, row in enumerate(rows):
        try:
            found.append(Observation(**row))
        except TypeError:  # also for an entry that is not a mapping
            fields = "erratum, qnn, soc, symptom, detail"
            raise OpdbError(f"{source}: entry {number} is not an observation; it has {fields}") from None
        if found[-1].symptom not in LETTERS:
            raise OpdbError(
                f"{source}: entry {number}: no symptom '{found[-1].symptom}'; known: {', '.join(LETTERS)}"
            )
    return found


def page(catalog: Catalog, observations: Sequence[Observation], date: str) -> str:
    """The page in Markdown.  Leaves out records that the catalog no longer has."""
    lines = [
        "# Errata by QNN version and chip",
        "",
        f"Measured on {date} with `opdb errata probe`: the reproduction of each record in specs/errata, run on x86-64 (HTP is",
        "emulated) and compared with PyTorch. A letter is one chip; a single letter stands for all of them.",
        "",
        *(f"- `{letter}` {text}" for letter, text in MEANING.items()),
    ]
    for backend in dict.fromkeys(e.backend for e in catalog.errata.values()):
        errata = [e for e in catalog.errata.values() if e.backend == backend]
        seen = [o for o in observations if any(o.erratum == e.erratum for e in errata)]
        if seen:
            lines += ["", f"## {backend}", "", *_backend(catalog, errata, seen)]
    return "\n".join(lines) + "\n"


def _backend(catalog: Catalog, errata: Sequence[Erratum], seen: Sequence[Observation]) -> list[str]:
    versions = sorted({o.qnn for o in seen}, key=sdk_number)
    arch = {s.chip: s.htp_arch for s in catalog.socs.values()}
    chips = sorted({o.soc for o in seen}, key=lambda c: (arch.get(c) or 0, c))
    cells: Cells = {(o.erratum, o.qnn, o.soc): o for o in seen}
    lines = []
    if chips != [""]:
        names = ", ".join(f"{c} (v{arch.get(c)})" for c in chips)
        lines += [f"Chips, in the order of the letters: {names}.", ""]
    lines += [*_counts(errata, versions, chips, cells, arch), ""]
    lines += [f"| erratum | op | effect | {' | '.join(versions)} | proposed scope |"]
    lines += ["|" + "---|" * (len(versions) + 4)]
    for e in errata:
        if any((e.erratum, v, c) in cells for v in versions for c in chips):
            each = [_cell(cells, e.erratum, v, chips) for v in versions]
            proposal = propose(catalog, e, seen)
            text = proposal.text() if proposal is not None else "cannot be told"
            if e.flaky:
                text += " (memory decides whether it shows)"
            lines.append(f"| {e.erratum} | {e.op or e.pattern} | {e.effect} | {' | '.join(each)} | {text} |")
    return lines


def _cell(cells: Cells, erratum: str, version: str, chips: Sequence[str]) -> str:
    found = [cells.get((erratum, version, c)) for c in chips]
    letters = "".join(" " if o is None else LETTERS[o.symptom] for o in found)
    return f"`{letters[0] if len(set(letters)) == 1 else letters}`"


def _counts(
    errata: Sequence[Erratum],
    versions: Sequence[str],
    chips: Sequence[str],
    cells: Cells,
    arch: Mapping[str, int | None],
) -> list[str]:
    """The number of records that show on each version and chip, of those that can be determined there."""
    lines = ["| " + " | ".join(["errata that show", *(f"v{arch[c]}" if c else "all" for c in chips)]) + " |"]
    lines.append("|" + "---|" * (len(chips) + 1))
    for v in versions:
        row = [v]
        for c in chips:
            told = [
                shows
                for e in errata
                if (o := cells.get((e.erratum, v, c))) is not None
                and (shows := o.shows(e.effect)) is not None
            ]
            row.append(f"{sum(told)} of {len(told)}")
        lines.append(f"| {' | '.join(row)} |")
    return lines
