"""Sync is one transaction, reports all faults together, and rewrites only changed files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import func, select

from opdb.catalog import migrate
from opdb.catalog import schema as t
from opdb.catalog.store import Store, read_catalog
from opdb.core.errors import OpdbError, SpecError
from opdb.spec.catalog import Catalog

from ...repository_specs import SPECS

pytestmark = pytest.mark.slow


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def counts(store: Store) -> dict[str, int]:
    with store.reading() as connection:
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in t.DEFINITIONS
        }


def assert_stands_for(store: Store, catalog: Catalog) -> None:
    """The snapshot in SQL has the same hashes as the catalog, without reading it."""
    found = store.snapshot()
    assert (found.hash, found.backends) == (catalog.hash, tuple(catalog.backends))
    assert dict(found.ops) == {name: catalog.op_hash(name) for name in catalog.ops}


def test_a_second_sync_changes_nothing(store: Store, specs: Path) -> None:
    first = store.sync(specs)
    assert "ops/LayerNorm.yaml" in first.added and not (first.changed or first.removed or first.unchanged)
    before = counts(store)
    again = store.sync(specs)
    assert again.unchanged == first.added and again.hash == first.hash
    assert store.sync(specs, full=True).hash == first.hash
    assert counts(store) == before


def test_loading_one_op_equals_the_whole_catalog(store: Store, specs: Path) -> None:
    store.sync(specs)
    whole = store.load_catalog()
    for name, op in whole.ops.items():
        found = store.load_op(name)
        assert list(found.ops) == [name] and found.ops[name] == op
        assert found.compiled(name).rule_ids() == whole.compiled(name).rule_ids()
    assert store.load_op("Reluu") == whole


def test_added_changed_and_removed_files_are_reported(store: Store, specs: Path) -> None:
    store.sync(specs)
    concat = (specs / "ops/Concat.yaml").read_text()
    (specs / "ops/Concat.yaml").unlink()
    replace(specs / "ops/LayerNorm.yaml", "0.001", "0.002")
    (specs / "ops/Join.yaml").write_text(concat.replace("op: Concat", "op: Join"))
    replace(specs / "torch/cat.yaml", "op: Concat", "op: Join")
    report = store.sync(specs)
    assert (report.added, report.changed, report.removed) == (
        ("ops/Join.yaml",), ("ops/LayerNorm.yaml", "torch/cat.yaml"), ("ops/Concat.yaml",)
    )  # fmt: skip
    catalog = store.load_catalog()
    assert list(catalog.ops) == ["ElementWiseAdd", "Join", "LayerNorm", "Relu"]
    assert catalog.ops["LayerNorm"].params["epsilon"].default == "0.002"
    assert catalog == read_catalog(specs)


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("bases/elementwise_unary.yaml", "C1: x.rank >= 1", "C1: x.rank >= 2"),
        ("backends/LPAI.yaml", "letter: L", "letter: Z"),
        (
            "backends/HTP.yaml",
            "context: {arch: u32, soc_model: u32}",
            "context: {arch: u32, soc_model: u32, vtcm: u32}",
        ),
        ("socs.yaml", "vtcm_mb: 8", "vtcm_mb: 9"),
        ("retired.yaml", "OldRelu", "OlderRelu"),
        ("torch/add_relu.yaml", "alpha == 1.0", "alpha == 2.0"),
    ],
)
def test_a_changed_file_updates_everything_that_depends_on_it(
    store: Store, specs: Path, path: str, old: str, new: str
) -> None:
    before = store.sync(specs).hash
    replace(specs / path, old, new)
    report = store.sync(specs)
    assert_stands_for(store, read_catalog(specs))
    assert report.changed == (path,) and report.hash != before
    assert store.load_catalog() == read_catalog(specs)
    replace(specs / path, new, old)
    assert store.sync(specs).hash == before


def test_the_hash_of_an_op_covers_its_base(store: Store, specs: Path) -> None:
    store.sync(specs)
    before = store.load_catalog()
    replace(specs / "bases/elementwise_unary.yaml", "C1: x.rank >= 1", "C1: x.rank >= 2")
    store.sync(specs)
    after = store.load_catalog()
    changed = [n for n in before.ops if before.op_hash(n) != after.op_hash(n)]
    assert changed == ["Relu"]


def test_inherited_rules_are_stored_once(store: Store, specs: Path) -> None:
    store.sync(specs)
    with store.reading() as connection:
        rows = connection.execute(
            select(t.op_rule.c.name, t.definition.c.kind)
            .join(t.definition, t.op_rule.c.definition_id == t.definition.c.id)
            .where(t.op_rule.c.expression == "x.rank >= 1", t.op_rule.c.kind == "written")
            .order_by(t.definition.c.kind)
        ).all()
    assert [tuple(r) for r in rows] == [
        ("C1", "base"),
        ("C1", "op"),
    ]  # elementwise_unary, LayerNorm; not Relu


def test_every_rule_id_has_a_row(store: Store, specs: Path) -> None:
    """INPUTS, RANK_x, SHAPE_y, C1, H1, TYPES_HTP...: every id in a verdict can be queried."""
    from opdb.catalog.query import ask

    store.sync(specs)
    catalog = store.load_catalog()
    for name in catalog.ops:
        found = [r["rule"].partition(".")[2] for r in ask(store, "rules") if r["op"] == name]
        assert sorted(found) == sorted(catalog.compiled(name).rule_ids())


# -- faults


def faults(store: Store, specs: Path) -> list[str]:
    with pytest.raises(SpecError) as caught:
        store.sync(specs)
    return str(caught.value).splitlines()


def test_faults_of_all_files_are_reported_and_nothing_changes(store: Store, specs: Path) -> None:
    store.sync(specs)
    before, rows = store.load_catalog(), counts(store)
    replace(specs / "ops/LayerNorm.yaml", "C4: unique(axes)", "C4: unique(axs)")
    replace(specs / "ops/LayerNorm.yaml", "H5: axes", "P5: axes")
    replace(specs / "ops/Relu.yaml", "extends: elementwise_unary", "extends: elementwise_unari")
    replace(specs / "ops/Concat.yaml", "C1:", "C1: 0 < 1\n  C1:")
    replace(specs / "bases/elementwise_binary.yaml", "C1: ", "C1: 1 + ")
    (specs / "ops/New.yaml").write_text("op: New\ninptus: {x: [S...]}\noutputs: {y: [S...]}\n")
    found = faults(store, specs)
    assert [f.split(" ")[0] for f in found] == sorted(f.split(" ")[0] for f in found)
    text = "\n".join(found)
    for part in (
        "bases/elementwise_binary.yaml:",
        "ops/Concat.yaml:16:3: the key is given twice",
        "ops/LayerNorm.yaml:23:14: ",
        "did you mean 'axes'?",
        "ops/LayerNorm.yaml:46:7: the rule 'P5' of HTP must be named H1, H2, ...",
        "ops/New.yaml:2:1: unknown field 'inptus'; did you mean 'inputs'?",
        "ops/Relu.yaml:2:10: no base 'elementwise_unari' in bases/; did you mean 'elementwise_unary'?",
    ):
        assert part in text, text
    assert "add_relu" not in text  # its ops are faulty, not unknown
    assert counts(store) == rows
    assert store.load_catalog() == before


def test_a_changed_base_breaking_an_unchanged_op_is_reported(store: Store, specs: Path) -> None:
    """The op's file is not reread, but the message still has the line in it."""
    store.sync(specs)
    replace(specs / "bases/elementwise_unary.yaml", "  x: [S...]", "  x1: [S...]")
    replace(
        specs / "bases/elementwise_unary.yaml",
        "C1: x.rank >= 1\n  C2: y.dtype == x.dtype",
        "C1: x1.rank >= 1",
    )
    replace(
        specs / "bases/elementwise_unary.yaml",
        "  - {x: [7]}\n  - {x: [1]}\n  - {x: [2, 3, 5]}",
        "  - {x1: [7]}",
    )
    found = faults(store, specs)
    assert any(f.startswith("ops/Relu.yaml:7:13: ") and "'x'" in f for f in found), found


