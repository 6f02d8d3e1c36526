"""The executor ``torch``: PyTorch in float64, the judge of all numbers.

Each op is written by hand in terms of PyTorch's own functions, from the documents' words, and shares no
formula with the kernels.  Where the documents leave the result open there is no oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opdb.conformance import data
from opdb.conformance.cases import Case
from opdb.conformance.executors.base import Answer, Array, NoOracle
from opdb.errors import MissingExtra
from opdb.op_config import OpConfig
from opdb.store.records import ExecutorRecord

try:
    import torch
    import torch.nn.functional as F  # noqa: N812  PyTorch's custom

    from opdb.conformance.executors.oracle_elements import convert, dequantize_add, of_elements
except ImportError:
    raise MissingExtra("the package torch that the executor 'torch' needs", "torch") from None

T = Any  # torch.Tensor
Inputs = Sequence[Any]  # torch tensors; None for an omitted input
Params = Mapping[str, Any]


class TorchExecutor:
    """Computes what a case's outputs mean: float64, int64 or bool."""

    name, backend, soc, half = "torch", "", "", False

    def record(self) -> ExecutorRecord:
        return ExecutorRecord(self.name, str(torch.__version__))

    def takes(self, case: Case) -> bool:
        return case.runs

    def answer(self, case: Case, inputs: Sequence[Array | None]) -> Answer:
        try:
            return Answer("ok", tuple(compute(case.config, inputs)))
        except NoOracle as reason:
            return Answer("unsupported", text=str(reason), computed=False)

    def close(self) -> None:
        """Nothing is held."""


def compute(config: OpConfig, inputs: Sequence[Array | None]) -> list[Array]:
    """The real values of each output of an accepted config.  Raises NoOracle."""
    op = OPS.get(config.op)
    if op is None:
        raise NoOracle(f"no oracle is written for {config.op}")
    given = [
        None if a is None else torch.from_numpy(data.real(a, t))
        for a, t in zip(inputs, config.inputs, strict=True)
    ]
    params = {p.name: _value(p.value, p.shape) for p in config.params}
    real = [t.is_floating_point() for t in given if t is not None]
    if any(real) and not all(real) and config.op not in ("Reshape", "DequantizeAdd"):
        raise NoOracle(
            f"the documents do not say how {config.op} computes with real and whole numbers together"
        )
    outputs = op(config, given, params)
    return [o.contiguous().numpy() for o in outputs]


def _value(value: Any, shape: tuple[int, ...] | None) -> Any:
    if shape is None or len(shape) == 1:
        return list(value) if shape else value
    return [list(value[r * shape[1] : (r + 1) * shape[1]]) for r in range(shape[0])]


def _optional(inputs: Inputs, i: int) -> Any:
    return inputs[i] if i < len(inputs) else None


def _same_type(config: OpConfig) -> None:
    """Data is moved: what becomes of it in another type, the documents do not say."""
    kinds = {t.dtype for t in (*config.inputs, *config.outputs) if t.type != "NULL" and t.name != "shape"}
    if len(kinds) > 1:
        raise NoOracle(
            f"the documents do not say how {config.op} converts between {', '.join(sorted(kinds))}"
        )


# -- over axes


def layer_norm(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """The normalised axes are brought to the end, in the order of the parameter, and back."""
    x, axes = inputs[0], params["axes"]
    order = [d for d in range(x.ndim) if d not in axes] + list(axes)
    moved = x.permute(order)
    shape = [x.shape[a] for a in axes]
    y = F.layer_norm(moved, shape, _optional(inputs, 1), _optional(inputs, 2), params.get("epsilon", 0.001))
    return [y.permute([order.index(d) for d in range(x.ndim)])]


def softmax(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    x = inputs[0]
    return [torch.softmax(x * params.get("beta", 1.0), params.get("axis", x.ndim - 1))]


def reduce_mean(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    y = torch.mean(inputs[0], dim=params["axes"], keepdim=params.get("keep_dims", False))
    return [y.reshape(config.outputs[0].shape)]


# -- products


def _bias(config: OpConfig, inputs: Inputs) -> Any:
    """The bias or None.  Beside weights with scales along an axis HTP's document gives it the scale 0."""
    weight = config.inputs[1].quant
    if _optional(inputs, 2) is not None and weight is not None and weight.axis is not None:
        raise NoOracle("the documents do not say what a bias means beside weights with scales along an axis")
    return _optional(inputs, 2)


def fully_connected(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    x, weight = inputs[0], inputs[1]
    y = F.linear(x.reshape(-1, weight.shape[1]), weight, _bias(config, inputs))
    return [y.reshape(config.outputs[0].shape)]


def mat_mul(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    a = inputs[0].mT if params.get("transpose_in0", False) else inputs[0]
    b = inputs[1].mT if params.get("transpose_in1", False) else inputs[1]
    y, bias = torch.matmul(a, b), _bias(config, inputs)
    return [y if bias is None else y + bias]


def conv2d(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """NHWC and HWIO become PyTorch's NCHW and OIHW."""
    (top, bottom), (left, right) = params["pad_amount"]
    x = F.pad(inputs[0].permute(0, 3, 1, 2), (left, right, top, bottom))
    y = F.conv2d(
        x,
        inputs[1].permute(3, 2, 0, 1),
        _bias(config, inputs),
        stride=params["stride"],
        dilation=params.get("dilation", [1, 1]),
        groups=params.get("group", 1),
    )
    return [y.permute(0, 2, 3, 1)]


# -- data is moved


def concat(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    _same_type(config)
    return [torch.cat(list(inputs), dim=params.get("axis", inputs[0].ndim - 1))]


def reshape(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    _same_type(config)
    return [torch.reshape(inputs[0], config.outputs[0].shape)]


def transpose(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    _same_type(config)
    return [torch.permute(inputs[0], params["perm"])]


def split(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    _same_type(config)
    return list(torch.tensor_split(inputs[0], params["split_index"], dim=params["axis"]))


Oracle = Callable[[OpConfig, Inputs, Params], list[T]]
#: op -> its oracle.
OPS: dict[str, Oracle] = dict.fromkeys((*data.FUNCTIONS, *data.OPERATIONS), of_elements) | {
    "Convert": convert,
    "DequantizeAdd": dequantize_add,
    "Concat": concat,
    "Conv2d": conv2d,
    "FullyConnected": fully_connected,
    "LayerNorm": layer_norm,
    "MatMul": mat_mul,
    "ReduceMean": reduce_mean,
    "Reshape": reshape,
    "Softmax": softmax,
    "Split": split,
    "Transpose": transpose,
}
