"""``opdb.catalog.query.encodings``: the encodings that an op's rules require of its ports, and no more."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from opdb.catalog import migrate
from opdb.catalog.query import ask
from opdb.catalog.query.encodings import Encodings, Port, Ports, Variant
from opdb.catalog.query.rows import Filters
from opdb.catalog.store import Store
from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig, ParamConfig, Quant, TensorConfig
from opdb.judge.validate import check
from opdb.spec.lang.certain import parsed

MINI = Path(__file__).parents[2] / "data" / "mini"
CONCAT = """
      H2: {when: y.dtype == uq8, require: "all(same_quant(x, y) for x in xs)"}
      H3: {when: "xs[0].encoding == AXIS_SCALE_OFFSET", require: "xs[0].axis in (1, 2) and all(x.symmetric for x in xs)"}
      H4: all(x.encoding != BLOCK for x in xs)
      H5: {when: y.dtype == sq8, expect: y.symmetric}
      H6: {when: "y.dtype == sq16 and sdk >= 2047", require: y.symmetric or y.rank > 2}
      H9: {when: y.dtype == u32, require: y.rank > 9 and sdk < 2000}
"""
#: So that there is an SDK without Concat.
OLD = "  DSP: {source: DspOpDefSupplement.html@2.1.0#Relu, dtypes: {All: [{x: uq8, y: uq8}]}}\n"
NEEDS = """\
context: {arch: u32, soc_model: u32, has_fp16: bool8}
fields: {arch: htp_arch, has_fp16: fp16}
needs: {FP16: {has: has_fp16, why: this chip has no floating point}}
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("ports")
    shutil.copytree(MINI, folder / "specs")
    concat = folder / "specs" / "ops" / "Concat.yaml"
    text = concat.read_text().replace("    until: '2.40'\n", "")
    concat.write_text(
        text.replace(
            "      H1: all(x.rank <= 5 for x in xs)\n", f"      H1: all(x.rank <= 5 for x in xs){CONCAT}"
        )
    )
    add = folder / "specs" / "ops" / "LayerNorm.yaml"
    rule = "      H6: {when: x.dtype == f16, require: not present(beta)}\n"
    add.write_text(add.read_text().replace("      H5: axes", f"{rule}      H5: axes"))
    relu = folder / "specs" / "ops" / "Relu.yaml"
    relu.write_text(relu.read_text().replace("backends:\n", f"backends:\n{OLD}", 1))
    url = str(folder / "opdb.db")
    migrate.upgrade(url)
    store = Store(url)
    store.sync(folder / "specs")
    return store


def ports(store: Store, soc: str = "SM8650") -> Ports:
    return Ports(store, "HTP", soc, "2.47")


def of_types(variants: list[Variant], **dtypes: str) -> dict[str, Port]:
    """The ports of the only variant with these data types."""
    (found,) = [p for v in variants for p in ({q.slot: q for q in (*v.inputs, *v.outputs)},)
                if all(p[slot].dtype == d for slot, d in dtypes.items())]  # fmt: skip
    return found


def test_supported_ops_are_listed_by_sdk(store: Store) -> None:
    assert ports(store).supported() == ["Concat", "ElementWiseAdd", "LayerNorm", "Relu"]
    assert Ports(store, "HTP", "SM8650", "2.1").supported() == ["ElementWiseAdd", "LayerNorm", "Relu"]
    assert ports(store).variants("Conv2d") == []
    with pytest.raises(OpdbError, match="no backend 'HPT' in the catalog; did you mean 'HTP'"):
        Ports(store, "HPT", "SM8650", "2.47")


def test_rules_make_encodings_symmetric(store: Store) -> None:
    variants = ports(store).variants("LayerNorm")
    assert len(variants) == 16  # 2 float, 12 with uq16, 2 with uq8: nothing twice
    wide = of_types(variants, x="uq16", gamma="uq16", beta="sq32")
    assert {s: [e.symmetric for e in p.encodings] for s, p in wide.items()} == {
        "x": [False], "gamma": [True], "beta": [True], "y": [False],
    }  # fmt: skip
    assert (wide["gamma"].optional, wide["x"].optional, wide["x"].variadic) == (True, False, False)
    assert all(not p.encodings for p in of_types(variants, x="f16").values())


def test_encodings_depend_on_the_chip(store: Store) -> None:
    """A rule forbids the type of an optional tensor on this chip: the combination is missing altogether."""
    old = {
        p.dtype for v in ports(store, "SM8450").variants("LayerNorm") for p in v.inputs if p.slot == "gamma"
    }
    assert old == {"f16", "f32", "uq8"}


def test_a_tensor_that_must_be_omitted_has_no_port(store: Store) -> None:
    (half,) = [v for v in ports(store).variants("LayerNorm") if v.inputs[0].dtype == "f16"]
    assert [p.slot for p in half.inputs] == ["x", "gamma"]


def test_variadic_slots_share_encodings(store: Store) -> None:
    variants = ports(store).variants("Concat")
    shared = of_types(variants, xs="uq8")
    assert [e.shared for e in shared["y"].encodings] == [True]
    assert not any(e.shared for e in shared["xs"].encodings)
    assert shared["xs"].variadic
    by_name = {n: e for e in shared["xs"].encodings for n in e.names}
    assert "BLOCK" not in by_name
    assert "BLOCK" in shared["y"].encodings[0].names
    assert by_name["AXIS_SCALE_OFFSET"] == Encodings(("AXIS_SCALE_OFFSET",), True, (1, 2), False)
    assert not by_name["SCALE_OFFSET"].symmetric


