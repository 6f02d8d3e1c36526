"""The folder that `opdb site` writes: its pages and links, their sizes, the same bytes each time; and what it refuses."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from conftest import run

from opdb.catalog.targets.chips import resolve
from opdb.generated.constants.qnn_errors import NAMES
from opdb.generated.constants.socs import SOCS
from opdb.plugins.site.write import LARGEST_PAGE, LARGEST_SITE
from opdb.spec.catalog import Catalog

pytestmark = [pytest.mark.native, pytest.mark.slow]


def names(site: Path, kind: str) -> set[str]:
    return {p.stem for p in (site / kind).glob("*.html")} - {"index"}


def test_everything_has_a_page_with_its_json_and_none_is_too_large(site: Path, catalog: Catalog) -> None:
    rules = {f"{op}.{rule}" for op in catalog.ops for rule in catalog.compiled(op).rule_ids()}
    assert {p.removesuffix(".html") for p in names(site, "rule")} == rules
    assert names(site, "op") == set(catalog.ops)
    assert names(site, "erratum") == set(catalog.errata)
    assert names(site, "chip") == set(SOCS)
    assert names(site, "code") >= {str(code) for code in NAMES if code}
    assert names(site, "sdk") >= {"2.47", "2.51"}
    assert names(site, "torch") == {t for c in catalog.candidates for t in c.torch} | {
        t for op in catalog.ops for t in catalog.mappings(op)
    }
    assert {"Softmax", "LayerNormalization", "com.microsoft.QLinearAdd"} <= names(site, "onnx")
    assert {"SOFTMAX", "CONV_2D", "FULLY_CONNECTED"} <= names(site, "tflite")
    pages = list(site.rglob("*.html"))
    assert all(p.with_suffix(".json").is_file() for p in pages)
    assert max(p.stat().st_size for p in site.rglob("*") if p.is_file()) <= LARGEST_PAGE == 1_000_000
    assert sum(p.stat().st_size for p in site.rglob("*") if p.is_file()) <= LARGEST_SITE == 40_000_000


def test_every_link_leads_somewhere(site: Path) -> None:
    link, anchor = re.compile(r'(?:href|src)="([^"]+)"'), re.compile(r' id="([^"]+)"')
    texts = {p: p.read_text(encoding="utf-8") for p in site.rglob("*.html")}
    ids = {p: set(anchor.findall(text)) for p, text in texts.items()}
    dead = []
    for page, text in texts.items():
        assert "object at 0x" not in text and ">None<" not in text, page
        for target in set(link.findall(text)):
            file, _, place = target.partition("#")
            to = (page.parent / file).resolve() if file else page
            if not to.is_file() or (place and place not in ids[to]):
                dead.append(f"{page.relative_to(site)}: {target}")
    assert dead == []


def test_no_two_files_differ_only_in_case(site: Path) -> None:
    paths = [str(p.relative_to(site)).lower() for p in site.rglob("*")]
    assert len(paths) == len(set(paths))


def test_the_json_has_the_words_of_query(site: Path, database: Path) -> None:
    done = run(
        "query",
        "support",
        "--op",
        "Concat",
        "--soc",
        "SM8650",
        "--backend",
        "HTP",
        "--json",
        "--each-sdk",
        database=database,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    (matrix,) = (
        m for m in json.loads((site / "op" / "Concat.json").read_text())["support"] if m["backend"] == "HTP"
    )
    (column,) = (i for i, c in enumerate(matrix["columns"]) if "SM8650" in c["chips"])
    said = {}
    for row in matrix["rows"]:
        for sdks, word, note in row["support"][column]:
            for sdk in matrix["sdks"] if not sdks else _each(sdks, matrix["sdks"]):
                said[row["type_row"], sdk] = (word, matrix["notes"][note - 1] if note else None)
    assert said == {(r["type_row"], r["sdk"]): (r["status"], r["why"]) for r in rows}
    assert said["HTP.FP16.1", "2.47"][0] == "yes, except" and said["HTP.BF16_2_47.1", "2.47"][0] == "no"


def _each(ranges: str, sdks: list[str]) -> list[str]:
    found = []
    for part in ranges.split(", "):
        first, _, last = part.partition("-")
        found += sdks[sdks.index(first) : sdks.index(last or first) + 1]
    return found


def test_the_same_catalog_gives_the_same_bytes(site: Path, database: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert run("site", "-o", str(again), database=database).returncode == 0
    one, two = (
        {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
        for root in (site, again)
    )
    assert one.keys() == two.keys()
    assert [path for path in one if one[path] != two[path]] == []


def test_without_clang_the_pages_say_that_verdicts_are_left_out(
    database: Path, site: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "bare"
    (tmp_path / "bin").mkdir()
    done = run("site", "-o", str(folder), "--json", database=database, PATH=str(tmp_path / "bin"))
    assert done.returncode == 0
    assert (
        done.stderr
        == "opdb: live verdicts are left out: clang and wasm-ld are not on PATH (Debian: apt-get install clang lld)\n"
    )
    said = json.loads(done.stdout)
    assert said["verdicts"] is False and said["bytes"] < LARGEST_SITE
    text = (folder / "op" / "Relu.html").read_text(encoding="utf-8")
    assert "Live verdicts are left out of this copy of the site" in text and "wasm/Relu.js" not in text
    assert not (folder / "assets" / "wasm").exists()
    if shutil.which("wasm-ld"):
        assert "wasm/Relu.js" in (site / "op" / "Relu.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("make", "says"), [
    (lambda p: (p.mkdir(), (p / "mine.txt").write_text("x")), "has files that are not of a site; give an empty or a new folder"),
    (lambda p: p.write_text("x"), "is a file; give the folder of the site"),
])  # fmt: skip
def test_a_folder_with_other_files_is_refused(
    tmp_path: Path, database: Path, make: object, says: str
) -> None:
    folder = tmp_path / "mine"
    make(folder)  # type: ignore[operator]
    before = sorted(tmp_path.rglob("*"))
    done = run("site", "-o", str(folder), database=database)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"opdb: {folder}: {says}\n")
    assert sorted(tmp_path.rglob("*")) == before


def test_names_of_chips_in_the_index_are_those_that_options_take(site: Path) -> None:
    text = (site / "assets" / "search" / "chip.js").read_text()
    rows = json.loads(text.partition("[[")[2].join(("[[", "")).rstrip(");\n"))
    known = {name: [str(n) for n in also] for name, _, also, _ in rows}
    assert resolve("8 Gen 3", known) == "SM8650" and os.sep not in "".join(known)
