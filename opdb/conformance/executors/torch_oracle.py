"""The executor ``torch``: PyTorch in float64, the judge of all numbers.

Each op is written by hand in terms of PyTorch's own functions, from the documents' words, and shares no
formula with the kernels.  Where the documents leave the result open there is no oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opdb.conformance import data
from opdb.conformance.cases import Case
from opdb.conformance.executors.base import Answer, Array
from opdb.dtypes import BY_SHORT
from opdb.errors import MissingExtra
from opdb.op_config import OpConfig, TensorConfig
from opdb.store.records import ExecutorRecord

try:
    import torch
    import torch.nn.functional as F  # noqa: N812  PyTorch's custom
except ImportError:
    raise MissingExtra("the package torch that the executor 'torch' needs", "torch") from None

T = Any  # torch.Tensor
Inputs = Sequence[Any]  # torch tensors; None for an omitted input
Params = Mapping[str, Any]


class NoOracle(Exception):
    """The documents do not say what comes out; the reason."""


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


def _real(config: OpConfig, tensor: T) -> None:
    if not tensor.is_floating_point():
        raise NoOracle(f"the documents do not say how {config.op} rounds whole numbers")


# -- element by element


def convert(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """The same real values in another type or encoding."""
    (source,), (made,) = config.inputs, config.outputs
    if source.dtype != made.dtype and not (_holds_reals(source) and _holds_reals(made)):
        raise NoOracle(
            "the documents do not say how whole numbers and truth values become real ones, or back"
        )
    return [inputs[0]]


def _holds_reals(tensor: TensorConfig) -> bool:
    kind = BY_SHORT[tensor.dtype]
    return kind.quantized or kind.qnn.startswith(("FLOAT", "BFLOAT"))


def relu(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    return [F.relu(inputs[0])]


#: ElementWiseNeuron.operation
ELU, GELU, HARD_SIGMOID, HARD_SWISH, RELU, RELU_MIN_MAX, SIGMOID, SOFTPLUS, TANH = range(9)


def element_wise_neuron(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    x, operation = inputs[0], params["operation"]
    if operation == RELU:
        return [F.relu(x)]
    if operation == RELU_MIN_MAX:
        return [torch.minimum(torch.maximum(x, _like(x, params["min_value"])), _like(x, params["max_value"]))]
    _real(config, x)
    functions: dict[int, Callable[[], T]] = {
        ELU: lambda: F.elu(x, params.get("alpha", 1.0)),
        GELU: lambda: F.gelu(x),
        HARD_SIGMOID: lambda: _hard_sigmoid(x, params.get("alpha", 0.2), params.get("beta", 0.5)),
        HARD_SWISH: lambda: F.hardswish(x),
        SIGMOID: lambda: torch.sigmoid(x),
        SOFTPLUS: lambda: _softplus(x, params.get("beta", 1.0), params.get("threshold", -1.0)),
        TANH: lambda: torch.tanh(x),
    }
    return [functions[operation]()]


def _like(x: T, value: float) -> T:
    return torch.tensor(value, dtype=x.dtype)


def _hard_sigmoid(x: T, alpha: float, beta: float) -> T:
    """F.hardsigmoid has alpha 1/6 and beta 1/2: its argument is moved so that others come out."""
    return F.hardsigmoid(6.0 * (alpha * x + beta) - 3.0)


def _softplus(x: T, beta: float, threshold: float) -> T:
    """A negative threshold (the default) never gives way to the straight line."""
    return F.softplus(x, beta, threshold if threshold >= 0 else float("inf"))


#: ElementWiseBinary.operation -> PyTorch's function.
NUMERICAL: dict[int, Callable[[T, T], T]] = {
    0: torch.add,
    2: torch.divide,
    4: torch.floor_divide,
    5: torch.fmod,
    10: torch.maximum,
    11: torch.minimum,
    12: torch.remainder,
    13: torch.multiply,
    16: torch.pow,
    17: lambda a, b: torch.square(torch.subtract(a, b)),
    18: torch.subtract,
}
COMPARISONS: dict[int, Callable[[T, T], T]] = {
    3: torch.eq, 6: torch.gt, 7: torch.ge, 8: torch.lt, 9: torch.le, 14: torch.ne,
}  # fmt: skip
LOGICAL: dict[int, Callable[[T, T], T]] = {1: torch.logical_and, 15: torch.logical_or, 19: torch.logical_xor}
DIVIDE, POWER = 2, 16


def element_wise_binary(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    a, b, operation = inputs[0], inputs[1], params["operation"]
    out = config.outputs[0].dtype
    if operation in NUMERICAL:
        if a.dtype == torch.bool or b.dtype == torch.bool:
            raise NoOracle("the documents do not say how truth values are computed with")
        if operation in (DIVIDE, POWER):
            _real(config, a)
            _real(config, b)
        return [NUMERICAL[operation](a, b)]
    if out != "bool8":
        raise NoOracle(f"the documents do not say how a truth value is written in {out}")
    if operation in LOGICAL and (a.dtype != torch.bool or b.dtype != torch.bool):
        raise NoOracle("the documents do not say which numbers are true")
    return [(COMPARISONS | LOGICAL)[operation](a, b)]


def element_wise_add(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    return [torch.add(inputs[0], inputs[1])]


def dequantize_add(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    return [torch.add(inputs[1], inputs[0].double(), alpha=params["scale"])]


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


#: op -> its oracle.
OPS: dict[str, Callable[[OpConfig, Inputs, Params], list[T]]] = {
    "Concat": concat,
    "Convert": convert,
    "Conv2d": conv2d,
    "DequantizeAdd": dequantize_add,
    "ElementWiseAdd": element_wise_add,
    "ElementWiseBinary": element_wise_binary,
    "ElementWiseNeuron": element_wise_neuron,
    "FullyConnected": fully_connected,
    "LayerNorm": layer_norm,
    "MatMul": mat_mul,
    "ReduceMean": reduce_mean,
    "Relu": relu,
    "Reshape": reshape,
    "Softmax": softmax,
    "Split": split,
    "Transpose": transpose,
}
