"""Turns an answer into the five statuses, kept apart, and an outcome: whether it was to be expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opdb.catalog.schema import STATUS_COLUMNS
from opdb.catalog.store.records import ExecutorRecord, ResultRecord
from opdb.measure.conformance.cases import Case
from opdb.measure.conformance.executors.base import Answer
from opdb.measure.conformance.executors.onnx_differences import difference
from opdb.measure.conformance.tolerance import Comparison

NOT = "not-applicable"
#: The outcomes of a result, from good to bad.  known: explained by an erratum.  finding: a vendor's library differs
#: from the documents.  fail: wrong result with no erratum.
OUTCOMES = ("pass", "unknown", "known", "finding", "fail")
OWN = ("python", "c", "hexagon")
#: They compute and validate nothing; the first one judges all others.
REFERENCES = ("torch", "onnx.reference")


def result(
    case: Case,
    executor: ExecutorRecord,
    soc: str,
    answer: Answer,
    compared: Comparison | None,
    seconds: float,
    no_oracle: str = "",
) -> ResultRecord:
    """The SQL row for one answer.  ``compared`` None: there was nothing to compare, or no oracle."""
    statuses = _statuses(case, executor, answer, compared)
    lines = [case.note, answer.text, compared.detail if compared else "", no_oracle]
    return ResultRecord(
        case=case.record(),
        executor=executor,
        soc=soc,
        rules=answer.rules,
        code=answer.code,
        code_name=answer.code_name,
        log="\n".join(answer.log),
        error_max=compared.error_max if compared else None,
        ulp=compared.ulp if compared else None,
        magnitude=compared.magnitude if compared else None,
        seconds=seconds,
        detail="\n".join(filter(None, lines)),
        **dict(zip(STATUS_COLUMNS, statuses, strict=True)),
    )


def _statuses(
    case: Case, executor: ExecutorRecord, answer: Answer, compared: Comparison | None
) -> tuple[str, ...]:
    declared = NOT if not case.backend else "yes" if case.kind == "positive" and case.type_row else "no"
    matches = "unknown" if compared is None else "yes" if compared.matches else "no"
    if executor.name in REFERENCES:
        judged = executor.name != REFERENCES[0] and answer.kind == "ok"
        executes = {"ok": "yes", "error": answer.how}.get(answer.kind, "unknown")
        return declared, NOT, NOT, executes, matches if judged else NOT
    if not executor.backend:
        return (declared, *_own(answer, matches))
    return (declared, *_vendor(answer, matches))


def _own(answer: Answer, matches: str) -> tuple[str, ...]:
    if answer.kind == "violation":
        return "no", NOT, NOT, NOT
    if answer.kind == "error":
        return "yes", NOT, answer.how, "unknown"
    return ("yes", NOT, "yes", matches) if answer.computed else ("yes", NOT, NOT, NOT)


def _vendor(answer: Answer, matches: str) -> tuple[str, ...]:
    """Stages that were not reached, because an earlier one failed, are unknown."""
    if answer.kind == "violation":
        return "no", "unknown", "unknown", "unknown"
    if answer.kind == "ok":
        return ("yes", "yes", "yes", matches) if answer.computed else ("yes", "unknown", "unknown", "unknown")
    if answer.kind == "unsupported":
        return "unknown", "unknown", "unknown", "unknown"
    stages = ("validate", "finalize", "execute")
    ended = stages.index(answer.stage)
    return (*("yes",) * ended, answer.how, *("unknown",) * (3 - ended))


@dataclass(frozen=True)
class Seen:
    """The part of a result that decides its outcome; from a record, or from a row of SQL."""

    case: str
    kind: str
    executor: str
    validates: str
    finalizes: str
    executes: str
    matches: str
    rules: frozenset[str]
    expected: frozenset[str]


def seen(record: ResultRecord) -> Seen:
    c = record.case
    return Seen(
        c.name, c.kind, record.executor.name, record.validates, record.finalizes, record.executes,
        record.matches, frozenset(record.rules), frozenset(c.rules),
    )  # fmt: skip


def outcome(of: Seen) -> tuple[str, str]:
    """Returns (one of OUTCOMES, the reason), ignoring errata, which turn findings and failures into "known"."""
    if of.executor in REFERENCES:
        return _reference_outcome(of)
    if of.executor in OWN:
        return _own_outcome(of)
    for stage in ("validates", "finalizes", "executes"):
        if getattr(of, stage) in ("crashed", "hung"):
            return "finding", f"the library {getattr(of, stage)}: {stage}"
    if of.validates == "unknown":
        return "unknown", "the library was not asked"
    if of.kind == "negative":
        broken = ", ".join(sorted(of.expected))
        return (
            ("pass", "") if of.validates == "no" else ("finding", f"the library accepts what breaks {broken}")
        )
    for stage in ("validates", "finalizes", "executes"):
        if getattr(of, stage) == "no":
            return "finding", f"documented, but the library says no: {stage}"
    if of.matches == "no":
        return "fail", "the numbers differ from PyTorch's"
    if of.expected and of.executes == "unknown":
        return "pass", ""  # it breaks what the library does not check, so it was only validated
    return ("pass", "") if of.matches == "yes" else ("unknown", "there is no oracle for the numbers")


def _own_outcome(of: Seen) -> tuple[str, str]:
    accepted = "yes" if of.kind == "positive" else "no"
    missed, unexpected = sorted(of.expected - of.rules), sorted(of.rules - of.expected)
    if missed or unexpected or of.validates != accepted:
        said = [f"missed {', '.join(missed)}"] * bool(missed)
        said += [f"unexpected {', '.join(unexpected)}"] * bool(unexpected)
        return "fail", "; ".join(said) or f"validates {of.validates}"
    if of.executes in ("no", "crashed", "hung"):
        return "fail", "the kernel did not run"
    if of.matches == "no":
        return "fail", "the numbers differ from PyTorch's"
    return ("unknown", "there is no oracle for the numbers") if of.matches == "unknown" else ("pass", "")


def _reference_outcome(of: Seen) -> tuple[str, str]:
    if of.executor == REFERENCES[0]:
        return ("pass", "") if of.executes == "yes" else ("unknown", "the documents leave the result open")
    if of.executes == "unknown":
        return "unknown", "ONNX has nothing that says the same"
    if of.executes != "yes" or of.matches == "no":
        known = difference(of.case)
        off = (
            "ONNX's reference did not compute" if of.matches != "no" else "the numbers differ from PyTorch's"
        )
        return ("known", known) if known else ("fail", off)
    return ("unknown", "there is no oracle for the numbers") if of.matches == "unknown" else ("pass", "")


def worst(outcomes: Sequence[str]) -> str:
    """The worst of several outcomes; "unknown" if there are none."""
    return max(outcomes, key=OUTCOMES.index, default="unknown")
