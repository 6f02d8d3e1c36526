"""Groups of options: their place in the help, the command's arguments, and invalid groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from opdb.cli.option_groups import (
    DatabaseOptions,
    ErrataOptions,
    ModelOptions,
    OptimizerOptions,
    TargetOptions,
    with_option_groups,
)
from opdb.core.errors import OpdbError

Loud = Annotated[bool, typer.Option("--loud", help="Loudly.")]


@dataclass(frozen=True)
class Inner:
    depth: Annotated[int, typer.Option("--depth", help="How deep.")] = 1


@dataclass(frozen=True)
class Outer:
    name: Annotated[str, typer.Option("--name", help="Whose.")]
    inner: Inner = Inner()
    words: Annotated[list[str] | None, typer.Option("--word", help="Any.")] = None


@dataclass(frozen=True)
class Reworded(Outer):
    name: Annotated[str, typer.Option("--name", help="Of whom.")] = "nobody"


def call(command: object, *args: str) -> tuple[int, str]:
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command()(with_option_groups(command))  # type: ignore[arg-type]
    done = CliRunner().invoke(app, args)
    return done.exit_code, done.output


def test_nested_groups_appear_in_parameter_order() -> None:
    def command(file: str, group: Outer, loud: Loud = False) -> None:
        typer.echo(f"{file} {group} {loud}")

    assert call(command, "a", "--name", "b", "--depth", "3", "--word", "x", "--word", "y", "--loud") == (
        0,
        f"a {Outer('b', Inner(3), ['x', 'y'])} True\n",
    )
    assert call(command, "a", "--name", "b") == (0, f"a {Outer('b')} False\n")
    code, text = call(command, "a")
    assert code == 2 and "Missing option '--name'" in text
    _, text = call(command, "--help")
    options = [line.split()[0] for line in text.splitlines() if line.startswith("  --")]
    assert options == ["--name", "--depth", "--word", "--loud", "--help"]


def test_a_subclass_can_reword_an_option() -> None:
    def command(group: Reworded) -> None:
        typer.echo(group.name)

    assert call(command) == (0, "nobody\n")
    _, text = call(command, "--help")
    assert "Of whom." in text and "Whose." not in text and text.index("--name") < text.index("--depth")


def test_a_command_keeps_its_name_and_docstring() -> None:
    def command(group: Inner) -> None:
        """What it does."""

    expanded = with_option_groups(command)
    assert (expanded.__name__, expanded.__doc__) == ("command", "What it does.")


def test_duplicate_option_names_are_rejected() -> None:
    def command(one: Inner, depth: int = 2) -> None: ...

    with pytest.raises(ValueError, match="duplicate parameter name: 'depth'"):
        with_option_groups(command)


def test_target_options_give_a_target() -> None:
    target = TargetOptions("htp", "8 gen 3", "2.47", ErrataOptions("emulator", "warn", ["htp-0042"])).target()
    assert (target.backend, target.soc, target.sdk) == ("HTP", "SM8650", "2.47")
    assert (target.execution, target.errata, set(target.ignored)) == ("emulator", "warn", {"HTP-0042"})
    assert TargetOptions().target().execution == "device"
    with pytest.raises(OpdbError, match="NPU"):
        TargetOptions("NPU").target().context()


def test_model_and_optimizer_options_are_checked() -> None:
    ModelOptions().check()
    with pytest.raises(OpdbError, match="--dtype f64: one of f32, f16"):
        ModelOptions("f64").check()
    assert ModelOptions(dim=["n=2"]).dims() == {"n": 2}
    assert not OptimizerOptions().given and OptimizerOptions(io_layout="nhwc").given
    with pytest.raises(OpdbError, match="nothing_like_it"):
        OptimizerOptions(["nothing_like_it"]).check()


def test_database_options_become_arguments_of_another_command() -> None:
    assert DatabaseOptions().words() == []
    assert DatabaseOptions("a.db", Path("specs")).words() == ["--db", "a.db", "--specs", "specs"]
