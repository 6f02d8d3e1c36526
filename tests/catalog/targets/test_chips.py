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
        ("SA8775P", "SA8255"),
        ("qcs9075", "QCS9100"),
        ("IQ-9075", "QCS9100"),
        ("SA8295P", "SA8295"),
        ("RB3 Gen 2", "QCS6490"),
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
    ("name", "said", "nearest"),
    [
        ("SM8250", "SM8250 (Snapdragon 865) has Hexagon v66 and no HTP, which begins with v68", "SM8350 (Snapdragon 888)"),
        ("Snapdragon 845", "SDM845 (Snapdragon 845) has Hexagon v65 and no HTP, which begins with v68", "SM8350 (Snapdragon 888)"),
        ("SM4450", "SM4450 (Snapdragon 4 Gen 2) has no HTP that QNN's libraries know", "SM6450 (Snapdragon 6 Gen 1)"),
        ("SDM625", "SDM625 has no HTP that QNN's libraries know", "SM6450 (Snapdragon 6 Gen 1)"),
        ("QCS403", "QCS403 has Hexagon v66 and no HTP, which begins with v68", "QCS6490 (RB3 Gen 2)"),
        ("SA8195", "SA8195 has Hexagon v66 and no HTP, which begins with v68", "SA8255 (SA8255P)"),
    ],
)  # fmt: skip
def test_a_chip_without_htp_is_refused_with_the_nearest_that_works(
    name: str, said: str, nearest: str
) -> None:
    with pytest.raises(OpdbError) as refused:
        Target("HTP", name).check_chip()
    assert str(refused.value) == (
        f"{said}; the nearest chip that works is {nearest}; older chips have {OLDER}"
    )
    for other in ("DSP", "GPU", "CPU"):
        Target(other, name).check_chip()


OLDER = "--backend GPU and, with v65 or v66, --backend DSP"


@pytest.mark.parametrize(
    ("name", "sdk", "said"),
    [
        ("7c+ Gen 3", None, "SC7280X (Snapdragon 7c+ Gen 3) is a chip that no library of QNN 2.47 to 2.51 prepares for; "
         "the nearest chip that works is SC8280X (Snapdragon 8cx Gen 3)"),
        ("SM7950", "2.47", "SM7950 is a chip that QNN's libraries prepare for since 2.51, not 2.47; "
         "the nearest chip that works is SM7750 (Snapdragon 7 Gen 4)"),
    ],
)  # fmt: skip
def test_a_chip_that_no_library_opens_is_refused(name: str, sdk: str | None, said: str) -> None:
    with pytest.raises(OpdbError) as refused:
        Target("HTP", name, sdk).check_chip()
    assert str(refused.value) == said


def test_a_newer_library_knows_a_newer_chip() -> None:
    for sdk in (None, "2.51"):
        Target("HTP", "SM7950", sdk).check_chip()


def test_the_other_chips_have_an_htp_of_v68_or_later() -> None:
    refused = set()
    for chip, soc in SOCS.items():
        try:
            Target("HTP", chip).check_chip()
            assert (soc.htp_arch or 0) >= 68
        except OpdbError as error:
            assert "the nearest chip that works is" in str(error)
            refused.add(chip)
    assert refused == {c for c, s in SOCS.items() if (s.htp_arch or 0) < 68} | {"SC7280X"}


def test_a_hexagon_version_lists_its_chips() -> None:
    with pytest.raises(OpdbError) as refused:
        soc_name("v75")
    assert str(refused.value) == (
        "'v75' is a Hexagon version, not a SoC; name one that has it: QCS8300 (QCS8275, IQ-8275, Dragonwing IQ-8275), QCS8625, "
        "SA8620P, SM8650 (Snapdragon 8 Gen 3)"
    )
    with pytest.raises(OpdbError, match="'v74' is no SoC, and none has Hexagon v74; known: v65, v66, v68,"):
        soc_name("v74")


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
