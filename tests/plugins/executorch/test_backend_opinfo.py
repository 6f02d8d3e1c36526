"""opdb instead of QNN's BackendOpInfo, under ExecuTorch's own adapter, check and quantizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opdb.catalog import migrate
from opdb.catalog.store import Store
from opdb.plugins.executorch import env, process

pytestmark = [pytest.mark.executorch, pytest.mark.slow]

HERE = Path(__file__).parent
MINI = HERE.parents[1] / "data" / "mini"
PREFIX = "QNN_QUANTIZATION_ENCODING_"


@pytest.fixture(scope="module")
def found(environment: env.Environment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All results, from one child process; the catalog is tests/data/mini."""
    url = f"sqlite:///{tmp_path_factory.mktemp('opinfo') / 'opdb.db'}"
    migrate.upgrade(url)
    Store(url).sync(MINI)
    result: dict[str, Any] = process.call(
        "opinfo_cases:everything", url, environment=environment, path=[HERE]
    )
    return result


def test_the_adapter_uses_opdb_until_uninstalled(found: dict[str, Any]) -> None:
    assert found["before"] == found["after"] == []
    assert found["type"]
    assert found["ops"] == ["ElementWiseAdd", "LayerNorm", "Relu"]  # Concat ends with SDK 2.40 there
    assert found["constraints"]["Nothing"] == []


def test_bad_installs_are_one_clear_error(found: dict[str, Any]) -> None:
    assert "opdb init" in found["missing"]
    assert found["twice"] == "opdb's backend_opinfo is installed already; call uninstall() first"


def test_a_variant_has_a_port_for_each_slot(found: dict[str, Any]) -> None:
    for variant in found["constraints"]["LayerNorm"]:
        assert [len(variant[g]) for g in ("inputs", "outputs")] == [3, 1]
        for port in (*variant["inputs"], *variant["outputs"]):
            assert bool(port["told"]) == ("FIXED_POINT" in port["dtype"])
            assert port["onward"] is False


def test_unspecified_flags_are_none(found: dict[str, Any]) -> None:
    """ExecuTorch 1.4.1 interprets False for an output as a requirement."""
    flags = {flag for op in found["constraints"].values() for v in op for p in (*v["inputs"], *v["outputs"])
             for _, symmetric, _, invariant in p["told"] for flag in (symmetric, invariant)}  # fmt: skip
    assert flags == {None, True}


def test_rules_become_constraints(found: dict[str, Any]) -> None:
    (wide,) = [v for v in found["constraints"]["LayerNorm"]
               if [p["dtype"].removeprefix("QNN_DATATYPE_") for p in v["inputs"]] ==
               ["UFIXED_POINT_16", "SFIXED_POINT_16", "SFIXED_POINT_32"]]  # fmt: skip
    told = [[symmetric for _, symmetric, _, _ in p["told"]] for p in (*wide["inputs"], *wide["outputs"])]
    assert told == [[None], [True], [True], [None]]
    assert f"{PREFIX}SCALE_OFFSET" in wide["inputs"][0]["told"][0][0]


def test_executorchs_check_agrees_with_the_rules(found: dict[str, Any]) -> None:
    assert found["layer_norm"] == {"right": True, "crooked": False, "eight": True}


def test_the_quantizer_accepts_opdbs_answers(found: dict[str, Any]) -> None:
    assert found["quantizer"]["asked"] == ["LayerNorm", "Relu"]
    assert found["quantizer"]["same"]
