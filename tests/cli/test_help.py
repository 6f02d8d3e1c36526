"""The help of every command: groups, one example that works, words instead of Python's types, 80 columns."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from opdb import __version__

from .conftest import Run, one_line

WIDTH = 80


def _tree(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from _tree(below, (*path, name))


@pytest.fixture(scope="module")
def root() -> Any:
    from opdb.cli import _register, app

    if not app.registered_commands:
        _register()
    return typer.main.get_command(app)


def test_help_is_short_and_in_the_words_of_the_field(root: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    wrong = []
    for path, command in _tree(root, ("opdb",)):
        text = command.get_help(
            command.context_class(command, info_name=" ".join(path), max_content_width=WIDTH)
        )
        if re.search(r"<(str|int|float|path|list|bool|[a-z]+\|)|\bNone\b", text):
            wrong.append((path, "types", text))
        wrong += [(path, "wide", line) for line in text.splitlines() if len(line) > WIDTH]
    assert wrong == []


def test_each_command_is_described_in_one_line_of_its_group(opdb: Run) -> None:
    done = opdb("--help", env={"COLUMNS": str(WIDTH)})
    text = done.stdout
    titles = re.findall(r"(?m)^([A-Z][a-z ]+):$", text)
    assert titles == [
        "Options", "Ask the catalog", "Check a model", "Build and run", "Measure", "Extend", "Maintain", "Example",
    ]  # fmt: skip
    lines = text.partition("Ask the catalog:")[2].splitlines()
    assert not [
        line for line in lines if line.startswith("   ")
    ]  # the rest of a description that takes two lines
    assert opdb("-h", env={"COLUMNS": str(WIDTH)}).stdout == text
    assert opdb("help", env={"COLUMNS": str(WIDTH)}).stdout == text


def test_each_command_has_an_example_that_its_parser_takes(root: Any, tmp_path: Path) -> None:
    """The callbacks are replaced: an example is parsed in full, and its command called with the values, but not run."""
    called: list[tuple[str, ...]] = []
    tree = list(_tree(root, ()))
    kept = [(command, command.callback) for _, command in tree]
    try:
        for path, command in tree:
            if not hasattr(command, "commands"):
                command.callback = lambda path=path, **_values: called.append(path)
        for path, command in tree:
            assert command.epilog, f"{path} has no example"
            assert len(command.epilog) <= WIDTH - 4, command.epilog
            program, *words = shlex.split(command.epilog.partition(" >> ")[0])
            assert program == "opdb"
            called.clear()
            root.main(words, prog_name="opdb", standalone_mode=False)
            own = path[:1] if path[:1] == ("cost",) and path[1:2] != ("build-table",) else path
            assert called and called[0][: len(own)] == own, (path, command.epilog)
    finally:
        for command, callback in kept:
            command.callback = callback


#: Examples that need a database at most.
ALONE = ("query", "diff", "show", "explain", "recipe show", "evidence show", "export xml", "db views", "db dump", "version",
         "help", "completion", "db upgrade", "sync", "package qnn", "package check")  # fmt: skip


@pytest.mark.parametrize("command", ALONE)
def test_examples_that_need_no_file_run(root: Any, loaded: Run, tmp_path: Path, command: str) -> None:
    example = next(c.epilog for path, c in _tree(root, ()) if " ".join(path) == command)
    done = loaded(*shlex.split(example.partition(" >> ")[0])[1:], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.vendor
def test_the_examples_about_a_model_run_one_after_the_other(root: Any, loaded: Run, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    tensors = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2, 4]) for n in "xy"]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"])], "g", tensors[:1], tensors[1:]
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "model.onnx")
    ends = {"dtype": "FLOAT_32", "shape": [2, 4]}
    config = {"op": "Relu", "inputs": [{"name": "x", **ends}], "outputs": [{"name": "y", **ends}]}
    (tmp_path / "ops.json").write_text(json.dumps(config))
    examples = {" ".join(path): command.epilog for path, command in _tree(root, ())}
    for command in ("check", "validate", "compile", "run", "context show", "context check"):
        done = loaded(*shlex.split(examples[command])[1:], cwd=tmp_path)
        assert done.returncode == 0, (command, done.stdout, done.stderr)


def test_help_of_a_command_below_another(opdb: Run) -> None:
    for words in (("libraries", "install"), ("check",), ("cost",), ("cost", "build-table"), ("db",)):
        assert opdb("help", *words).stdout == opdb(*words, "-h").stdout
    assert (
        one_line(opdb("help", "libraries", "remove"))
        == "opdb: no command 'libraries remove'; 'opdb help' lists them"
    )


def test_the_version_has_all_its_spellings(opdb: Run) -> None:
    for words in (("--version",), ("-V",), ("version",)):
        assert opdb(*words).stdout == f"opdb {__version__}\n"
    assert json.loads(opdb("version", "--json").stdout) == {"opdb": __version__}


def test_query_lists_its_questions_with_their_meaning(opdb: Run) -> None:
    from opdb.catalog.query import QUESTIONS

    text = " ".join(opdb("query", "--help").stdout.split())
    for question in QUESTIONS.values():
        assert f"{question.name} {question.about}" in text


def test_a_command_says_how_it_writes_html(opdb: Run) -> None:
    assert one_line(opdb("query", "ops", "--html", "x.html")) == "opdb: --html: write --format html -o FILE"


def test_every_command_that_answers_has_json(root: Any) -> None:
    without = [
        " ".join(path)
        for path, command in _tree(root, ())
        if not hasattr(command, "commands")
        and "--json" not in [name for p in command.params for name in p.opts]
    ]
    assert without == ["help", "completion"]  # texts for people, and for a shell


#: Questions that end a command before its usual answer, too.
LISTS = (
    ("compile", "--passes"),
    ("generate", "--list"),
    ("explain", "--functions"),
    ("recipe", "show"),
    ("db", "views"),
)


@pytest.mark.parametrize("words", LISTS)
def test_lists_are_json_on_request(opdb: Run, words: tuple[str, ...]) -> None:
    done = opdb(*words, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert len(found) > 3 and all(isinstance(row, dict) for row in found)
    assert len(opdb(*words).stdout.splitlines()) > 3
