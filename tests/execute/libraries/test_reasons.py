"""The vendor's log lines -> typed reasons."""

from __future__ import annotations

import pytest

from opdb.execute.libraries.reasons import KINDS, Reason, kept, masked, parse

#: Lines printed by CPU and HTP 2.47.
LINES = {
    "Wrong number of Inputs 3.": ("inputs", "", None, "", "3"),
    "Wrong number of Outputs 0.": ("outputs", "", None, "", "0"),
    "Wrong number of Parameters 1.": ("params", "", None, "", "1"),
    "Found incorrect number of found Parameters. Found 1 expected 2.": ("params", "", None, "2", "1"),
    "Number of outputs needs to be >= 2.": ("outputs", "", None, ">= 2", ""),
    "Input[1] of ID 0 was NULL but is mandatory.": ("missing", "in[1]", None, "", ""),
    "Received NULL for mandatory Param at index 2.": ("missing", "param[2]", None, "", ""),
    "Input[2] has incorrect Rank 3.": ("rank", "in[2]", None, "", "3"),
    "Expected out[0] rank to be max(4, 5) but was 3.": ("rank", "out[0]", None, "max(4, 5)", "3"),
    "Tensor 0 and 0 have mismatching rank. 4 != 5": ("rank", "", None, "5", "4"),
    "Output[0] has incorrect Datatype 0x408.": ("dtype", "out[0]", None, "", "uq8"),
    "Tensor 0 and 0 have mismatching datatypes. 0x408 != 0x232.": ("dtype", "", None, "f32", "uq8"),
    "None of the combinations match the provided case": ("dtypes", "", None, "", ""),
    "Param[1] has incorrect Value 4.": ("value", "param[1]", None, "", "4"),
    "[4294967295] has incorrect Value 0, expected equal to -32768.": ("value", "", None, "-32768", "0"),
    "Perm has repeated value 2 at index 1.": ("duplicate", "", 1, "", ""),
    "Channel in 4 is not divisible by groups 3.": ("divisible", "", None, "", ""),
    "Dimension at index 3 cannot be broadcast between in[0] (8) and in[1] (4).":
        ("broadcast", "in[0]", 3, "", ""),
    "Out[0] has incorrect dim at index 2. Got 4 but expected 8.": ("shape", "out[0]", 2, "8", "4"),
    "Incorrect out[0] dimension at index 0. Expected 5 but got 6.": ("shape", "out[0]", 0, "5", "6"),
    "Incorrect output[0] dimension at idx 0. Expected 6 but got 30.": ("shape", "out[0]", 0, "6", "30"),
    "Output 0 has incorrect shape at index 0. Expected 2 and got 3.": ("shape", "out[0]", 0, "2", "3"),
    "Incorrect output dimension at index 1. Expected 16 got 8.": ("shape", "", 1, "16", "8"),
    "Incorrect output[0] dimensions. Expected [1, 5, 8] but got [1, 5, 5].":
        ("shape", "out[0]", None, "[1, 5, 8]", "[1, 5, 5]"),
    "Output[0] has incorrect dimensions [1, 8]. Expected dimensions [3, 8].":
        ("shape", "out[0]", None, "[3, 8]", "[1, 8]"),
    "Tensor 0 and 0 have mismatching dimension at index 1. 3 != 4.": ("shape", "", 1, "4", "3"),
    "In[1] was 3 at dimension 1, expected 4.": ("shape", "in[1]", 1, "4", "3"),
    "[QNN_CPU] Invalid OpPackage Relu": ("op", "", None, "", ""),
    "Param beta was provided when param operation was not set to HARD_SIGMOID or SOFTPLUS.":
        ("params", "", None, "", ""),
}  # fmt: skip


@pytest.mark.parametrize("text", LINES)
def test_each_known_line_becomes_a_reason(text: str) -> None:
    kind, where, index, expected, got = LINES[text]
    (reason,) = parse([f"error: {text}", "error: Op specific validation failed."])
    assert reason == Reason(kind, where, index, expected, got, text)
    assert reason.kind in KINDS


def test_an_unknown_line_is_kept() -> None:
    (reason,) = parse(["verbose: Validating Inputs.", "error: The moon is full."])
    assert (reason.kind, reason.text) == ("other", "The moon is full.")


def test_unsupported_types_name_the_requested_ones() -> None:
    log = [
        "error: Unsupported input/output datatypes requested for the HTP Op 'Relu' in the node 'op'.",
        "error: Requested I/O datatype set:\n\n   in[0]:QNN_DATATYPE_INT_8\n   out[0]:QNN_DATATYPE_FLOAT_32\n",
        "error: Supported I/O datatype sets for the configuration: INT8\n   1:\n   in[0]:QNN_DATATYPE_UFIXED_POINT_8",
    ]
    (reason,) = parse(log)
    assert (reason.kind, reason.got) == ("dtypes", "in[0] i8, out[0] f32")
    assert kept(log) == tuple(log[:2])


def test_warnings_count_if_no_error_gives_a_reason() -> None:
    warning, failed = (
        "warning: Input[0] has Datatype 0x108.",
        "error: [QNN_CPU] OpConfig validation failed for Relu",
    )
    assert [(r.kind, r.got) for r in parse([warning, failed])] == [("dtype", "u8")]
    assert [r.kind for r in parse([warning, "error: Wrong number of Inputs 0.", failed])] == ["inputs"]


def test_a_log_without_a_reason_gives_none() -> None:
    assert parse(["error: [QNN_CPU] OpConfig validation failed for Concat"]) == (Reason("unexplained"),)


def test_repeated_lines_count_once() -> None:
    assert len(parse(["error: Wrong number of Inputs 0."] * 3)) == 1


def test_numbers_from_unset_memory_are_masked() -> None:
    one, two = "Epsilon has negative value -1035606205.", "Epsilon has negative value -12."
    assert masked(one) == masked(two) != masked("Epsilon has negative value.")
    assert masked("0x408 != 0x232") == "# != #"
