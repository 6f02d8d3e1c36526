"""Reproductions of errata: the configs given to a library, and the scope that follows from its answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.measure.conformance.errata_by_sdk import page, read_observations
from opdb.measure.conformance.reprobe import Observation, observe, propose
from opdb.measure.conformance.reproductions import hits, reproduction, trial
from opdb.runtime.qnn.libraries import installed
from opdb.spec.catalog import Catalog
from opdb.spec.erratum import Erratum

pytest.importorskip("torch")
pytestmark = [pytest.mark.native, pytest.mark.torch]

X = {"name": "x", "dtype": "UFIXED_POINT_8", "shape": [4], "type": "NATIVE",
     "quant": {"encoding": "SCALE_OFFSET", "scale": [0.03125], "offset": [-128]}}  # fmt: skip
RELU = {"op": "Relu", "inputs": [X], "params": {}, "outputs": [{**X, "name": "y"}]}


def record(**fields: Any) -> Erratum:
    given = {"erratum": "CPU-0900", "title": "Relu of 8 bits returns x", "op": "Relu", "effect": "wrong-result",
             "when": "x.dtype == uq8", "workaround": "reject"}  # fmt: skip
    return Erratum.model_validate({**given, **fields})


def with_record(catalog: Catalog, erratum: Erratum) -> Catalog:
    parts = catalog.__reduce__()[1]
    return Catalog(*parts[:6], {erratum.erratum: erratum})


def seen(qnn: str, soc: str, symptom: str) -> Observation:
    return Observation("HTP-0900", qnn, soc, symptom)


def test_inputs_are_filled_as_recorded(catalog: Catalog) -> None:
    erratum = record(reproduction={"config": RELU, "inputs": {"x": [-1.0, 0.0, 1.0, 2.0]}})
    configs = reproduction(catalog, erratum, Target("CPU"))
    made = trial(catalog, erratum, configs, "CPU-0900", half=False)
    assert made.inputs["x"].tolist() == [96, 128, 160, 192]
    assert np.allclose(made.expected[0], [0.0, 0.0, 1.0, 2.0])


def test_data_of_the_wrong_size_is_refused_with_its_place(catalog: Catalog) -> None:
    erratum = record(reproduction={"config": RELU, "inputs": {"x": [1.0, 2.0]}})
    configs = reproduction(catalog, erratum, Target("CPU"))
    with pytest.raises(
        OpdbError, match=r"CPU-0900: reproduction.inputs.x has 2 values; its shape \[4\] needs 4"
    ):
        trial(catalog, erratum, configs, "CPU-0900", half=False)


def test_ops_of_a_graph_are_connected_by_tensor_names(catalog: Catalog) -> None:
    middle = {**X, "name": "between"}
    graph = [{**RELU, "outputs": [middle]}, {**RELU, "inputs": [middle]}]
    erratum = record(pattern="Relu -> Relu", reproduction={"graph": graph, "inputs": {"x": "arange"}})
    made = trial(catalog, erratum, reproduction(catalog, erratum, Target("CPU")), "CPU-0900", half=False)
    assert {n: t.type for n, t in made.graph.tensors.items()} == {
        "x": "APP_WRITE",
        "between": "NATIVE",
        "y": "APP_READ",
    }
    assert made.expected[0].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_record_without_reproduction_gets_a_matching_sample(catalog: Catalog) -> None:
    erratum = record()
    known = with_record(catalog, erratum)
    (config,) = reproduction(known, erratum, Target("CPU"))
    assert config.inputs[0].dtype == "uq8"
    compiled = known.compiled("Relu")
    found = compiled.errata["CPU"][0]
    assert hits(compiled, found, config, Target("CPU"))
    never = record(when="x.rank > 15")
    assert reproduction(with_record(catalog, never), never, Target("CPU")) == ()


@pytest.mark.vendor
def test_the_library_shows_the_fault_only_where_recorded(catalog: Catalog) -> None:
    """Relu of 8 bits returns x on QNN CPU 2.47; Relu of floats is right."""
    floats = {"name": "x", "dtype": "FLOAT_32", "shape": [4], "type": "NATIVE"}
    right = {**RELU, "inputs": [floats], "outputs": [{**floats, "name": "y"}]}
    given = {"x": [-1.0, 0.0, 1.0, 2.0]}
    wrong = record(reproduction={"config": RELU, "inputs": given})
    fine = record(erratum="CPU-0901", reproduction={"config": right, "inputs": given})
    first, second = observe(catalog, [wrong, fine], installed(), "2.47", "")
    assert (first.symptom, first.detail) == ("wrong-result", "y[0]: -1, PyTorch 0; 1 of 4 differ")
    assert second.symptom == "right"


@pytest.mark.vendor
def test_right_numbers_do_not_refute_a_finalization_fault(catalog: Catalog) -> None:
    wrong = record(effect="not-finalized", cause="graph-preparation", reproduction={"config": RELU})
    (seen_,) = observe(catalog, [wrong], installed(), "2.47", "")
    assert (seen_.symptom, seen_.shows(wrong.effect)) == ("right", False)
    fails = Observation("CPU-0900", "2.47", "", "not-executed")
    assert fails.shows("not-finalized") is True


def test_the_scope_follows_from_observations(catalog: Catalog) -> None:
    erratum = record(erratum="HTP-0900", scope={"since": "2.47"})
    gone = [seen("2.47", "SM8350", "right"), seen("2.47", "SM8750", "wrong-result"),
            seen("2.51", "SM8350", "right"), seen("2.51", "SM8750", "right")]  # fmt: skip
    proposal = propose(catalog, erratum, gone)
    assert proposal is not None and proposal.text() == "since 2.47, until 2.47, arch [79]"
    assert proposal.differs(erratum)
    scope = {"since": "2.47", "until": "2.47", "arch": [79]}
    assert not proposal.differs(record(erratum="HTP-0900", scope=scope))
    assert propose(catalog, erratum, [seen("2.47", "SM8350", "refused")]) is None
    never = propose(catalog, erratum, [seen("2.47", "SM8350", "right")])
    assert never is not None and never.text() == "no library shows it" and never.differs(erratum)
    assert not never.differs(record(erratum="HTP-0900", flaky=True))


def test_missing_observations_do_not_change_the_scope(catalog: Catalog) -> None:
    """Only 2.51 on one chip was observed: the record's "since 2.47" and v68 are kept."""
    proposal = propose(catalog, record(), [seen("2.51", "SM8750", "wrong-result")])
    assert proposal is None  # it belongs to another record
    erratum = record(erratum="HTP-0900", scope={"since": "2.47", "arch": [68, 79]})
    proposal = propose(catalog, erratum, [seen("2.51", "SM8750", "wrong-result")])
    assert proposal is not None and not proposal.differs(erratum)


