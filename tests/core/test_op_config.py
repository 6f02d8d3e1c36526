"""Op configs: JSON -> config -> JSON is the identity, and every error names the place and the expected value."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdb.core.dtypes import BY_SHORT, DTYPES
from opdb.core.op_config import (
    ENCODINGS,
    MAX_DIM,
    MAX_RANK,
    TENSOR_TYPES,
    Blocks,
    ConfigError,
    OpConfig,
    ParamConfig,
    Quant,
    Sparse,
    TensorConfig,
    Vectors,
    from_json,
    to_json,
)

LAYER_NORM = {
    "id": "17",
    "op": "LayerNorm",
    "package": "qti.aisw",
    "inputs": [
        {"name": "x", "dtype": "UFIXED_POINT_8", "shape": [2, 4], "type": "APP_WRITE",
         "quant": {"encoding": "SCALE_OFFSET", "scale": [0.5], "offset": [-3]}},
        {"name": "gamma", "dtype": "FLOAT_32", "shape": [4], "type": "STATIC", "data": [1.0, 2.0, 3.0, 4.0]},
    ],
    "params": {
        "epsilon": {"dtype": "FLOAT_32", "value": 1e-6},
        "axes": {"dtype": "UINT_32", "shape": [1], "data": [1]},
    },
    "outputs": [{"name": "y", "dtype": "FLOAT_32", "shape": [2, 4], "type": "APP_READ"}],
}  # fmt: skip


def test_the_documented_form_survives_a_round_trip() -> None:
    config = from_json(LAYER_NORM)
    assert config.inputs[0] == TensorConfig(
        "x", "uq8", (2, 4), "APP_WRITE", None, Quant("SCALE_OFFSET", (0.5,), (-3,))
    )
    assert config.params == (ParamConfig("epsilon", "f32", 1e-6), ParamConfig("axes", "u32", (1,), (1,)))
    assert to_json(config) == LAYER_NORM
    assert from_json(json.loads(json.dumps(to_json(config)))) == config


def test_short_forms_are_accepted() -> None:
    config = from_json({
        "op": "Relu",
        "inputs": [{"dtype": "f16", "shape": [], "quant": {"encoding": "SCALE_OFFSET", "scale": 0.1, "offset": 0}},
                   {"type": "NULL"}],
        "params": {"flag": {"dtype": "QNN_DATATYPE_BOOL_8", "value": 1},
                   "pads": {"dtype": "u32", "shape": [2, 2], "data": [[1, 2], [3, 4]]},
                   "free": {"dtype": "i32", "data": []}},
    })  # fmt: skip
    assert config.package == "qti.aisw" and config.id is None and config.outputs == ()
    assert config.inputs[0].quant == Quant("SCALE_OFFSET", (0.1,), (0,))
    assert config.inputs[1].type == "NULL"
    assert config.params[0].value is True
    assert config.params[1] == ParamConfig("pads", "u32", (1, 2, 3, 4), (2, 2))
    assert config.params[2] == ParamConfig("free", "i32", (), (0,))
    assert "id" not in to_json(config)
    assert from_json(to_json(config)) == config


def test_numpy_data_becomes_json() -> None:
    tensor = TensorConfig("w", "f32", (2,), "STATIC", np.ones(2, np.float32))
    out = to_json(OpConfig("Relu", (tensor,)))
    assert json.loads(json.dumps(out))["inputs"][0]["data"] == [1.0, 1.0]


dims, byte = st.integers(0, MAX_DIM), st.integers(0, 255)
block_scales = st.lists(st.integers(0, 2**16 - 1), max_size=4).map(tuple)
quants = st.builds(
    Quant,
    st.sampled_from(ENCODINGS),
    st.lists(st.floats(allow_nan=False, width=32), max_size=3).map(tuple),
    st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3).map(tuple),
    st.none() | st.integers(0, MAX_RANK - 1),
    st.none() | st.integers(0, 64),
    st.lists(st.integers(0, 64), max_size=2).map(tuple),
    st.none() | st.builds(Blocks, dims, st.integers(0, 16), block_scales, st.sampled_from((8, 16))),
    st.none() | st.builds(Vectors, dims, dims, byte, byte, byte),
)
tensors = st.builds(
    TensorConfig,
    st.text(max_size=5),
    st.sampled_from([d.short for d in DTYPES]),
    st.lists(st.integers(0, MAX_DIM), max_size=MAX_RANK).map(tuple),
    st.sampled_from(TENSOR_TYPES),
    st.none() | st.lists(st.integers(0, 9), max_size=3),
    st.none() | quants,
)
values = {
    "f32": st.floats(allow_nan=False), "u8": st.integers(0, 255), "i4": st.integers(-8, 7),
    "i64": st.integers(-(2**63), 2**63 - 1), "u64": st.integers(0, 2**63 - 1), "bool8": st.booleans(), "str": st.text(max_size=3),
}  # fmt: skip


@st.composite
def params(draw: st.DrawFn) -> tuple[ParamConfig, ...]:
    out = []
    for name in draw(st.lists(st.text(max_size=4), unique=True, max_size=4)):
        dtype = draw(st.sampled_from(sorted(values)))
        if dtype != "str" and draw(st.booleans()):
            data = tuple(draw(st.lists(values[dtype], max_size=6)))
            shape = draw(st.sampled_from([(len(data),), (1, len(data)), (len(data), 1)]))
            out.append(ParamConfig(name, dtype, data, shape))
        else:
            out.append(ParamConfig(name, dtype, draw(values[dtype])))
    return tuple(out)


configs = st.builds(
    OpConfig,
    st.text(min_size=1, max_size=9),
    st.lists(tensors, max_size=3).map(tuple),
    params(),
    st.lists(tensors, max_size=2).map(tuple),
    st.text(max_size=9),
    st.none() | st.text(max_size=5),
)


@given(configs)
def test_configs_survive_a_json_round_trip(config: OpConfig) -> None:
    assert from_json(json.loads(json.dumps(to_json(config)))) == config


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.sampled_from(["f32", "STATIC", "NULL"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["op", "inputs", "params", "outputs", "dtype", "shape", "data", "value", "quant", "type",
                                       "encoding", "scale", "axis", "id"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(json_values)
def test_any_json_is_read_or_refused_with_one_line(raw: Any) -> None:
    try:
        config = from_json(raw)
    except ConfigError as error:
        assert "\n" not in str(error) and ": " in str(error)
    else:
        assert from_json(to_json(config)) == config or "nan" in repr(config)


def changed(*path: Any, to: Any) -> Any:
    """LAYER_NORM with the value at ``path`` replaced; None removes it."""
    out = json.loads(json.dumps(LAYER_NORM))
    part = out
    for step in path[:-1]:
        part = part[step]
    if to is None:
        del part[path[-1]]
    else:
        part[path[-1]] = to
    return out


X, EPS, AXES = ("inputs", 0), ("params", "epsilon"), ("params", "axes")
DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]

REFUSALS: list[tuple[Any, str]] = [
    ([1], "op config: expected an object, got list"),
    ("LayerNorm", "op config: expected an object, got str"),
    (changed("op", to=None), "op config: the field 'op' is missing"),
    (changed("op", to=5), "op: expected a name, got 5"),
    (changed("input", to=[]), "op config: unknown field 'input'; allowed: id, inputs, op, outputs, package, params"),
    (changed("params", to=[1]), "params: expected an object of parameters by name, got list"),
    (changed("inputs", to={"x": 1}), "inputs: expected a list of tensors, got dict"),
    (changed("outputs", to="y"), "outputs: expected a list of tensors, got str"),
    (changed(*X, to="x"), "inputs[0]: expected an object, got str"),
    (changed(*X, "dtype", to=None), "inputs[0]: the field 'dtype' is missing"),
    (changed(*X, "shape", to=None), "inputs[0]: the field 'shape' is missing"),
    (changed(*X, "dims", to=[1]), "inputs[0]: unknown field 'dims'; allowed: data, dtype, name, quant, shape, sparse, type"),
    (changed(*X, "type", to="CONST"),
     "inputs[0].type: 'CONST' is not a tensor type; one of APP_WRITE, APP_READ, NATIVE, STATIC, NULL"),
    (changed(*X, "dtype", to="FLOAT32"), "inputs[0].dtype: 'FLOAT32' is not a QNN data type; e.g. FLOAT_32, UFIXED_POINT_8"),
    (changed(*X, "dtype", to=32), "inputs[0].dtype: 32 is not a QNN data type; e.g. FLOAT_32, UFIXED_POINT_8"),
    (changed(*X, "shape", to=3), "inputs[0].shape: expected a list of dimensions, got 3"),
    (changed(*X, "shape", to="23"), "inputs[0].shape: expected a list of dimensions, got '23'"),
    (changed(*X, "shape", to=[1] * 17), "inputs[0].shape: rank 17 is above the limit of 16"),
    (changed(*X, "shape", to=[2, -1]), "inputs[0].shape[1]: a dimension is an integer from 0 to 2147483647, got -1"),
    (changed(*X, "shape", to=[2**31]), "inputs[0].shape[0]: a dimension is an integer from 0 to 2147483647, got 2147483648"),
    (changed(*X, "shape", to=[2.0]), "inputs[0].shape[0]: a dimension is an integer from 0 to 2147483647, got 2.0"),
    (changed(*X, "shape", to=[True]), "inputs[0].shape[0]: a dimension is an integer from 0 to 2147483647, got True"),
    (changed(*X, "quant", to=[]), "inputs[0].quant: expected an object, got list"),
    (changed(*X, "quant", to={"scale": 1}), "inputs[0].quant: the field 'encoding' is missing"),
    (changed(*X, "quant", "zero_point", to=1),
     "inputs[0].quant: unknown field 'zero_point'; allowed: axis, bits, block_size, blocks, encoding, offset, scale, vector"),
    (changed(*X, "quant", "blocks", to=3), "inputs[0].quant.blocks: expected an object, got int"),
    (changed(*X, "quant", "blocks", to={"per_axis": 2, "bits": 4}), "inputs[0].quant.blocks: the field 'scales' is missing"),
    (changed(*X, "quant", "blocks", to={"per_axis": 2, "bits": None, "scales": []}),
     "inputs[0].quant.blocks.bits: expected an integer from 0 to 16, got None"),
    (changed(*X, "quant", "blocks", to={"per_axis": 2, "bits": 4, "scales": [1.5]}),
     "inputs[0].quant.blocks.scales: expected int numbers, got 1.5"),
    (changed(*X, "quant", "blocks", to={"per_axis": 2, "bits": 4, "scales": [1], "storage": 4}),
     "inputs[0].quant.blocks.storage: block scales are stored in 8 or 16 bits, not in 4"),
    (changed(*X, "quant", "vector", to={"rows_per_block": 1}), "inputs[0].quant.vector: the field 'columns_per_block' is missing"),
    (changed(*X, "quant", "vector", to=dict.fromkeys(
        ("rows_per_block", "columns_per_block", "dimension", "stride", "index_bits"), 256)),
     "inputs[0].quant.vector.dimension: expected an integer from 0 to 255, got 256"),
    (changed(*X, "quant", "encoding", to="PER_TENSOR"),
     "inputs[0].quant.encoding: 'PER_TENSOR' is not one of SCALE_OFFSET, AXIS_SCALE_OFFSET, BW_SCALE_OFFSET, "
     "BW_AXIS_SCALE_OFFSET, BLOCK, BLOCKWISE_EXPANSION, VECTOR"),
    (changed(*X, "quant", "scale", to="0.1"), "inputs[0].quant.scale: expected float numbers, got '0.1'"),
    (changed(*X, "quant", "scale", to=[10**400]), f"inputs[0].quant.scale: expected float numbers, got {10**400}"),
    (changed(*X, "quant", "offset", to=[0.5]), "inputs[0].quant.offset: expected int numbers, got 0.5"),
    (changed(*X, "quant", "offset", to=True), "inputs[0].quant.offset: expected int numbers, got True"),
    (changed(*X, "quant", "axis", to=-1), "inputs[0].quant.axis: expected an integer from 0 to 15, got -1"),
    (changed(*X, "quant", "axis", to="1"), "inputs[0].quant.axis: expected an integer from 0 to 15, got '1'"),
    (changed(*X, "quant", "bits", to=2**40), f"inputs[0].quant.bits: expected an integer from 0 to 64, got {2**40}"),
    (changed(*EPS, to=1e-6), "params.epsilon: expected an object, got float"),
    (changed(*EPS, "dtype", to=None), "params.epsilon: the field 'dtype' is missing"),
    (changed(*EPS, "value", to=None), "params.epsilon: the field 'value' or 'data' is missing"),
    (changed(*EPS, "data", to=[1]), "params.epsilon: give either 'value' (a scalar) or 'shape' and 'data' (a tensor)"),
    (changed(*EPS, "unit", to="m"), "params.epsilon: unknown field 'unit'; allowed: data, dtype, shape, value"),
    (changed(*EPS, "value", to=[1.0]), "params.epsilon.value: expected a scalar, got list"),
    (changed(*EPS, "value", to="small"), "params.epsilon.value: 'small' is not a value of FLOAT_32"),
    (changed(*EPS, "value", to=True), "params.epsilon.value: True is not a value of FLOAT_32"),
    (changed(*EPS, "value", to=10**400), f"params.epsilon.value: {10**400} is not a value of FLOAT_32"),
    (changed(*AXES, "data", to=[1, 2]), "params.axes.data: 2 values do not fill the shape [1]"),
    (changed(*AXES, "data", to=[-1]), "params.axes.data: -1 is not a value of UINT_32"),
    (changed(*AXES, "data", to=[2**32]), "params.axes.data: 4294967296 is not a value of UINT_32"),
    (changed(*AXES, "data", to=[1.0]), "params.axes.data: 1.0 is not a value of UINT_32"),
    (changed(*AXES, "data", to=["1"]), "params.axes.data[0]: expected a number, got '1'"),
    (changed(*AXES, "shape", to=[-1]), "params.axes.shape[0]: a dimension is an integer from 0 to 2147483647, got -1"),
    (changed(*AXES, "data", to=DEEP),
     "params.axes.data" + "[0]" * 16 + ": lists are nested deeper than 16 levels"),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "message"), REFUSALS, ids=range(len(REFUSALS)))
def test_malformed_configs_are_refused(raw: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_json(raw)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "dtype",
    [d.short for d in DTYPES if d.short not in ("str", "bool8") and not d.short.startswith(("f", "bf"))],
)
def test_integers_beyond_their_type_are_refused(dtype: str) -> None:
    kind = BY_SHORT[dtype]
    signed = not kind.qnn.startswith("U")
    low, high = (
        (-(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1) - 1) if signed else (0, min(2**kind.bits, 2**63) - 1)
    )

    def read(value: int) -> Any:
        return from_json({"op": "X", "params": {"p": {"dtype": dtype, "value": value}}}).params[0].value

    assert (read(low), read(high)) == (low, high)
    for outside in (low - 1, high + 1):
        with pytest.raises(ConfigError, match=f"{outside} is not a value of {kind.qnn}"):
            read(outside)


def sparse_config(**sparse: Any) -> dict[str, Any]:
    return {"op": "Relu", "inputs": [{"dtype": "FLOAT_32", "shape": [2, 3], "sparse": sparse}]}


def test_a_sparse_tensor_is_read_and_written() -> None:
    config = from_json(sparse_config(specified=5, dimensions=2))
    assert config.inputs[0].sparse == Sparse(5, 2)
    assert to_json(config)["inputs"][0]["sparse"] == {"specified": 5, "dimensions": 2}
    assert from_json(to_json(config)) == config


@pytest.mark.parametrize(
    ("sparse", "message"),
    [
        ({"specified": 0, "dimensions": 1}, r"inputs\[0\].sparse.specified: a sparse tensor has 1"),
        (
            {"specified": 1, "dimensions": 0},
            r"inputs\[0\].sparse.dimensions: of a tensor of rank 2, 1 to 2 dimensions",
        ),
        ({"specified": 1, "dimensions": 3}, "can be sparse, not 3"),
        ({"specified": 1}, "the field 'dimensions' is missing"),
        ({"specified": 1, "dimensions": 1, "layout": 0}, "unknown field 'layout'"),
        ({"specified": True, "dimensions": 1}, "expected an integer"),
    ],
)
def test_malformed_sparse_tensors_are_refused(sparse: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_json(sparse_config(**sparse))
