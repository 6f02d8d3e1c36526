"""Completion in a real bash: the script that ``opdb completion bash`` prints, and the words that it finds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from .conftest import Run, one_line


def completed(*words: str, cwd: Path) -> list[str]:
    """What bash offers for the last of ``words``."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.fail("this test needs bash")
    typed = " ".join(f"'{word}'" for word in words)
    program = f"""
        eval "$(opdb completion bash)"
        complete -p opdb >&2
        COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}
        _opdb_completion opdb
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    env = {**os.environ, "PATH": f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"}
    done = subprocess.run(
        [bash, "--norc", "-c", program], capture_output=True, text=True, cwd=cwd, env=env, check=True
    )
    assert "_opdb_completion" in done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("opdb", "co"), ["compile", "completion", "conformance", "context", "cost"]),
        (("opdb", "libraries", "in"), ["install"]),
        (("opdb", "query", "er"), ["errata"]),
        (("opdb", "query", "support", "--op", "LayerN"), ["LayerNorm"]),
        (("opdb", "query", "support", "--op", "layern"), ["layernorm"]),
        (("opdb", "show", "Conv3"), ["Conv3d"]),
        (("opdb", "check", "model.onnx", "--soc", "SM865"), ["SM8650"]),
        (("opdb", "check", "model.onnx", "--backend", "H"), ["HTP", "HTA"]),
        (("opdb", "check", "model.onnx", "--sdk", "2.5"), ["2.50", "2.51"]),
        (("opdb", "query", "ops", "--format", "pa"), ["parquet"]),
        (("opdb", "diff", "--fa"), ["--fail-on"]),
    ],
)
def test_bash_completes(words: tuple[str, ...], offered: list[str], tmp_path: Path) -> None:
    assert sorted(completed(*words, cwd=tmp_path)) == sorted(offered)


@pytest.mark.parametrize(
    ("shell", "start"),
    [("bash", "_opdb_completion() {"), ("zsh", "#compdef opdb"), ("fish", "complete --command opdb")],
)
def test_each_shell_has_its_script(opdb: Run, shell: str, start: str) -> None:
    done = opdb("completion", shell)
    assert done.returncode == 0 and done.stdout.startswith(start) and "_OPDB_COMPLETE" in done.stdout


def test_another_shell_is_refused(opdb: Run) -> None:
    done = opdb("completion", "tcsh")
    assert done.returncode == 2 and "tcsh" in done.stderr


def test_ops_are_found_by_their_names_in_any_case(loaded: Run) -> None:
    assert loaded("show", "layernorm").stdout == loaded("show", "LayerNorm").stdout
    assert loaded("explain", "layernorm.c3").stdout == loaded("explain", "LayerNorm.C3").stdout
    for option, name in (("--op", "MATMUL"), ("--backend", "htp"), ("--soc", "sm8650")):
        asked = [option, name] if option == "--op" else ["--op", "MatMul", option, name]
        usual = ["--op", "MatMul"] if option == "--op" else ["--op", "MatMul", option, name.upper()]
        assert (
            loaded("query", "support", *asked, "--json").stdout
            == loaded("query", "support", *usual, "--json").stdout
        )
    assert one_line(loaded("show", "LayerNrm")) == "opdb: unknown op 'LayerNrm'; did you mean 'LayerNorm'?"
