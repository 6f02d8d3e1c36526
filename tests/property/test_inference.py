"""Inference = verification: inferred shapes break no shape rule, any other shape breaks one, and C infers the same."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from configs import Maker, infer
from isolated import isolated

import opdb.specs
from opdb.core.op_config import OpConfig, TensorConfig
from opdb.generated import validators
from opdb.runtime import native
from opdb.runtime.checks import Undecidable
from opdb.spec.catalog import Catalog
from opdb.spec.files import read_folder

pytestmark = pytest.mark.slow

COUNT = 600  # configs for each op
#: Ops with output shapes that are given, not inferred.
GIVEN = {
    name
    for name, op in read_folder(Path(opdb.specs.__file__).parent).ops.items()
    if any(y.shape in (None, "any") for y in op.outputs.values())
}
INFERABLE = [n for n in validators.MODULES if n not in GIVEN]


def flat(module: Any, shapes: dict[str, Any]) -> list[list[int]]:
    """The inferred shapes in the order of the output tensors; a variadic slot may have none."""
    many = {s.name for s in module.SIGNATURE.outputs if s.variadic}
    out: list[list[int]] = []
    for name, value in shapes.items():
        out += value if name in many else [value]
    return out


def shape_rules(config: OpConfig) -> set[str]:
    """The broken rules about the shape or number of outputs."""
    module = validators.module(config.op)
    assert module is not None
    outputs = [s.name for s in module.SIGNATURE.outputs]
    about = {f"{config.op}.{kind}_{name}" for kind in ("SHAPE", "COUNT") for name in outputs}
    return {v.rule for v in module.validate(config) if v.rule in about | {f"{config.op}.OUTPUTS"}}


def others(tensor: TensorConfig, rng: random.Random) -> list[tuple[int, ...]]:
    """Shapes other than that of ``tensor``: each dim increased, decreased and swapped; one dim added and removed."""
    shape = tensor.shape
    out = [(*shape, 1), (1, *shape)]
    for i, d in enumerate(shape):
        out += [(*shape[:i], other, *shape[i + 1 :]) for other in (d + 1, max(d - 1, 0), rng.randint(0, 99))]
        out.append((*shape[:i], *shape[i + 1 :]))
    if len(shape) > 1:
        out.append((shape[-1], *shape[1:-1], shape[0]))
    return [o for o in dict.fromkeys(out) if o != shape]


@pytest.mark.slow_by_op
@pytest.mark.parametrize("name", INFERABLE)
def test_only_the_inferred_shape_is_accepted(catalog: Catalog, name: str) -> None:
    rng = random.Random(f"inference {name}")
    maker = Maker(catalog.compiled(name), rng)
    changes = 0
    for _ in range(COUNT // 6):
        config = maker.valid()
        assert shape_rules(config) == set(), config
        for i, tensor in enumerate(config.outputs):
            for shape in others(tensor, rng) if tensor.type != "NULL" else ():
                outputs = (*config.outputs[:i], replace(tensor, shape=shape), *config.outputs[i + 1 :])
                assert shape_rules(replace(config, outputs=outputs)), (config, shape)
                changes += 1
        more = (*config.outputs, *(config.outputs[-1:] or [TensorConfig("", "f32", (1,))]))
        fewer = config.outputs[:-1]
        assert (
            not config.outputs or shape_rules(replace(config, outputs=fewer)) or maker.op.outputs[-1].optional
        )
        assert shape_rules(replace(config, outputs=more))
    assert changes >= 500 or not maker.op.outputs


@pytest.mark.slow_by_op
@pytest.mark.parametrize("name", list(validators.MODULES))
def test_shapes_inferred_from_damaged_inputs_are_accepted(catalog: Catalog, name: str) -> None:
    """An output with a shape inferred from broken inputs breaks no shape rule either."""
    maker, module = Maker(catalog.compiled(name), random.Random(f"damage {name}")), validators.module(name)
    judged = 0
    for config in maker.stream(COUNT):
        try:
            shapes = flat(module, infer(config))
        except Undecidable:
            continue
        dtype = config.outputs[0].dtype if config.outputs else "f32"
        config = replace(config, outputs=tuple(TensorConfig("", dtype, tuple(s)) for s in shapes))
        rules = shape_rules(config)
        assert not rules or (not shapes and rules == {f"{name}.OUTPUTS"}), config
        judged += 1
    assert judged == 0 if name in GIVEN else judged > COUNT // 4


@pytest.mark.slow_by_op
@pytest.mark.parametrize("name", list(validators.MODULES))
def test_python_and_c_infer_the_same_shapes(catalog: Catalog, native_module: Any, name: str) -> None:
    def compare() -> tuple[list[str], Counter[str]]:
        native.ffi, native.lib = native_module.ffi, native_module.lib
        found, counts, module = [], Counter[str](), validators.module(name)
        for config in Maker(catalog.compiled(name), random.Random(f"infer {name}")).stream(COUNT):
            try:
                want: list[list[int]] | None = flat(module, infer(config))
            except Undecidable:
                want = None
            got = native.infer(config)
            counts["none" if want is None else "shapes"] += 1
            if want != got:
                found.append(f"{config}: Python {want}, C {got}")
        return found[:5], counts

    found, counts = isolated(compare)
    assert found == []
    assert counts["none"] > 10 and (counts["shapes"] > COUNT // 4 or name in GIVEN), counts
