"""The tables of supported operators: their format, and that the generated validators accept the listed types."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from opdb.catalog.targets.target import Target
from opdb.codegen.support import Combination, Part, Place, Support
from opdb.codegen.support_tables import (
    COLUMNS,
    boxes,
    computes,
    measured_places,
    op_support,
    spelled,
    tables,
    unfolded,
)
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig, ParamConfig, TensorConfig
from opdb.generated.builders import TARGETS
from opdb.judge.nearest import nearest
from opdb.judge.samples import sample_config, with_outputs
from opdb.judge.validate import check
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp
from opdb.spec.mapping import CompiledMapping

from .conftest import catalog_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
PLACES = measured_places(catalog_of(ROOT / "specs"))


@cache
def support(place: Place) -> Support:
    return Support(catalog_of(ROOT / "specs"), place)


def texts(catalog: Catalog) -> dict[str, str]:
    return {a.path.rpartition("/")[2]: a.text for a in tables(catalog)}


def rows(place: Place) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(op_support(support(place))), strict=True))


# -- form


def test_the_csv_has_the_columns_of_executorchs_template(full: Catalog) -> None:
    lines = list(csv.reader(io.StringIO(texts(full)["op-support.csv"]), strict=True))
    assert (
        lines[0] == ["Operator", "Compute DType", "Quantization", "Constraints", "Measured"] == list(COLUMNS)
    )
    assert {len(line) for line in lines} == {5}
    said = re.compile(
        r"not known|((float|8a8w|16a8w): .+ \(ExecuTorch [\d.]+, HTP [\d.]+, emulator, [\w ]+, \d{4}-\d\d-\d\d\)\n?)+"
    )
    assert all(said.fullmatch(line[-1]) for line in lines[1:])
    assert any(line[-1].startswith("float: yes") for line in lines[1:])
    kinds = re.compile(r"N/A|(bf16|fp16|fp32|fp64|bool|u?int(4|8|16|32|64))( \(probe HTP [\d.]+\))?")
    for _, plain, quantized, *_ in lines[1:]:
        assert plain or quantized
        assert all(kinds.fullmatch(k) for k in filter(None, plain.split(", ")))
        assert quantized in ("", "N/A") or all(q.startswith("static ") for q in quantized.split("\n"))


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_every_mapped_operator_is_in_the_csv_once(place: Place) -> None:
    assert [r["Operator"] for r in rows(place)] == sorted(TARGETS)


def test_every_table_names_soc_and_sdk(full: Catalog) -> None:
    found = texts(full)
    assert "HTP on SM8650, SDK 2.47" in found["op-support.rst"]
    for place in PLACES:
        assert str(place) in found["qnn-ops.md"] and f"## {place}" in found["OperatorKernels.md"]


def test_declared_and_measured_types_are_distinguished() -> None:
    found = {r["Operator"]: r["Compute DType"] for r in rows(PLACES[0])}
    assert found["aten.abs.default"] == "fp16, fp32, int32 (probe HTP 2.47.0)"


def test_a_type_of_another_chip_or_sdk_is_not_listed(full: Catalog) -> None:
    """Only SC8480XP has BF16, and only SDK 2.51 and later take 16-bit signed pads."""

    def pads(soc: str, sdk: str) -> set[str]:
        part = Support(full, Place("HTP", soc, sdk)).part(full.compiled("Pad"))
        return {c.dtypes["x"] for c in part.combinations}

    assert {"bf16", "sq16"}.isdisjoint(pads("SM8650", "2.47"))
    assert "bf16" in pads("SC8480XP", "2.47") and "sq16" in pads("SM8650", "2.51")


def test_fixed_parameters_restrict_the_types(full: Catalog) -> None:
    """HTP computes wrong values for EDGE in floats, and its rule rejects that."""
    support, pad = Support(full, Place("HTP", "SM8650", "2.47")), full.compiled("Pad")
    assert "f32" in {c.dtypes["x"] for c in support.part(pad).combinations}
    assert "f32" not in {c.dtypes["x"] for c in support.part(pad, {"scheme": "EDGE"}).combinations}


def test_an_unknown_backend_or_soc_is_rejected(full: Catalog) -> None:
    with pytest.raises(OpdbError, match="needs a SoC"):
        op_support(Support(full, Place("HTP", None, "2.47")))
    with pytest.raises(OpdbError, match="unknown backend 'NPU'"):
        op_support(Support(full, Place("NPU", None, "2.47")))


def test_boxes_cover_exactly_the_combinations() -> None:
    given = [{"a": a, "b": b, "c": c} for a in "xy" for b in "pq" for c in "uv" if (a, b) != ("y", "q")]
    made = boxes(given)
    assert len(made) == 2 and sorted(map(str, given)) == sorted(str(c) for b in made for c in unfolded(b))


# -- truth


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_the_validator_accepts_every_line_of_the_kernels(place: Place, full: Catalog) -> None:
    target = Target(place.backend, place.soc, place.sdk)
    refused = [
        (name, c.row.id, dict(c.dtypes))
        for name in full.ops
        for c in support(place).part(full.compiled(name)).combinations
        if not accepted(full.compiled(name), c, {}, target)
    ]
    assert refused == []


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_the_validator_accepts_every_type_of_an_operator(place: Place) -> None:
    """Uses the parameters fixed by the operator's mapping."""
    target, found = Target(place.backend, place.soc, place.sdk), support(place)
    listed = {r["Operator"]: f"{r['Compute DType']}\n{r['Quantization']}" for r in rows(place)}
    for name, forms in found.forms.items():
        for form in (f for f in forms if isinstance(f, CompiledMapping)):
            part = found.parts(form)[0]
            fixed = {p: n.value for p, n in form.params.items() if n.kind == "const"}
            for dtype in computes([part]):
                assert re.search(rf"\b{spelled(dtype)}\b", listed[name])
                assert any(accepted(part.op, c, fixed, target) for c in of_type(part, dtype)), (name, dtype)


