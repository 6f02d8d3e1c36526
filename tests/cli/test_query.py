"""opdb query and opdb db datasette: files, formats, several values, and Datasette with the metadata."""

from __future__ import annotations

import asyncio
import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opdb.catalog.query.view_docs import markdown
from opdb.catalog.schema.views import ABOUT

Run = Callable[..., Any]
ROOT = Path(__file__).parents[2]


def test_support_of_several_ops_is_written_in_every_format(loaded: Run, tmp_path: Path) -> None:
    asked = ("query", "support", "--op", "Relu", "--op", "LayerNorm", "--backend", "HTP", "--soc", "SM8650", "--soc",
             "SM8750", "--dtype", "uq8", "--torch-op", "aten.relu", "--torch-op", "aten.layer_norm")  # fmt: skip
    rows = json.loads(loaded(*asked, "--json").stdout)
    assert {(r["op"], r["soc"]) for r in rows} == {
        (o, s) for o in ("Relu", "LayerNorm") for s in ("SM8650", "SM8750")
    }
    assert all(r["backend"] == "HTP" and "uq8" in r["cells"] for r in rows)
    for name in ("csv", "md", "html", "json", "table"):
        file = tmp_path / f"support.{name}"
        done = loaded(*asked, "--format", name, "--output", str(file))
        assert (done.returncode, done.stdout) == (0, "")
        assert file.read_text(encoding="utf-8") == loaded(*asked, "--format", name).stdout
    with (tmp_path / "support.csv").open(encoding="utf-8", newline="") as lines:
        assert [
            {k: v or None for k, v in r.items() if k != "measurements"} for r in csv.DictReader(lines)
        ] == [{k: v for k, v in r.items() if k != "measurements"} for r in rows]
    assert json.loads((tmp_path / "support.json").read_text(encoding="utf-8")) == rows
    merged = {tuple(r[c] for c in ("op", "type_row", "soc", "status", "why")) for r in rows}
    assert (tmp_path / "support.md").read_text(encoding="utf-8").count("\n") == len(merged) + 2
    assert (tmp_path / "support.html").read_text(encoding="utf-8").count("<tr><td") == len(merged)
    each = loaded(*asked, "--format", "md", "--each-sdk").stdout
    assert each.count("\n") == len(rows) + 2


def test_sdks_with_equal_rows_are_ranges_in_tables(loaded: Run) -> None:
    lines = loaded(
        "query",
        "support",
        "--op",
        "Concat",
        "--soc",
        "SM8550",
        "--columns",
        "type_row,sdk,status,why",
        "--format",
        "md",
    ).stdout.splitlines()[2:]
    found = {
        row: (sdk, status, why) for row, sdk, status, why in (line.strip("| ").split(" | ") for line in lines)
    }
    assert found["HTP.FP16.1"][:2] == ("2.47-2.51", "yes, except")
    assert "without the parameter axis" in found["HTP.FP16.1"][2] and "(HTP-0002)" in found["HTP.FP16.1"][2]
    assert found["HTP.BF16_2_47.1"] == ("2.47-2.51", "no", "the chip has no bfloat16")


def test_pivot_has_a_line_per_op_and_kind_of_types(loaded: Run) -> None:
    rows = json.loads(
        loaded("query", "support", "--backend", "CPU", "--op", "Relu", "--pivot", "--json").stdout
    )
    assert [list(r) for r in rows] == [["op", "types", "CPU 2.47"]] * len(rows)
    assert {r["types"]: r["CPU 2.47"] for r in rows}["fp32"] == "yes"  # as opdb ships it
    page = loaded("query", "support", "--op", "Relu", "--op", "Concat", "--pivot", "--format", "html").stdout
    # GPU has no library here
    assert re.search(r'<td data-l="GPU [^"]*">not known', page)
    assert (
        re.search(r'<td class="except" data-l="HTP [^"]*">', page)
        and "<li>HTP-0002: Finalization fails" in page
    )
    done = loaded("query", "ops", "--pivot")
    assert done.returncode == 2 and "--pivot turns 'support'" in done.stderr


def test_the_support_of_one_op_on_two_chips_is_one_table(loaded: Run) -> None:
    """MatMul on 8 Gen 2 and 8 Elite, and since when."""
    asked = ("query", "support", "--op", "MatMul", "--soc", "8 Gen 2", "--soc", "8 Elite", "--pivot")
    rows = {r["types"]: r for r in json.loads(loaded(*asked, "--json").stdout)}
    assert list(rows["INT8"])[2:] == ["HTP:SM8550 2.47-2.51", "HTP:SM8750 2.47-2.51"]
    assert rows["INT8"]["HTP:SM8550 2.47-2.51"].startswith("yes, except HTP-0051 (2.47), HTP-0224")
    assert rows["BF16"]["HTP:SM8750 2.47-2.51"] == "no (the chip has no bfloat16)"
    assert "HTP-0224: MatMul does not add a quantized bias" in loaded(*asked).stdout