@pytest.mark.parametrize(
    ("path", "old", "new", "message"),
    [
        ("ops/Relu.yaml", "  HTP:", "  HTPP:", "ops/Relu.yaml:17:3: no backend 'HTPP' in backends/; did you mean 'HTP'?"),
        ("ops/Relu.yaml", "  C3:", "  C9:", "ops/Relu.yaml:6:3: the id Relu.C9 is retired (retired.yaml); give the rule a new one"),
        ("ops/Concat.yaml", "H1:", "H7:", "the id Concat.H7 is retired"),
        ("retired.yaml", "OldRelu", "Relu", "ops/Relu.yaml:1:5: the name 'Relu' is retired"),
        ("retired.yaml", "ops: [OldRelu]", "op: [OldRelu]", "retired.yaml:1:5: expected 'rules' or 'ops'"),
        ("backends/CPU.yaml", "letter: P", "letter: H", "backends/HTP.yaml:3:9: the letter 'H' is that of CPU; choose another"),
        ("backends/CPU.yaml", "id: 3", "id: 6", "backends/HTP.yaml:4:5: the number 6 is that of CPU; leave it out if none is known"),
        ("backends/CPU.yaml", "id: 3", "context: {arch: i32}", "'arch' is a i32 of CPU"),
        ("backends/CPU.yaml", "id: 3", "chips: [SM8651]", "backends/CPU.yaml:4:9: no chip 'SM8651' in socs.yaml; did you mean 'SM8650'?"),
        ("backends/CPU.yaml", "letter: P", "letter: CPU", "backends/CPU.yaml:3:9: 'CPU' is not one capital letter"),
        ("socs.yaml", "SM8650", "SM8550", "socs.yaml:2:3: the chip 'SM8550' is given twice"),
        ("socs.yaml", "htp_arch: 75", "htp_arch: v75", "socs.yaml:2:3: 'htp_arch' must be a number"),
        ("torch/add_relu.yaml", "op: Relu", "op: Rellu", "no op 'Rellu' in ops/; did you mean 'Relu'?"),
    ],
)  # fmt: skip
def test_conflicts_between_two_files_are_reported(
    store: Store, specs: Path, path: str, old: str, new: str, message: str
) -> None:
    replace(specs / path, old, new)
    assert any(message in f for f in faults(store, specs)), faults(store, specs)