def of_type(part: Part, dtype: str) -> Iterator[Combination]:
    return (c for c in part.combinations if c.dtypes[part.main or ""] == dtype)


def accepted(op: CompiledOp, combination: Combination, fixed: Mapping[str, Any], target: Target) -> bool:
    """True if the validator accepts these types in a sample, or in a variant with other encodings or shapes."""
    refused = []
    for config in configs(op, combination.dtypes, fixed):
        if check(config, target).verdict == "accept":
            return True
        refused.append(config)
    held = [replace(c, inputs=(c.inputs[0], *map(static, c.inputs[1:]))) for c in refused if c.inputs]
    return any(
        variant is not None
        and types(variant.config) == types(config)
        and variant.config.params == config.params
        for config in (*refused, *held)
        for variant in [nearest(config, target)]
    )


def static(tensor: TensorConfig) -> TensorConfig:
    """The tensor as a static one, like a weight in a model."""
    return tensor if tensor.type == "NULL" else replace(tensor, type="STATIC")


def types(config: OpConfig) -> list[str]:
    return [t.dtype for t in (*config.inputs, *config.outputs)]


def configs(op: CompiledOp, dtypes: Mapping[str, str], fixed: Mapping[str, Any]) -> Iterator[OpConfig]:
    """The samples in these types, with each value of every enum that is not fixed."""
    for i, sample in enumerate(op.definition.samples):
        for p in op.params:
            for value in (fixed[p.name],) if p.name in fixed else p.definition.enum:
                changed = {**sample, **fixed, p.name: value}
                yield from built(op, i, changed, dtypes)
        yield from built(op, i, {**sample, **fixed}, dtypes)


def built(
    op: CompiledOp, number: int, sample: Mapping[str, Any], dtypes: Mapping[str, str]
) -> Iterator[OpConfig]:
    config = sample_config(op, number, dtypes)
    params = [
        p
        for p in config.params
        if p.name not in sample or sample[p.name] == op.definition.samples[number].get(p.name)
    ]
    for p in op.params:
        if p.name in sample and sample[p.name] != op.definition.samples[number].get(p.name):
            value = p.definition.enum.get(str(sample[p.name]), sample[p.name])
            params.append(ParamConfig(p.name, p.definition.base, value))
    made = with_outputs(replace(config, params=tuple(params)), op, dtypes)
    if made is not None:
        yield made