def test_errata_can_be_filtered_by_scope_and_condition(loaded: Run) -> None:
    def asked(*args: str) -> dict[str, dict[str, Any]]:
        rows = json.loads(loaded("query", "errata", *args, "--json").stdout)
        return {r["erratum"]: r for r in rows}

    every = asked()
    files = (ROOT / "specs" / "errata").glob("*/*.yaml")
    assert list(every) == sorted(p.stem for p in files)
    assert set(asked("--op", "Gelu")) == {i for i, r in every.items() if r["op"] == "Gelu"} != set()
    assert set(asked("--backend", "CPU")) == {i for i in every if i.startswith("CPU-")}
    assert set(asked("--torch-op", "aten.gelu")) >= set(asked("--op", "Gelu"))
    row = every["HTP-0042"]
    assert (row["arch"], row["socs"], row["seen"]) == ("68", None, "HTP 2.47.0 SM8350")
    on_v68, on_v75 = asked("--soc", "SM8350"), asked("--soc", "8 Gen 3")
    assert "HTP-0042" in on_v68 and "HTP-0042" not in on_v75 and "HTP-0390" in on_v75
    assert set(on_v68) == {i for i, r in every.items() if r["arch"] is None or "68" in r["arch"].split(", ")}
    new = asked("--sdk", "2.50")
    assert "HTP-0314" in every and "HTP-0314" not in new and "HTP-0042" in new
    crashes = asked("--where", "effect = 'crash' and cost is null")
    assert (
        set(crashes) == {i for i, r in every.items() if r["effect"] == "crash" and r["cost"] is None} != set()
    )


def test_parquet_has_the_rows_of_the_query(loaded: Run, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "params.parquet"
    done = loaded("query", "params", "--format", "parquet", "--output", str(file))
    assert done.returncode == 0, done.stderr
    table = parquet.read_table(file)
    assert table.to_pylist() == json.loads(loaded("query", "params", "--json").stdout)
    assert (
        str(table.schema.field("optional").type) == "bool" and str(table.schema.field("op").type) == "string"
    )
    empty = tmp_path / "empty.parquet"
    assert loaded("query", "runs", "--format", "parquet", "--output", str(empty)).returncode == 0
    assert (parquet.read_table(empty).num_rows, parquet.read_table(empty).num_columns) == (0, 32)
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_parquet_names_the_missing_option_or_extra(loaded: Run, tmp_path: Path) -> None:
    done = loaded("query", "ops", "--format", "parquet")
    assert done.returncode == 2 and "name it with --output" in done.stderr
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "pyarrow.py").write_text("raise ModuleNotFoundError('pyarrow', name='pyarrow')\n")
    file = tmp_path / "ops.parquet"
    done = loaded("query", "ops", "--format", "parquet", "--output", str(file),
                  env={"PYTHONPATH": str(tmp_path / "hidden")})  # fmt: skip
    assert done.returncode == 2 and "pip install 'qnn-opdb[parquet]'" in done.stderr
    assert not file.exists()


def test_an_unwritable_file_gives_one_error(loaded: Run, tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("")
    done = loaded("query", "ops", "--format", "csv", "--output", str(tmp_path / "folder" / "ops.csv"))
    assert done.returncode == 2 and "cannot write" in done.stderr and done.stderr.count("\n") == 1


def test_a_failing_query_leaves_the_file_unchanged(loaded: Run, tmp_path: Path) -> None:
    file = tmp_path / "ops.csv"
    file.write_text("before")
    done = loaded("query", "ops", "--where", "rules > ", "--format", "csv", "--output", str(file))
    assert done.returncode == 2 and file.read_text() == "before"


def test_the_page_of_views_is_current() -> None:
    page = (ROOT / "docs" / "reference" / "sql-views.md").read_text(encoding="utf-8")
    assert page.splitlines() == list(markdown()), (
        "make it again with: opdb db views --output docs/reference/sql-views.md"
    )


def test_datasette_shows_only_the_views(loaded: Run, tmp_path: Path) -> None:
    app = pytest.importorskip("datasette.app")
    file = tmp_path / "metadata.json"
    assert loaded("db", "datasette", "--output", str(file)).returncode == 0
    metadata = json.loads(file.read_text(encoding="utf-8"))
    serving = app.Datasette(immutables=[str(tmp_path / "cli.db")], metadata=metadata,
                            settings={"sql_time_limit_ms": 60_000, "suggest_facets": False})  # fmt: skip

    async def ask() -> None:
        about = (await serving.client.get("/cli.json")).json()
        assert {v["name"] for v in about["views"]} == set(ABOUT)
        assert [t["name"] for t in about["tables"] if not t["hidden"]] == []
        rows = (await serving.client.get("/cli/v_rules.json?op=Relu&_shape=array&_size=max")).json()
        listed = json.loads(loaded("query", "rules", "--op", "Relu", "--json").stdout)
        assert [{k: v for k, v in r.items() if k != "place"} for r in rows] == listed
        page = (await serving.client.get("/cli/v_params?_size=1")).text
        for part in (ABOUT["v_params"].about, "<dt>default</dt>", 'id="facet-dtype"'):
            assert part in page
        assert (await serving.client.get("/cli.json?sql=select+1")).status_code == 403

    asyncio.run(ask())


def test_an_old_question_name_still_works(loaded: Run) -> None:
    for old, new, options in (
        ("measured", "evidence", ["--op", "Concat", "--sdk", "2.47"]),
        ("quirks", "errata", ["--op", "Concat"]),
        ("evidence", "runs", ["--disagree"]),
    ):
        asked = loaded("query", old, *options, "--json")
        assert asked.stderr == f"opdb: the question '{old}' is called '{new}' now\n"
        assert asked.stdout == loaded("query", new, *options, "--json").stdout
