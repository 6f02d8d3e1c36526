"""The status of an op in one type row, on one backend, chip and SDK, in a word, with the reason in a sentence.

The words: ``yes``; ``yes, except``, with the conditions under which it fails; ``no``, with what rules it out; ``not known``.
They combine what the documents declare, what was measured (``Measured``), and the errata whose scope and data types
include the place (``Fault``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from opdb.catalog.evidence import STAGES, Outcome
from opdb.core.names import counted
from opdb.core.sdk import version

YES, EXCEPT, NO, NOT_KNOWN = "yes", "yes, except", "no", "not known"
WORDS = (YES, EXCEPT, NO, NOT_KNOWN)
#: The meaning of a failing status at each stage.
_NO = {
    "validates": "refused",
    "finalizes": "not finalized",
    "executes": "does not run",
    "matches": "wrong numbers",
}
_FAILING = {"crashed": "crashes", "hung": "hangs"}
_FOUND_IN = re.compile(r"_\d+_\d+$")  # INT16_2_47: rows that were found by asking the library of that SDK
#: What a chip without a feature lacks.
_LACKS = {"fp16": "the chip has no floating point", "bf16": "the chip has no bfloat16"}
#: How many errata a reason names by their titles.
_TITLES = 2


class Status(NamedTuple):
    word: str  # one of WORDS
    why: str  # "" for a plain yes
    errata: tuple[str, ...] = ()  # the errata that were seen in measurements or are known there


class Fault(NamedTuple):
    """An erratum that can occur in a type row.  ``always``: the data types alone make it occur."""

    ident: str
    title: str
    always: bool


@dataclass(frozen=True)
class Measured:
    """The measured cases of a type row.  ``counts``: the number of cases by status, for each of STAGES."""

    counts: tuple[Mapping[str, int], ...]
    cases: int
    reason: str = ""  # what the library said of the first case that failed
    errata: tuple[str, ...] = ()  # errata that explain failures

    @classmethod
    def of(cls, outcome: Outcome) -> Measured:
        return cls(outcome.counts, outcome.cases, outcome.reason or outcome.code_name, outcome.errata)

    @property
    def passed(self) -> int:
        """The number of cases that ran, and whose numbers match wherever they were compared."""
        if not any(counts.get("yes") for counts in self.counts[2:]):
            return 0
        last = max(i for i, counts in enumerate(self.counts) if counts.get("yes"))
        return max(0, self.counts[last]["yes"] - sum(map(_failing, self.counts[last + 1 :])))

    @property
    def failures(self) -> list[str]:
        """The failures by stage, e.g. "not finalized in 1 of 3"."""
        return failures(self.counts, self.cases)


def failures(counts: Sequence[Mapping[str, int]], cases: int) -> list[str]:
    """The failures by stage, e.g. "wrong numbers in 1 of 3"; without numbers if every case fails."""
    found = []
    for stage, of in zip(STAGES, counts, strict=True):
        for status, number in sorted(of.items()):
            if status in ("no", *_FAILING):
                what = _FAILING.get(status, _NO[stage])
                found.append(what if number == cases else f"{what} in {number} of {cases}")
    return found


def _failing(counts: Mapping[str, int]) -> int:
    return sum(counts.get(status, 0) for status in ("no", *_FAILING))


def kind(type_row: str | None) -> str:
    """The kind of data types of a type row, e.g. HTP.FP16.1 -> FP16, HTP.INT16_2_47.1 -> INT16."""
    parts = (type_row or "").split(".")
    return _FOUND_IN.sub("", parts[1]) if len(parts) == 3 else type_row or "other"


def minor(sdk: str) -> tuple[int, ...]:
    """An SDK as (major, minor), to compare."""
    return version(sdk)[:2]


def unprepared(oldest: int | None, arch: int | None, libraries: str | None) -> str:
    """Why a backend takes nothing on a chip; "" if QNN's libraries prepare graphs for it.

    ``oldest``: the oldest Hexagon version that the backend prepares for; None: it does not depend on chips.  ``arch``: the chip's.
    ``libraries``: the versions of QNN that open the chip, in words ("none": no version).
    """
    if oldest is None:
        return ""
    if not arch:
        return "the chip has no Hexagon that QNN's libraries know"
    if arch < oldest:
        return f"QNN's libraries prepare no graphs for Hexagon v{arch}"
    return "no library of QNN opens the chip" if libraries == "none" else ""


def refusal(lacks: str, since: str | None, until: str | None, sdk: str) -> str:
    """Says why a type row is not declared somewhere.  ``lacks``: the feature (fp16, bf16) that it needs and the chip lacks."""
    if lacks:
        return _LACKS[lacks]
    if since and minor(sdk) < minor(since):
        return f"from QNN {since} on"
    if until and minor(sdk) > minor(until):
        return f"until QNN {until}"
    return "the documents do not declare it there"


def status(refused: str, measured: Measured | None, faults: Collection[Fault]) -> Status:
    """The status of a type row at a place.

    ``refused``: what rules the row out there by the documents, "" if they declare it.  ``faults``: the errata in scope.
    """
    known = {f.ident: f for f in faults}
    if measured is None or not any(
        counts.keys() - {"unknown", "not-applicable"} for counts in measured.counts
    ):
        return Status(NO, refused) if refused else Status(NOT_KNOWN, "documented, but not measured")
    errata = tuple(sorted({*measured.errata, *known}))
    if measured.passed:
        failing = measured.failures
        if not failing and not errata:
            judged = measured.counts[-1].get("yes")
            return Status(YES, "" if judged else "it runs; its numbers were not compared")
        return Status(EXCEPT, _exceptions(measured, known), errata)
    failing = measured.failures
    if not failing:
        ran = "was not prepared or run" if not measured.counts[1].get("yes") else "was not run"
        return Status(NOT_KNOWN, f"the library validates it; it {ran}", errata)
    if refused:
        return Status(NO, refused, measured.errata)
    hit = [known[e] for e in measured.errata if e in known]
    if hit and len(hit) == len(measured.errata) and not any(f.always for f in hit):
        named = "; ".join(f"{f.title} ({f.ident})" for f in hit)
        return Status(NOT_KNOWN, f"every measured case meets a known fault: {named}", errata)
    return Status(NO, _refused(measured, known), measured.errata)


def _exceptions(measured: Measured, known: Mapping[str, Fault]) -> str:
    """The conditions under which a supported row fails: measured ones first, then other known faults."""
    seen = [known[e] for e in measured.errata if e in known]
    parts = [f"{f.title} ({f.ident})" for f in seen]
    if measured.failures and not seen:
        what = ", ".join(measured.failures)
        parts.append(f"{what} cases{f': {measured.reason}' if measured.reason else ''}")
    others = [f for f in known.values() if f not in seen]
    titled, rest = others[: max(0, _TITLES - len(parts))], others[max(0, _TITLES - len(parts)) :]
    parts += [f"{f.title} ({f.ident})" for f in titled]
    if rest:
        parts.append(f"{counted(len(rest), 'more known fault')}: {', '.join(f.ident for f in rest)}")
    return "; ".join(parts)


def _refused(measured: Measured, known: Mapping[str, Fault]) -> str:
    titles = "; ".join(f"{known[e].title} ({e})" if e in known else e for e in measured.errata)
    said = titles or measured.reason
    return f"{', '.join(measured.failures)}{f': {said}' if said else ''}"
