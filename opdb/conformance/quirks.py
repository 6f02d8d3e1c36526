"""Wrong answers of a vendor's release that are known: specs/sdk/<version>.yaml, with what was measured.

sdk: "2.47"
quirks:
  - op: LayerNorm
    backend: CPU
    cases: [LayerNorm-sample0-CPU.fp32.*]   # ids of the cases that show it
    shows: {matches: no}
    what: An omitted epsilon is 1e-5, not the documented 0.001.
    source: probe CPU 2.47.0
    sometimes: true   # where what memory happens to hold decides whether it shows; else left out
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from opdb.errors import OpdbError, Problem, SpecError
from opdb.schema import STATUS_COLUMNS, STATUSES

FIELDS = {"op", "backend", "cases", "shows", "what", "source"}


@dataclass(frozen=True)
class Quirk:
    """One fault of one release.  ``shows``: the statuses that its cases have because of it."""

    sdk: str
    op: str
    backend: str
    cases: tuple[str, ...]
    shows: Mapping[str, str]
    what: str
    source: str
    sometimes: bool = False

    def explains(self, sdk: str, backend: str, case: str, statuses: Mapping[str, str]) -> bool:
        """Whether a result is this fault."""
        return (
            (self.sdk, self.backend) == (sdk, backend)
            and any(fnmatchcase(case, p) for p in self.cases)
            and all(statuses.get(c) == s for c, s in self.shows.items())
        )


def read_quirks(specs: Path) -> tuple[Quirk, ...]:
    """The quirks of all releases in a folder of specs.  Raises SpecError with every fault."""
    from opdb.spec.files import parse_document

    out: list[Quirk] = []
    problems: list[Problem] = []
    for path in sorted((specs / "sdk").glob("*.yaml")):
        name = f"sdk/{path.name}"
        try:
            document = parse_document(path.read_text(encoding="utf-8"), name)
        except SpecError as error:
            problems += error.problems
            continue
        content: Any = document.data
        entries = content.get("quirks") if isinstance(content, dict) else None
        if not isinstance(entries, list) or set(content) != {"sdk", "quirks"}:
            problems.append(Problem(name, 1, 1, "expected 'sdk' and 'quirks', a list"))
            continue
        for i, entry in enumerate(entries):
            fault = _fault(entry)
            if fault:
                problems.append(document.problem(("quirks", i), fault))
            else:
                out.append(_quirk(str(content["sdk"]), entry))
    if problems:
        raise SpecError(problems)
    return tuple(out)


def _fault(entry: Any) -> str | None:
    if not isinstance(entry, dict) or set(entry) - {"sometimes"} != FIELDS:
        return f"a quirk has the fields {', '.join(sorted(FIELDS))}, and may have sometimes"
    if not isinstance(entry.get("sometimes", False), bool):
        return "'sometimes' is true or false"
    if not isinstance(entry["cases"], list) or not entry["cases"]:
        return "'cases' is a list of case ids or patterns; ex) [LayerNorm-sample0-CPU.fp32.*]"
    shows = entry["shows"]
    if not isinstance(shows, dict) or not shows:
        return "'shows' maps statuses to their values; ex) {matches: no}"
    for column, status in shows.items():
        if column not in STATUS_COLUMNS or status not in STATUSES:
            return f"'{column}: {status}' is not a status; ex) matches: no"
    return None


def _quirk(sdk: str, entry: Mapping[str, Any]) -> Quirk:
    plain = {k: str(entry[k]) for k in ("op", "backend", "what", "source")}
    return Quirk(
        sdk,
        cases=tuple(map(str, entry["cases"])),
        shows=dict(entry["shows"]),
        sometimes=entry.get("sometimes", False),
        **plain,
    )


def explain(
    quirks: Sequence[Quirk], sdk: str, backend: str, case: str, statuses: Mapping[str, str]
) -> Quirk | None:
    """The quirk that a result shows, if one does."""
    return next((q for q in quirks if q.explains(sdk, backend, case, statuses)), None)


def require_ops(quirks: Sequence[Quirk], known: Sequence[str]) -> None:
    """Raises OpdbError for a quirk of an op that has no spec."""
    for q in quirks:
        if q.op not in known:
            raise OpdbError(f"specs/sdk/{q.sdk}.yaml: no op '{q.op}'; known: {', '.join(known)}")
