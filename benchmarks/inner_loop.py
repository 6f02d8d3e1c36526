"""CPU seconds of what is typed all day, and as ratios to the import of what opdb stands on.

    python benchmarks/inner_loop.py              # the least of 5 rounds; generation of a changed spec and --check of 2
    python benchmarks/inner_loop.py --rounds 9

Every command is a process of its own; user and system time of it and its children count, so that other work on the
machine counts little.  The ratio is to ``python -c "import sqlalchemy, jinja2, pydantic"`` in the same run.  A changed
spec is a new summary of Relu; the spec and all that is generated are put back.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "specs" / "ops" / "Relu.yaml"
PYTHON, OPDB = sys.executable, str(Path(sys.executable).parent / "opdb")
UNIT = (PYTHON, "-c", "import sqlalchemy, jinja2, pydantic")
SHORT = {
    "opdb generate, nothing to do": (OPDB, "generate"),
    "opdb query ops --json": (OPDB, "query", "ops", "--json"),
    "opdb query rules --op Conv2d": (OPDB, "query", "rules", "--op", "Conv2d"),
    "opdb query socs": (OPDB, "query", "socs"),
    "opdb show LayerNorm": (OPDB, "show", "LayerNorm"),
    "opdb explain LayerNorm.C1": (OPDB, "explain", "LayerNorm.C1"),
    "opdb --help": (OPDB, "--help"),
}
LONG_ROUNDS = 2


def seconds(command: tuple[str, ...], env: dict[str, str]) -> float:
    """The CPU time of a process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=env, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def changed_summary(text: str) -> Iterator[None]:
    """Relu with another summary."""
    before = SPEC.read_text(encoding="utf-8")
    lines = [f"summary: {text}" if line.startswith("summary:") else line for line in before.splitlines()]
    SPEC.write_text("\n".join(lines) + "\n", encoding="utf-8")
    try:
        yield
    finally:
        SPEC.write_text(before, encoding="utf-8")


def measure(rounds: int, env: dict[str, str]) -> dict[str, float]:
    """The least time of each command; in turns, so that a busy moment of the machine meets all of them."""
    least = {" ".join(("python", *UNIT[1:])): seconds(UNIT, env)}
    unit = next(iter(least))
    for _ in range(rounds):
        for name, command in {unit: UNIT, **SHORT}.items():
            least[name] = min(seconds(command, env), least.get(name, float("inf")))
    for i in range(LONG_ROUNDS):
        with changed_summary(f"Another summary, number {i}."):
            took = seconds((OPDB, "generate"), env)
        seconds((OPDB, "generate"), env)
        name = "opdb generate, one changed spec"
        least[name] = min(took, least.get(name, float("inf")))
        took = seconds((OPDB, "generate", "--check"), env)
        least["opdb generate --check"] = min(took, least.get("opdb generate --check", float("inf")))
    return least


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"OPDB_URL": f"sqlite:///{folder}/opdb.db"}
        seconds((OPDB, "generate"), env)  # creates the database; refuses if something was edited by hand
        least = measure(rounds, env)
    unit = next(iter(least.values()))
    for name, took in least.items():
        print(f"{name:60} {took:6.2f} s  {took / unit:6.2f}")


if __name__ == "__main__":
    main()
