"""The words of support: yes; yes, except; no; not known."""

from __future__ import annotations

import pytest

from opdb.catalog.evidence.status import Fault, Measured, refusal, status, unprepared

AXIS = Fault("HTP-0002", "Finalization fails without axis", always=False)
BIAS = Fault("HTP-0224", "A quantized bias is not added", always=False)
FAR = Fault("HTP-0900", "Wrong numbers far away", always=False)
ALWAYS = Fault("HTP-0901", "Never finalized", always=True)


def measured(*stages: str, cases: int = 3, reason: str = "", errata: tuple[str, ...] = ()) -> Measured:
    """Counts by stage, e.g. "3 yes", "2 yes 1 no"."""
    counts = []
    for stage in (*stages, *("",) * (4 - len(stages))):
        words = stage.split()
        counts.append({s: int(n) for n, s in zip(words[::2], words[1::2], strict=True)})
    return Measured(tuple(counts), cases, reason, errata)


RIGHT = measured("3 yes", "3 yes", "3 yes", "3 yes")
ONE_FAILS = measured("3 yes", "2 yes 1 no", "2 yes", "2 yes", reason="no axis")


@pytest.mark.parametrize(
    ("refused", "found", "faults", "word", "why"),
    [
        ("", RIGHT, (), "yes", ""),
        ("", measured("2 yes", "2 yes", "2 yes", cases=2), (), "yes", "it runs; its numbers were not compared"),
        ("", None, (), "not known", "documented, but not measured"),
        ("from QNN 2.49 on", None, (), "no", "from QNN 2.49 on"),
        ("", ONE_FAILS, (), "yes, except", "not finalized in 1 of 3 cases: no axis"),
        ("", RIGHT, (BIAS,), "yes, except", "A quantized bias is not added (HTP-0224)"),
        ("", measured("3 yes"), (), "not known", "the library validates it; it was not prepared or run"),
        ("the chip has no bfloat16", measured("3 no"), (), "no", "the chip has no bfloat16"),
        ("", measured("3 no", reason="no such op"), (), "no", "refused: no such op"),
        ("", measured("3 yes", "3 yes", "3 yes", "3 no", reason="y[0]: 1, PyTorch 2"), (), "no", "wrong numbers: y[0]: 1, PyTorch 2"),
        ("", measured("3 crashed"), (), "no", "crashes"),
    ],
)  # fmt: skip
def test_word_and_reason(
    refused: str, found: Measured | None, faults: tuple[Fault, ...], word: str, why: str
) -> None:
    assert status(refused, found, faults)[:2] == (word, why)


def test_measured_faults_come_first_and_all_are_named() -> None:
    seen = measured("3 yes", "2 yes 1 no", "2 yes", "2 yes", errata=("HTP-0224",))
    said = status("", seen, (AXIS, BIAS, FAR))
    assert said.why == (
        "A quantized bias is not added (HTP-0224); Finalization fails without axis (HTP-0002); 1 more known fault: HTP-0900"
    )
    assert said.errata == ("HTP-0002", "HTP-0224", "HTP-0900")


def test_cases_that_all_meet_a_conditional_fault_say_nothing_of_the_others() -> None:
    every = measured("3 yes", "3 no", errata=("HTP-0002",))
    assert status("", every, (AXIS,)).word == "not known"
    always = measured("3 yes", "3 no", errata=("HTP-0901",))
    assert status("", always, (ALWAYS,))[:2] == ("no", "not finalized: Never finalized (HTP-0901)")


def test_a_failure_at_a_later_stage_is_not_a_success() -> None:
    """RandomNormalLike has no numbers to compare: two run, one is not finalized.  Of three that run with wrong numbers none passes."""
    assert measured("3 yes", "2 yes 1 no", "2 yes").passed == 2
    assert measured("3 yes", "3 yes", "3 yes", "3 no").passed == 0
    assert measured("3 yes", "3 yes", "3 yes", "1 yes 2 no").passed == 1


def test_refusals() -> None:
    assert refusal("fp16", None, None, "2.47") == "the chip has no floating point"
    assert refusal("", "2.49", None, "2.48") == "from QNN 2.49 on"
    assert refusal("", None, "2.46", "2.47.1") == "until QNN 2.46"


def test_chips_that_no_library_prepares_for() -> None:
    assert unprepared(68, 66, None) == "QNN's libraries prepare no graphs for Hexagon v66"
    assert unprepared(68, None, None) == "the chip has no Hexagon that QNN's libraries know"
    assert unprepared(68, 69, "none") == "no library of QNN opens the chip"
    assert unprepared(68, 68, None) == unprepared(68, 75, "since 2.48") == unprepared(None, None, None) == ""
