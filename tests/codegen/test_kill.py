"""A writer killed at any moment leaves whole files, and the next run finishes the work."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from opdb.codegen.artifact import Artifact, Target, with_header
from opdb.codegen.writer import check, generate
from opdb.spec.catalog import Catalog

KILLS = 50
#: Forks for each version number on stdin a process that writes this version and all following ones.
SCRIPT = """
import os, sys
from pathlib import Path
from opdb.codegen.writer import generate
sys.path.insert(0, sys.argv[1])
from conftest import HERE, catalog_of
from test_kill import target
catalog, root, keys = catalog_of(HERE / "specs"), Path(sys.argv[2]), Path(sys.argv[3])
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        version = int(line)
        while True:
            generate(catalog, root, [target(version, keys)])
            version += 1
    print(child, flush=True)
    os.waitpid(child, 0)
    print("gone", flush=True)
"""


def artifacts(version: int) -> list[Artifact]:
    kind = "odd" if version % 2 else "even"
    names = (
        [f"docs/{i}.md" for i in range(10)]
        + [f"tables/{i}.csv" for i in range(12)]
        + [f"{kind}/a.md", f"{kind}/b.csv"]
    )
    made = []
    for i, name in enumerate(names):
        text = "".join(f"{kind} {name} {line}\n" for line in range(50 + 500 * (i % 4)))
        language = "csv" if name.endswith("csv") else "markdown"
        made.append(Artifact(f"generated/{name}", text, ("specs/ops/Relu.yaml",), language))  # type: ignore[arg-type]
    made.append(Artifact("README.md", f"{kind}\n" * 2000, ("specs/ops/Relu.yaml",), "markdown", "ops"))
    return made


def target(version: int, folder: Path) -> Target:
    key = folder / ("odd" if version % 2 else "even")
    key.write_text(key.name)
    return Target("files", "two generations", whole=lambda _: artifacts(version), reads=(key,))


@pytest.fixture
def writers(tree: Path, keys: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parent), str(tree), str(keys)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.fixture
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.mark.kill
def test_a_killed_writer_leaves_whole_files(
    mini: Catalog, tree: Path, keys: Path, writers: subprocess.Popen[str]
) -> None:
    assert writers.stdin is not None and writers.stdout is not None
    whole = [_texts(tree, version) for version in (0, 1)]
    first = {"README.md": (tree / "README.md").read_text()}
    chance = random.Random(2)
    in_the_middle = 0
    for kill in range(KILLS):
        print(kill, file=writers.stdin, flush=True)
        pid = int(writers.stdout.readline())
        time.sleep(chance.uniform(0, 0.15))
        os.kill(pid, signal.SIGKILL)
        assert writers.stdout.readline() == "gone\n"
        in_the_middle += any((tree / "generated").rglob(".*.new"))
        for path in tree.rglob("*"):
            name = path.relative_to(tree).as_posix()
            if path.is_file() and not path.name.startswith("."):
                assert path.read_text() in [*(t[name] for t in whole if name in t), first.get(name)], (
                    f"{name} is torn"
                )
        version = chance.randrange(2)
        generate(mini, tree, [target(version, keys)])
        assert check(mini, tree, [target(version, keys)]) == []
        assert not [p for p in tree.rglob("*") if p.is_file() and p.name.startswith(".")]
    assert in_the_middle >= KILLS // 10, "the kills came at the wrong moments to prove anything"


def _texts(tree: Path, version: int) -> dict[str, str]:
    texts = {a.path: with_header(a) for a in artifacts(version) if not a.region}
    region = next(a.text for a in artifacts(version) if a.region)
    empty = (tree / "README.md").read_text()
    filled = empty.replace("<!-- ops -->\n", f"<!-- ops -->\n{region}")
    return texts | {"README.md": filled}
