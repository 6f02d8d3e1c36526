"""Every command's table and text on terminals of 80 to 200 columns: no line is wider, no word is cut, the answer comes first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opdb.catalog.query import QUESTIONS

from .terminal import COLOR, LEFT_OUT, WIDTHS, check_shape, on_terminal, piped, words

#: Questions with rows in a new database, and filters that keep them few.
ASKED = {
    "ops": ("--op", "LayerNorm", "--op", "Conv2d"),
    "params": ("--op", "Conv2d"),
    "types": ("--op", "LayerNorm"),
    "torch": ("--torch-op", "aten.gelu"),
    "rules": ("--op", "LayerNorm"),
    "backends": (),
    "socs": (),
    "errata": ("--op", "Gelu", "--op", "LayerNorm"),
    "support": ("--op", "LayerNorm", "--soc", "SM8650", "--sdk", "2.51"),
    "evidence": ("--op", "Relu", "--soc", "SM8650"),
    "coverage": ("--op", "LayerNorm"),
}


#: The terminals of a test: the narrowest one in every run, all of them in `make slow`.
widths = pytest.mark.parametrize(
    "widths", [WIDTHS[:1], pytest.param(WIDTHS, marks=pytest.mark.slow)], ids=["80", "all"]
)


@widths
@pytest.mark.parametrize("question", ASKED)
def test_a_question_shows_the_columns_that_answer_as_many_as_fit(
    question: str, widths: tuple[int, ...], initialized: Path
) -> None:
    asked = ("query", question, *ASKED[question])
    whole = piped(initialized, *asked).stdout
    names = whole.partition("\n")[0].split()
    first = [name for name in QUESTIONS[question].first if name in names]
    prefixes = []
    for columns in widths:
        text = on_terminal(columns, initialized, *asked)[1]
        left = LEFT_OUT.search(text)
        table = text[: left.start()] if left else text
        check_shape(table, columns, words(whole))
        shown = table.partition("\n")[0].split()
        # those that answer, in the order of the pipe, and all others by name in the last line
        assert shown == [name for name in names if name in shown]
        assert set(first[:1]) <= set(shown) <= set(first)
        hidden = re.split(r",\s+", left[1].strip()) if left else []
        assert sorted(hidden) == sorted(set(names) - set(shown))
        # a wider terminal shows as many of the most important ones, or more
        prefixes.append(next((i for i, name in enumerate(first) if name not in shown), len(first)))
    assert prefixes == sorted(prefixes) and prefixes[0] >= min(2, len(first))


@widths
def test_all_columns_are_a_block_for_each_row_where_no_table_of_them_fits(
    widths: tuple[int, ...], initialized: Path
) -> None:
    asked = ("query", "support", "--op", "Relu", "--soc", "SM8650", "--sdk", "2.51", "--each-sdk")
    whole = piped(initialized, *asked).stdout
    names = whole.partition("\n")[0].split()
    for columns in widths:
        text = on_terminal(columns, initialized, *asked, "--wide")[1]
        check_shape(text, columns, words(whole) | {f"{name}:" for name in names})
        blocks = text.strip("\n").split("\n\n")
        assert len(blocks) == len(whole.splitlines()) - 2
        assert all(re.findall(r"^(\w+):", block, re.MULTILINE)[0] == names[0] for block in blocks)
        assert {name for block in blocks for name in re.findall(r"^(\w+):", block, re.MULTILINE)} == set(
            names
        )


def test_chosen_columns_are_shown_all_in_the_order_asked(initialized: Path) -> None:
    asked = ("query", "errata", "--op", "LayerNorm", "--columns", "effect,erratum,title")
    whole = piped(initialized, *asked).stdout
    for columns in WIDTHS[:2]:
        text = on_terminal(columns, initialized, *asked)[1]
        check_shape(text, columns, words(whole))
        assert text.split()[:3] == ["effect", "erratum", "title"]
    narrow = on_terminal(24, initialized, *asked)[1]
    check_shape(narrow, 24, words(whole) | {"effect:", "erratum:", "title:"})
    assert narrow.startswith("effect:")


def test_a_status_has_a_color_and_its_word(initialized: Path) -> None:
    asked = ("query", "support", "--op", "ArgbToRgb", "--backend", "CPU", "--columns", "op,validates,matches")
    colored, plain = on_terminal(80, initialized, *asked)
    assert "\x1b[32myes\x1b[0m" in colored and "\x1b[31mno\x1b[0m" in colored
    assert words(plain) == words(piped(initialized, *asked).stdout) - {"---------", "-------"}
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert not COLOR.search(on_terminal(80, initialized, *asked, **env)[0])
    assert "\x1b" not in piped(initialized, *asked).stdout


def test_a_yes_of_a_number_or_an_option_is_no_status(initialized: Path) -> None:
    colored = on_terminal(
        80, initialized, "query", "params", "--op", "Buffer", "--columns", "param,optional"
    )[0]
    assert "yes" in colored and "\x1b[32m" not in colored


def test_a_pager_is_used_only_if_asked(initialized: Path, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text(f"#!/bin/sh\ncat > {tmp_path}/paged\n")
    pager.chmod(0o755)
    asked = ("query", "errata", "--op", "LayerNorm")
    usual = on_terminal(80, initialized, *asked, PAGER=str(pager))[1]
    assert "LayerNorm" in usual and not (tmp_path / "paged").exists()
    assert on_terminal(80, initialized, *asked, "--pager", PAGER=str(pager))[1] == ""
    assert "LayerNorm" in (tmp_path / "paged").read_text()
    assert piped(initialized, *asked, "--pager").stdout == piped(initialized, *asked).stdout
