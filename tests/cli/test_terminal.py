"""Every command's table and text on terminals of 80 to 200 columns: no line is wider, no word is cut, the answer comes first."""

from __future__ import annotations

import re
import shutil
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
    # one value, which a filter gives, says least
    given = {"op", "soc", "backend", "sdk"} & {a.removeprefix("--") for a in asked if asked.count(a) == 1}
    given |= {"backend"} if "soc" in given else set()
    first = sorted((c for c in QUESTIONS[question].first if c in names), key=given.__contains__)
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


#: Other commands that print tables and long lines, without libraries of Qualcomm's.
TEXTS = (
    ("explain", "LayerNorm.C3"),
    ("explain", "HTP-0042"),
    ("explain", "3110"),
    ("explain", "--functions"),
    ("show", "LayerNorm"),
    ("recipe", "show"),
    ("recipe", "show", "8a8w"),
    ("compile", "--passes"),
    ("generate", "--list"),
    ("diff", "HTP:SM8550", "HTP:SM8750", "--op", "MatMul"),
    ("evidence", "show"),
    ("evidence", "show", "--wide"),
    pytest.param(("executorch", "table"), marks=pytest.mark.slow),
    ("conformance", "report"),
    ("query", "runs", "--op", "Relu"),
    ("query", "support", "--op", "MatMul", "--soc", "SM8650", "--pivot"),
    ("query", "socs", "--wide"),
)


@pytest.fixture(scope="module")
def measured(initialized: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with results of Relu's cases."""
    file = tmp_path_factory.mktemp("measured") / "opdb.db"
    shutil.copyfile(initialized, file)
    piped(file, "conformance", "run", "--op", "Relu", "--executor", "python").check_returncode()
    return file


@widths
@pytest.mark.parametrize("asked", TEXTS, ids=lambda asked: " ".join(asked))
def test_no_line_is_wider_and_no_word_is_cut(
    asked: tuple[str, ...], widths: tuple[int, ...], measured: Path
) -> None:
    whole = piped(measured, *asked)
    assert whole.returncode == 0 and whole.stdout
    known = words(whole.stdout) | {f"{name}:" for name in words(whole.stdout.partition("\n")[0])}
    for columns in widths:
        text = on_terminal(columns, measured, *asked)[1]
        left = LEFT_OUT.search(text)
        check_shape(text[: left.start()] if left else text, columns, known | {"#"})


@widths
def test_long_text_is_at_most_a_hundred_columns_wide(widths: tuple[int, ...], initialized: Path) -> None:
    for columns in widths:
        lines = on_terminal(columns, initialized, "explain", "3110")[1].split("\n")
        assert max(map(len, lines)) <= min(columns, 100)


def test_an_error_is_wrapped_as_well(initialized: Path) -> None:
    asked = ("query", "support", "--columns", "no_such_column")
    whole = piped(initialized, *asked)
    text = on_terminal(80, initialized, *asked, code=2)[1]
    check_shape(text, 80, words(whole.stderr))
    assert text.split() == whole.stderr.split() and text.count("\n") > whole.stderr.count("\n") == 1


MODEL = """
import torch
from torch import nn


class Patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())

    def forward(self, x):
        x = self.stem(x)
        return x.reshape(1, 8, 16, 2, 16, 2).mean((3, 5)) + torch.special.erfcx(x[:, :, ::2, ::2])


def make():
    return Patches().eval(), (torch.randn(1, 3, 32, 32),)
"""


@widths
@pytest.mark.torch
@pytest.mark.parametrize("more", [(), ("-v",)], ids=["check", "check -v"])
def test_check_begins_with_the_answer(
    more: tuple[str, ...], widths: tuple[int, ...], initialized: Path, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    asked = ("check", "model.py:make", "--soc", "SM8650", *more)
    whole = piped(initialized, *asked, cwd=tmp_path)
    answer, _, rest = whole.stdout.partition("\n")
    assert re.fullmatch(
        r"62.5 % of the nodes \(5 of 8\) and [\d.]+ % of the FLOPs run on the NPU \(HTP SM8650\), in 2 graphs; 3 nodes fall back to the"
        r" CPU\.",
        answer,
    ), answer
    for node in ("reshape", "mean", "special_erfcx"):
        assert re.search(rf"^ *(?:\w+ +)?{node} ", rest, re.MULTILINE)
    assert ("conv2d" in rest) == bool(more)
    for columns in widths:
        colored, text = on_terminal(columns, initialized, *asked, cwd=tmp_path, code=1, OPDB_PROGRESS="0")
        check_shape(text, columns, words(whole.stdout))
        assert text.split() == whole.stdout.split()
        assert "\x1b[33m62.5 %" in colored


CONFIG = """[{"id": "a", "op": "LayerNorm", "inputs": [{"name": "x", "dtype": "FLOAT_16", "shape": [2, 4]}],
  "params": {"axes": {"dtype": "UINT_32", "shape": [1], "data": [3]}}, "outputs": [{"name": "y", "dtype": "FLOAT_16", "shape": [2, 4]}]}]"""


@pytest.mark.torch
@pytest.mark.vendor
@pytest.mark.slow
def test_commands_with_qualcomms_libraries_fit_the_terminal(initialized: Path, tmp_path: Path) -> None:
    """Times differ from run to run: words with digits are compared with nothing."""
    (tmp_path / "model.py").write_text(MODEL.replace(" + torch.special.erfcx(x[:, :, ::2, ::2])", "").replace(
        "x.reshape(1, 8, 16, 2, 16, 2).mean((3, 5))", "nn.functional.avg_pool2d(x, 2)"))  # fmt: skip
    (tmp_path / "config.json").write_text(CONFIG)
    commands = (
        (("compile", "model.py:make", "--soc", "SM8650", "-o", "model.bin"), 0),
        (("compile", "model.py:make", "--soc", "QCM6490", "--quantize", "8a8w", "--data", "example", "-o", "q.bin"), 0),
        (("run", "model.bin", "--inputs", "random:1"), 0),
        (("context", "show", "model.bin"), 0),
        (("context", "check", "model.bin"), 0),
        (("validate", "config.json", "--backend", "HTP", "--soc", "SM8650", "--against", "vendor"), 1),
        (("libraries", "list"), 0),
        (("libraries", "list", "--wide"), 0),
        (("libraries", "chips", "--number", "57"), 0),
        (("doctor",), 0),
        (("errata", "probe", "--qnn", "2.47", "--id", "HTP-0042", "--soc", "SM8350"), 0),
        (("cost", "model.py:make", "--soc", "SM8650"), 2),
    )  # fmt: skip
    for asked, code in commands:
        whole = piped(initialized, *asked, cwd=tmp_path)
        assert whole.returncode == code, whole.stderr
        known = words(whole.stdout + whole.stderr) | {"warning:"}
        known |= {f"{name}:" for name in words(whole.stdout.partition("\n")[0])}
        for columns in WIDTHS:
            text = on_terminal(columns, initialized, *asked, cwd=tmp_path, code=code, OPDB_PROGRESS="0")[1]
            left = LEFT_OUT.search(text)
            text = text[: left.start()] if left else text
            varying = {word for word in words(text) if re.search(r"\d", word)}
            check_shape(text, columns, known | varying)


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