def test_only_certainly_forbidden_encodings_are_dropped(store: Store) -> None:
    """H5 is a warning; H6 permits some ranks; H9 holds for no rank."""
    variants = ports(store).variants("Concat")
    assert not any(e.symmetric for t in ("sq8", "sq16") for e in of_types(variants, y=t)["y"].encodings)
    assert "u32" not in {v.outputs[0].dtype for v in variants}


@pytest.mark.parametrize("soc", ["SM8650", "SM8450"])
def test_the_validators_agree(store: Store, soc: str) -> None:
    """The validators accept every variant of LayerNorm exactly with the encodings it requires."""
    target = Target("HTP", soc, "2.47")
    variants = ports(store, soc).variants("LayerNorm")
    shapes = {"x": (2, 4), "gamma": (4,), "beta": (4,), "y": (2, 4)}

    def config(variant: Variant, crooked: str = "") -> OpConfig:
        def tensor(port: Port) -> TensorConfig:
            middle = {"uq8": -128, "uq16": -32768}.get(port.dtype, 0)
            offset = middle + 7 if port.slot == crooked else middle
            quant = Quant("SCALE_OFFSET", (0.5,), (offset,)) if port.encodings else None
            return TensorConfig(port.slot, port.dtype, shapes[port.slot], quant=quant)

        axes = ParamConfig("axes", "u32", (1,), (1,))
        return OpConfig(
            "LayerNorm", tuple(map(tensor, variant.inputs)), (axes,), tuple(map(tensor, variant.outputs))
        )

    assert variants
    for variant in variants:
        assert check(config(variant), target).verdict == "accept"
        for port in (*variant.inputs, *variant.outputs):
            if port.encodings:
                asked = next(e.symmetric for e in port.encodings if "SCALE_OFFSET" in e.names)
                verdict = check(config(variant, port.slot), target).verdict
                assert verdict == ("reject" if asked else "accept"), (variant, port)


@pytest.mark.parametrize(("text", "known", "value"), [
    ("a.dtype == uq8", {"a.dtype": "uq8"}, True),
    ("a.dtype == uq8", {}, None),
    ("a.dtype in (uq8, sq8) and a.rank > 2", {"a.dtype": "f32"}, False),
    ("a.dtype in (uq8, sq8) or a.rank > 2", {"a.dtype": "f32"}, None),
    ("a.dtype not in (uq8, sq8)", {"a.dtype": "f32"}, True),
    ("a.dtype in (b.dtype, sq8)", {"a.dtype": "f32"}, None),
    ("not a.symmetric", {"a.symmetric": False}, True),
    ("a.symmetric if a.rank > 1 else a.symmetric", {"a.symmetric": False}, False),
    ("a.symmetric if a.dtype == uq8 else a.rank > 1", {"a.symmetric": False, "a.dtype": "uq8"}, False),
    ("0 <= a.axis < 3", {"a.axis": 3}, False),
    ("a.encoding != BLOCK", {"a.encoding": "BLOCK"}, False),
    ("present(a)", {"present(a)": True}, True),
    ("same_quant(b, a)", {"same_quant(a)": False}, False),
    ("all(x.symmetric for x in a)", {"a.symmetric": False}, False),
    ("all(x.symmetric for x in a if x.rank > 2)", {"a.symmetric": False}, None),
    ("any(x.symmetric for x in a)", {"a.symmetric": False}, False),
    ("all(a.shape[i] == 1 for i in range(2))", {}, None),
    ("a[0].dtype == f32", {"a.dtype": "f32"}, True),
    ("arch >= 73 and len(axes) > 1", {"arch": 68}, False),
])  # fmt: skip
def test_the_truth_of_a_rule_under_partial_knowledge(
    text: str, known: dict[str, Any], value: bool | None
) -> None:
    assert parsed(text)(known) is value


def test_rows_require_features_of_the_chip(tmp_path: Path) -> None:
    """FP16 rows on chips with and without floating point; `opdb query support` declares them only for those with it."""
    shutil.copytree(MINI, tmp_path / "specs")
    htp = tmp_path / "specs" / "backends" / "HTP.yaml"
    kept = [line for line in htp.read_text().splitlines(True) if not line.startswith(("context", "fields"))]
    htp.write_text("".join(kept) + NEEDS)
    migrate.upgrade(url := f"sqlite:///{tmp_path / 'opdb.db'}")
    store = Store(url)
    store.sync(tmp_path / "specs")
    able, unable = ports(store, "SM8650"), ports(store, "SM7550")
    assert {"f16", "f32"} <= {v.inputs[0].dtype for v in able.variants("Relu")}
    assert {v.inputs[0].dtype for v in unable.variants("Relu")} == {"uq8", "sq8", "uq16", "sq16"}
    for sdk in (None, "2.25"):
        rows = ask(store, "support", Filters(op="Relu", backend="HTP", sdk=sdk))
        declared = {(r["soc"], r["type_row"]) for r in rows if r["declared"] == "yes"}
        assert {soc for soc, row in declared if ".FP16." in row} == {"SM8650"}
        assert {soc for soc, row in declared if ".INT8." in row} == {"SM8550", "SM8650", "SM8750"}
    needs = {
        r["needs"] for r in ask(store, "types", Filters(op="Relu", backend="HTP")) if r["config"] == "FP16"
    }
    assert needs == {"fp16"}
