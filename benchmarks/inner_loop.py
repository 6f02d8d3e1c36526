"""CPU seconds of everyday commands, also as ratios to importing opdb's main dependencies.

    python benchmarks/inner_loop.py              # medians of 5 rounds
    python benchmarks/inner_loop.py --rounds 9

Every command is a separate process, with bytecode on disk as users have it; its user and system time and that of its
children count, so other work on the machine has little effect.  All commands take turns, so that a busy moment affects
all of them, and the unit of the ratios, ``python -c "import sqlalchemy, jinja2, pydantic"``, is one of them.

A changed spec is a new summary of Relu; the spec and all generated files are restored.  ``--check`` is measured with the
results of the last rendering in build/ and, by --force, without them, as on a fresh clone.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "specs" / "ops" / "Relu.yaml"
PYTHON, OPDB = sys.executable, str(Path(sys.executable).parent / "opdb")
UNIT = 'python -c "import sqlalchemy, jinja2, pydantic"'
CHANGED = "opdb generate, one changed spec"
#: Commands measured in every round, with the target seconds.
COMMANDS: dict[str, tuple[tuple[str, ...], float | None]] = {
    UNIT: ((PYTHON, "-c", "import sqlalchemy, jinja2, pydantic"), None),
    "opdb --help": ((OPDB, "--help"), None),
    "opdb query ops --json": ((OPDB, "query", "ops", "--json"), 0.5),
    "opdb query errata": ((OPDB, "query", "errata"), 0.5),
    "opdb query socs": ((OPDB, "query", "socs"), 0.5),
    "opdb query support --op Relu": ((OPDB, "query", "support", "--op", "Relu"), 0.5),
    "opdb show LayerNorm": ((OPDB, "show", "LayerNorm"), 0.5),
    "opdb explain LayerNorm.C1": ((OPDB, "explain", "LayerNorm.C1"), 0.5),
    "opdb explain HTP-0042": ((OPDB, "explain", "HTP-0042"), 0.5),
    "opdb generate, nothing to do": ((OPDB, "generate"), 0.6),
    "opdb generate --check": ((OPDB, "generate", "--check"), 3.0),
}
#: Slow commands, measured in LONG_ROUNDS rounds.
LONG: dict[str, tuple[tuple[str, ...], float | None]] = {
    CHANGED: ((OPDB, "generate"), 1.5),
    "opdb generate --check --force": ((OPDB, "generate", "--check", "--force"), None),
}
LONG_ROUNDS = 3


def seconds(command: Sequence[str], env: Mapping[str, str]) -> float:
    """The CPU time of a process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=env, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def changed_summary(text: str) -> Iterator[None]:
    """Gives Relu another summary, and restores the spec afterwards."""
    before = SPEC.read_text(encoding="utf-8")
    lines = [f"summary: {text}" if line.startswith("summary:") else line for line in before.splitlines()]
    SPEC.write_text("\n".join(lines) + "\n", encoding="utf-8")
    try:
        yield
    finally:
        SPEC.write_text(before, encoding="utf-8")


def measure(rounds: int, env: Mapping[str, str]) -> dict[str, list[float]]:
    """The times of each command, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in (*COMMANDS, *LONG)}
    for i in range(max(rounds, LONG_ROUNDS)):
        for name, (command, _) in COMMANDS.items():
            times[name].append(seconds(command, env))
        if i < LONG_ROUNDS:
            with changed_summary(f"Another summary, number {i}."):
                times[CHANGED].append(seconds(LONG[CHANGED][0], env))
            seconds((OPDB, "generate"), env)  # restores the generated files
            name = "opdb generate --check --force"
            times[name].append(seconds(LONG[name][0], env))
    return times


def report(times: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """A table of seconds and ratios, with the targets."""
    unit = statistics.median(times[UNIT])
    yield f"{'CPU seconds, medians':50} {'seconds':>8} {'ratio':>6} {'wanted':>7}"
    for name, (_, wanted) in (COMMANDS | LONG).items():
        took = statistics.median(times[name])
        yield f"{name:50} {took:8.2f} {took / unit:6.2f} {'' if wanted is None else f'{wanted:.1f}':>7}".rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env["OPDB_URL"] = f"sqlite:///{folder}/opdb.db"
        seconds((OPDB, "generate"), env)  # creates the database; refuses if something was edited by hand
        seconds((OPDB, "generate", "--check"), env)  # fills build/
        for command, _ in COMMANDS.values():
            seconds(command, env)  # leaves bytecode
        print("\n".join(report(measure(rounds, env))))


if __name__ == "__main__":
    main()
