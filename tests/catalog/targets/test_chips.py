"""Names of chips, and which floating point a chip has."""

from __future__ import annotations

from pathlib import Path

import pytest

from opdb.catalog import migrate
from opdb.catalog.query import ask
from opdb.catalog.query.rows import Filters
from opdb.catalog.store import Store
from opdb.catalog.targets.target import Target, soc_name
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig, from_json
from opdb.execute.libraries.chips import chips
from opdb.execute.libraries.client import VendorWorker
from opdb.generated.constants.socs import SOCS
from opdb.judge.validate import check, validator
from opdb.runtime import native
from opdb.runtime.qnn.libraries import installed

MINI = Path(__file__).parents[2] / "data" / "mini"
WITHOUT_FLOATS = ("SM8635", "SM7550", "QCM6490", "SM6450", "SM8735", "SC8280X", "SAR2230P")


def relu(dtype: str) -> OpConfig:
    quant = {"quant": {"encoding": "SCALE_OFFSET", "scale": 0.1, "offset": 0}} if "FIXED" in dtype else {}
    tensor = {"dtype": dtype, "shape": [1, 8], **quant}
    return from_json(
        {"op": "Relu", "inputs": [{"name": "x", **tensor}], "outputs": [{"name": "y", **tensor}]}
    )


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("sm8650", "SM8650"),
        ("SM8650-AB", "SM8650"),
        ("Snapdragon 8 Gen 3", "SM8650"),
        ("8 gen 3", "SM8650"),
        ("Qualcomm Snapdragon® 8s Gen 3", "SM8635"),
        ("8 Elite", "SM8750"),
        ("8 elite gen 5", "SM8850"),
        ("Cloud AI 100", "AIC100"),
        ("888", "SM8350"),
    ],
)
def test_a_name_means_a_chip(name: str, chip: str) -> None:
    assert soc_name(name) == chip
    assert Target("HTP", name).spelled().soc == chip


def test_a_name_of_several_chips_lists_them() -> None:
    with pytest.raises(
        OpdbError, match=r"'Gen 2' may mean several SoCs; name one of them: .*SM8550 \(Snapdragon 8 Gen 2\)"
    ):
        soc_name("Gen 2")


@pytest.mark.parametrize("name", ["", "Snapdragon", "9 Gen 9", "SM8651"])
def test_an_unknown_chip_name_is_rejected(name: str) -> None:
    with pytest.raises(OpdbError, match=r"unknown SoC .*'opdb query socs' lists them"):
        soc_name(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("SM8250", "SM8250 has Hexagon v66, and HTP begins with v68"),
        ("Snapdragon 845", "SDM845 has Hexagon v65"),
        ("SM4450", "SM4450 has no Hexagon version that is known"),
    ],
)
def test_a_chip_without_htp_is_refused_with_its_backends(name: str, said: str) -> None:
    with pytest.raises(OpdbError, match=rf"{said}.*; older chips can use .*--backend GPU.*--backend DSP"):
        Target("HTP", name).check_chip()
    Target("DSP", name).check_chip()


def test_every_chip_from_v68_on_has_htp() -> None:
    new = [chip for chip, soc in SOCS.items() if (soc.htp_arch or 0) >= 68]
    assert len(new) > 60
    for chip in new:
        Target("HTP", chip).check_chip()


def test_linux_soc_ids_belong_to_one_chip_each() -> None:
    numbers = [number for soc in SOCS.values() for number in soc.soc_ids]
    assert len(numbers) == len(set(numbers)) >= 40
    assert SOCS["SM8650"].soc_ids == (557,)


@pytest.mark.parametrize("soc", WITHOUT_FLOATS)
def test_a_chip_without_floating_point_takes_no_float_op(soc: str) -> None:
    target = Target("HTP", soc, "2.47")
    for dtype in ("FLOAT_32", "FLOAT_16"):
        found = check(relu(dtype), target)
        assert found.verdict == "reject"
        assert [v.rule for v in found.violations] == ["Relu.TYPES_HTP"]
        assert found.violations[0].message.startswith("this chip has no floating point on the HTP")
    assert check(relu("UFIXED_POINT_8"), target).verdict == "accept"


def test_bfloat16_needs_a_chip_with_it() -> None:
    assert check(relu("BFLOAT_16"), Target("HTP", "SC8480XP", "2.47")).verdict == "accept"
    refused = check(relu("BFLOAT_16"), Target("HTP", "SM8650", "2.47"))
    assert refused.verdict == "reject" and "no bfloat16" in refused.violations[0].message


def test_ends_of_quantized_graphs_stay_possible() -> None:
    """The library requires floating point only of ops that compute in it."""
    quant = {"quant": {"encoding": "SCALE_OFFSET", "scale": 0.1, "offset": 0}}
    floats = {"name": "a", "dtype": "FLOAT_32", "shape": [1, 8]}
    stored = {"name": "b", "dtype": "UFIXED_POINT_8", "shape": [1, 8], **quant}
    for op, source, to in (("Quantize", floats, stored), ("Dequantize", stored, floats)):
        config = from_json({"op": op, "inputs": [source], "outputs": [to]})
        assert check(config, Target("HTP", "SM8635", "2.47")).verdict == "accept", op


@pytest.mark.native
def test_c_validators_agree_with_python() -> None:
    for soc in ("SM8635", "SM8650", "SC8480XP"):
        context = Target("HTP", soc, "2.47").context()
        for dtype in ("FLOAT_32", "BFLOAT_16", "UFIXED_POINT_8"):
            ours = validator("Relu").validate(relu(dtype), context)
            theirs = native.validate(relu(dtype), context)
            assert [(v.rule, v.message, v.got) for v in ours] == [(v.rule, v.message, v.got) for v in theirs]


@pytest.mark.vendor
def test_the_library_agrees_with_our_check() -> None:
    for soc in ("SM8635", "SM8650", "SC8480XP"):
        with VendorWorker("HTP", soc) as worker:
            for dtype in ("FLOAT_32", "FLOAT_16", "BFLOAT_16", "UFIXED_POINT_8"):
                said = worker.validate(relu(dtype)).verdict
                assert said == check(relu(dtype), Target("HTP", soc, "2.47")).verdict, (soc, dtype)


@pytest.mark.vendor
def test_the_librarys_chips_are_listed() -> None:
    found = {c.name: c for c in chips(installed(), (14, 57, 62, 68, 88))}  # 14 is no chip
    assert {n: (c.soc_model, c.arch, c.fp16, c.bf16) for n, c in found.items()} == {
        "SM8650": (57, 75, True, False),
        "SA8540": (62, 68, True, False),
        "SM8635": (68, 73, False, False),
        "SC8480XP": (88, 81, True, True),
    }


def test_queries_accept_marketing_names(tmp_path: Path) -> None:
    url = str(tmp_path / "opdb.db")
    migrate.upgrade(url)
    store = Store(url)
    store.sync(MINI)
    rows = ask(store, "socs", Filters(soc="8 gen 3"))
    assert [(r["soc"], r["names"], r["fp16"], r["soc_ids"]) for r in rows] == [
        ("SM8650", "Snapdragon 8 Gen 3", 1, "557")
    ]
