"""Conversion of data for QNN's structs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.core.op_config import ConfigError, OpConfig, ParamConfig, Quant, Sparse, TensorConfig
from opdb.runtime.qnn.native import NULL, Arena, ffi, lib
from opdb.runtime.qnn.structs import array, op_config
from opdb.runtime.qnn.tensor_read import read_tensor

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("data", "dtype", "shape", "expected"),
    [
        (None, "f32", (2, 2), np.zeros((2, 2), np.float32)),
        ([[1, 2], [3, 4]], "f32", (2, 2), np.array([[1, 2], [3, 4]], np.float32)),
        ([1, 2, 3, 4], "u8", (2, 2), np.array([[1, 2], [3, 4]], np.uint8)),
        (np.arange(6).reshape(2, 3).T, "i32", (3, 2), np.array([[0, 3], [1, 4], [2, 5]], np.int32)),
        (np.float32(2.5), "f16", (), np.float16(2.5)),
        ([True, False], "bool8", (2,), np.array([True, False])),
        ([0, 1], "bool8", (2,), np.array([False, True])),
        ([], "f32", (0, 3), np.zeros((0, 3), np.float32)),
        (None, "sq4", (3,), np.zeros(3, np.uint8)),
    ],
)
def test_data_become_arrays_of_the_type(data: Any, dtype: str, shape: tuple[int, ...], expected: Any) -> None:
    got = array(data, dtype, shape, "x")
    assert got.dtype == expected.dtype
    assert got.flags.c_contiguous
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("data", "dtype", "shape", "message"),
    [
        ([1.5], "i32", (1,), "do not go into i32"),
        ([300], "u8", (1,), "does not fit u8"),
        ([-1], "u32", (1,), "does not fit u32"),
        ([2], "bool8", (1,), "does not fit bool8"),
        (["a"], "f32", (1,), "do not go into f32"),
        ([1, 2, 3], "f32", (2, 2), "do not fill the shape"),
        (np.zeros((3, 2)), "f32", (2, 3), r"shape \[3, 2\] do not fill"),
        ([[1], [2, 3]], "f32", (3,), "different lengths"),
        (None, "f32", (2**31 - 1, 2**31 - 1), "more than the 4 GiB"),
    ],
)
def test_data_that_do_not_fit_are_rejected(
    data: Any, dtype: str, shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"^x: .*{message}"):
        array(data, dtype, shape, "x")


def test_bfloat16_rounds_as_pytorch_does() -> None:
    values = np.random.default_rng(0).normal(size=4096).astype(np.float32)
    values[:6] = [0.0, -0.0, np.inf, -np.inf, 1 + 2**-8, 1 + 3 * 2**-8]
    expected = torch.from_numpy(values).to(torch.bfloat16).view(torch.uint16).numpy()
    np.testing.assert_array_equal(array(values, "bf16", values.shape, "x"), expected)
    nan = array(np.array([np.nan]), "bf16", (1,), "x")
    assert torch.from_numpy(nan).view(torch.bfloat16).isnan().all()


def test_an_op_config_becomes_c_structs() -> None:
    arena = Arena()
    quant = Quant("BW_AXIS_SCALE_OFFSET", (0.5, 0.25), (0, -1), axis=1, bits=4)
    config = OpConfig(
        "Op",
        (TensorConfig("", "f32", (), "NULL"), TensorConfig("w", "sq8", (3, 2), "STATIC", quant=quant)),
        (
            ParamConfig("axes", "u32", (0, 2), (2,)),
            ParamConfig("epsilon", "f32", 0.5),
            ParamConfig("flag", "bool8", True),
            ParamConfig("graph", "str", "then"),
        ),
        (TensorConfig("y", "f16", (4,)),),
        package="my.package",
    )
    v = op_config(arena, config, "node").u.v1
    assert [ffi.string(t) for t in (v.name, v.packageName, v.typeName)] == [b"node", b"my.package", b"Op"]
    assert (v.numOfInputs, v.numOfParams, v.numOfOutputs) == (2, 4, 1)
    absent, weight = v.inputTensors[0].u.v1, v.inputTensors[1].u.v1
    assert (absent.type, absent.rank, absent.dimensions) == (lib.QNN_TENSOR_TYPE_NULL, 0, NULL)
    assert (weight.type, weight.memType, weight.u.clientBuf.dataSize) == (
        lib.QNN_TENSOR_TYPE_STATIC,
        lib.QNN_TENSORMEMTYPE_RAW,
        6,
    )
    encoding = weight.quantizeParams.u.bwAxisScaleOffsetEncoding
    assert (encoding.bitwidth, encoding.axis, encoding.numElements) == (4, 1, 2)
    assert [encoding.scales[i] for i in range(2)] == [0.5, 0.25]
    assert [encoding.offsets[i] for i in range(2)] == [0, -1]
    axes = v.params[0].u.tensorParam.u.v1
    assert (
        bytes(ffi.buffer(axes.u.clientBuf.data, axes.u.clientBuf.dataSize))
        == np.array([0, 2], "<u4").tobytes()
    )
    assert v.params[1].u.scalarParam.u.floatValue == 0.5
    assert v.params[2].u.scalarParam.u.bool8Value == 1
    assert ffi.string(v.params[3].u.scalarParam.u.stringValue) == b"then"


@pytest.mark.parametrize(
    ("quant", "message"),
    [
        (Quant("SCALE_OFFSET"), "0 scales"),
        (Quant("AXIS_SCALE_OFFSET", (0.1, 0.2), (0,), axis=0), "2 scales and 1 offsets"),
        (Quant("SCALE_OFFSET", (0.1,), (2**40,)), "quant: "),
        (Quant("BLOCK", (0.1,), (0,), block_size=(1,)), "one size per dimension"),
        (Quant("BLOCK", (0.1,), (0,), block_size=(1, 1)), "1 scale for 6 blocks"),
        (Quant("SCALE_OFFSET", (0.1, 0.2)), "2 scales for one tensor; expected 1"),
        (Quant("BW_SCALE_OFFSET", (0.1, 0.2), bits=4), "2 scales for one tensor; expected 1"),
        (Quant("SCALES"), "encoding: 'SCALES' is not one of SCALE_OFFSET, "),
    ],
)
def test_encodings_that_do_not_fit_c_are_rejected(quant: Quant, message: str) -> None:
    config = OpConfig("Relu", (TensorConfig("x", "uq8", (2, 3), quant=quant),))
    with pytest.raises(ConfigError, match=message):
        op_config(Arena(), config)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("u32", -1), ("u8", 256), ("i32", 1.5), ("f32", "a"), ("str", 3), ("f16", 1.0), ("sq4", 1)],
)
def test_scalars_that_do_not_fit_c_are_rejected(dtype: str, value: Any) -> None:
    config = OpConfig("Relu", (), (ParamConfig("p", dtype, value),))
    with pytest.raises(ConfigError, match=r"^params\.p: "):
        op_config(Arena(), config)


def test_a_sparse_tensor_has_version_2() -> None:
    """It is written and read back; a dense tensor next to it has version 1."""
    arena = Arena()
    sparse = TensorConfig("x", "f32", (2, 3, 4), sparse=Sparse(5, 2))
    op = op_config(arena, OpConfig("SparseToDense", (sparse,), (), (TensorConfig("y", "f32", (2, 3, 4)),)))
    x, y = op.u.v1.inputTensors[0], op.u.v1.outputTensors[0]
    assert (x.version, y.version) == (lib.QNN_TENSOR_VERSION_2, lib.QNN_TENSOR_VERSION_1)
    assert x.u.v2.isDynamicDimensions == NULL and not x.u.v2.isProduced
    read, _ = read_tensor(x)
    assert (read.shape, read.sparse) == ((2, 3, 4), Sparse(5, 2)) and read_tensor(y)[0].sparse is None
    x.u.v2.sparseParams.type = 7
    with pytest.raises(OpdbError, match="the sparse tensor 'x' has a layout that opdb does not know"):
        read_tensor(x)


def test_an_invalid_sparse_tensor_is_rejected() -> None:
    bad = TensorConfig("x", "f32", (2,), sparse=Sparse(1, 2))
    with pytest.raises(ConfigError, match=r"inputs\[0\].sparse.dimensions: of a tensor of rank 1"):
        op_config(Arena(), OpConfig("SparseToDense", (bad,)))
