"""The same catalog gives the same bytes in any process, folder and locale."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import hashlib, sys
from pathlib import Path
from opdb.spec.catalog import Catalog, retired_of, socs_of
from opdb.codegen.targets import TARGETS
from opdb.codegen.writer import check, generate
from opdb.spec.family import families_of
from opdb.spec.files import read_folder

root = Path(sys.argv[2])
root.mkdir()
(root / "README.md").write_text("<!-- ops -->\\n<!-- /ops -->\\n")
s = read_folder(Path(sys.argv[1]))
side = s.backends, socs_of(s.socs), retired_of(s.retired), s.errata
catalog = Catalog(s.own, s.bases, families_of(s.families, s.ops), *side)
generate(catalog, root, TARGETS)
assert check(catalog, root, TARGETS) == []
for path in sorted(p for p in root.rglob("*") if p.is_file()):
    print(path.relative_to(root).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest())
"""


def run(seed: str, folder: Path, locale: str, root: Path) -> list[str]:
    environment = os.environ | {
        "PYTHONHASHSEED": seed,
        "LC_ALL": locale,
        "PYTHONUTF8": "0",
        "TZ": "Asia/Tokyo",
    }
    command = [sys.executable, "-c", SCRIPT, str(ROOT / "specs"), str(root)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.breadth
def test_output_does_not_depend_on_seed_folder_or_locale(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    first = run("1", tmp_path, "C", tmp_path / "a")
    second = run("4242", tmp_path / "elsewhere", "C.UTF-8", tmp_path / "elsewhere" / "b")
    assert len(first) > 70
    assert first == second