def test_missing_specs_and_an_unsynced_database_are_reported(store: Store, tmp_path: Path) -> None:
    assert store.catalog_hash() is None
    with pytest.raises(OpdbError, match="no specs have been loaded; load them with 'opdb sync'"):
        store.load_catalog()
    with pytest.raises(OpdbError, match="no such folder"):
        store.sync(tmp_path / "nowhere")


def test_a_source_used_only_by_an_unchecked_rule_is_kept(store: Store, specs: Path) -> None:
    source = "probe HTP 9.99"
    rule = "      H1: x.rank <= 5\n"
    replace(specs / "ops/Relu.yaml", rule, f"{rule}    unchecked:\n      SHAPE_y: {{source: {source}}}\n")
    store.sync(specs)
    replace(specs / "ops/Concat.yaml", "summary: ", "summary: Again, ")
    store.sync(specs)
    assert store.load_catalog().ops["Relu"].backends["HTP"].unchecked["SHAPE_y"].source == source


def test_generation_does_not_load_sqlalchemy(tmp_path: Path, specs: Path) -> None:
    """Holds on SQLite: importing SQLAlchemy takes an eighth of a run after one changed spec."""
    url = f"sqlite:///{tmp_path}/opdb.db"
    migrate.upgrade(url)
    Store(url).sync(specs)
    replace(specs / "ops/Relu.yaml", "summary: ", "summary: Again, ")
    code = f"""
import sys
import subprocess
import sys
from pathlib import Path
from opdb.catalog.store import Store
store = Store({url!r})
assert store.sync(Path({str(specs)!r})).changed == ("ops/Relu.yaml",)
assert store.load_catalog().ops["Relu"].summary.startswith("Again, ")
assert "sqlalchemy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_declared_support_is_stored_as_computed_from_the_rules(tmp_path: Path) -> None:
    """Compares the table read by generated tables with the function that fills it, for every place they show."""
    from opdb.codegen.support import Support
    from opdb.codegen.support_tables import measured_places
    from opdb.spec.declared import Declared, has

    migrate.upgrade(url := f"sqlite:///{tmp_path / 'opdb.db'}")
    made = Store(url)
    made.sync(SPECS)
    catalog = made.load_catalog()
    for place in measured_places(catalog):
        support = Support(catalog, place)
        chip = {name: value for name, value in support.known.items() if name != "sdk"}
        for name in ("Nv12ToRgb", "Conv2d", "Relu", "TopK"):
            op = catalog.compiled(name)
            for row in op.type_rows.get(place.backend, ()):
                stored = row.id in support._declared.get(name, ())
                assert stored == has(Declared(op, place.backend).ranges(row, chip), place.sdk), row.id
    assert "HTP.FP16.1" not in Support(catalog, measured_places(catalog)[0])._declared.get("Nv12ToRgb", ())