def test_the_page_has_a_letter_for_each_chip(catalog: Catalog) -> None:
    erratum = record(erratum="HTP-0900", op="Relu", when="x.dtype == uq8")
    known = with_record(catalog, erratum)
    rows = [seen("2.47", "SM8750", "wrong-result"), seen("2.47", "SM8350", "right"),
            seen("2.51", "SM8350", "not-finalized"), seen("2.51", "SM8750", "wrong-result")]  # fmt: skip
    text = page(known, read_observations([r.data() for r in rows], "x.json"), "2026-11-26")
    assert "| HTP-0900 | Relu | wrong-result | `-W` | `FW` | since 2.47, arch [79] |" in text
    assert "| 2.47 | 0 of 1 | 1 of 1 |" in text
    assert "| 2.51 | 0 of 0 | 1 of 1 |" in text  # another fault hides it on v68
    assert "SM8350 (v68), SM8750 (v79)" in text


def test_rows_that_are_not_observations_are_refused() -> None:
    with pytest.raises(OpdbError, match=r"x\.json: entry 0 is not an observation"):
        read_observations([{"erratum": "HTP-0001"}], "x.json")
    bad = {"erratum": "HTP-0001", "qnn": "2.47", "soc": "", "symptom": "odd", "detail": ""}
    with pytest.raises(OpdbError, match="no symptom 'odd'"):
        read_observations([bad], "x.json")
