"""Lines and tables for a width: breaks between words, below the last column, and no further right than the longest word allows."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from opdb.cli.screen import meaning, wrapped
from opdb.cli.screen_table import Layout, table_lines


@pytest.mark.parametrize(
    ("line", "most", "expected"),
    [
        ("short", 10, ["short"]),
        ("one two three four", 9, ["one two", "  three", "  four"]),
        ("- one two three", 9, ["- one two", "  three"]),
        ("why  one two three", 14, ["why  one two", "     three"]),
        # two columns: below the second
        ("ok  HTP  one two three", 20, ["ok  HTP  one two", "         three"]),
        # a column of the second half is no place to begin
        ("a long first column  b c", 20, ["a long first column", "  b c"]),
        # the long word fits only further left
        ("      folder  /a/b/c/d/e/f/g/h", 20, ["    folder", "    /a/b/c/d/e/f/g/h"]),
        # a word that is wider than the terminal is not cut
        ("see https://example.org/page now", 12, ["see", "https://example.org/page", "now"]),
        ("    opdb check a b  # what it does", 24, ["    opdb check a b", "        # what it does"]),
        ("漢字 漢字 漢字", 9, ["漢字 漢字", "  漢字"]),
    ],
)
def test_a_line_breaks_between_words(line: str, most: int, expected: list[str]) -> None:
    assert wrapped(line, most) == expected


def test_a_table_pads_by_what_a_terminal_shows() -> None:
    rows = [{"name": "漢字", "what": "x"}, {"name": "a", "what": "a text of several words"}]
    lines = list(table_lines(rows, ["name", "what"], Layout(), str, 20))
    assert lines == ["name  what", "漢字  x", "a     a text of", "      several words"]
    assert max(map(cell_len, lines)) <= 20


def rows_of(columns: int, words: str) -> list[dict[str, Any]]:
    return [{f"c{i}": words for i in range(columns)}]


def test_columns_left_out_are_named_and_chosen_ones_become_blocks() -> None:
    rows, names = rows_of(4, "a" * 20), [f"c{i}" for i in range(4)]
    some = list(table_lines(rows, names, Layout(["c2", "c0"], others="--wide"), str, 44))
    assert some == [f"c0{' ' * 18}  c2", f"{'a' * 20}  {'a' * 20}", "2 more columns, --wide: c1, c3"]
    whole = list(table_lines(rows, names, Layout(chosen=True, others="--wide"), str, 44))
    assert whole == [f"{name}: {'a' * 20}" for name in names]
    # nothing is left out where no option would show it
    assert list(table_lines(rows, names, Layout(["c2"]), str, 44)) == whole


def test_a_block_gives_a_long_word_a_line_of_its_own() -> None:
    rows = [{"name": "x", "folder": "f" * 25, "why": "some words to wrap here"}]
    assert list(table_lines(rows, list(rows[0]), Layout(), str, 28)) == [
        "name:   x",
        "folder:",
        f"  {'f' * 25}",
        "why:    some words to wrap",
        "        here",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yes", "good"), ("yes: FP16", "good"), ("yes, except", "partly"), ("yes: FP16; no: INT8", "partly"),
        ("no", "bad"), ("no (the chip has no bfloat16)", "bad"), ("crashed", "bad"), ("not known", "unknown"),
        ("no floating point", ""), ("yesterday", ""), ("", ""), ("a no", ""),
    ],
)  # fmt: skip
def test_a_meaning_is_read_from_a_status_alone(text: str, expected: str) -> None:
    assert meaning(text) == expected
