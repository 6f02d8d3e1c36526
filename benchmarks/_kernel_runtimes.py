"""The runtimes that benchmarks/kernels.py times next to the C kernels: a case as a call that computes it once.

Each takes a case and returns a callable, or None if it has no counterpart or refuses; anything that must be built, loaded
or compiled is ready beforehand.  QNN CPU gets the op itself; the others compute the PyTorch function, images channels first.
"""

from __future__ import annotations

import atexit
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from _kernel_cases import Array, Case

from opdb.core.errors import OpdbError
from opdb.core.graph import single

Call = Callable[[], Any]


def eager(case: Case) -> Call:
    """PyTorch in the memory format of the case: images channels last."""

    def call() -> Any:
        return case.function(*case.tensors)

    return call


class QnnCpu:
    """Runs libQnnCpu through opdb's binding: a finalized graph of one op, with arrays bound."""

    def __init__(self) -> None:
        from opdb.runtime.qnn.backend import Backend

        self.backend = Backend.open("CPU", log_level="error").__enter__()
        self.graphs: list[Any] = []
        atexit.register(self.close)

    def close(self) -> None:
        for graph in self.graphs:
            graph.close()
        self.backend.__exit__(None, None, None)

    def __call__(self, case: Case) -> Call | None:
        try:
            graph = self.backend.prepare(single(case.config, case.inputs))
        except OpdbError:
            return None
        self.graphs.append(graph)
        fed = case.inputs[: len(case.inputs) - case.constants]
        run: Call = graph.bind({f"{i}": a for i, a in enumerate(fed)}).run
        return run


def whole(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def onnx_node(case: Case) -> tuple[str, Mapping[str, Any], tuple[Array | None, ...]] | None:
    """The ONNX op, its attributes, and its inputs after the case's own tensors."""
    x, rows = case.tensors[0], whole(1)
    same = ("Abs", "Add", "Exp", "Gelu", "LogSoftmax", "MatMul", "Relu", "Sigmoid", "Softmax", "Tanh")
    short = case.op.removeprefix("ElementWise")
    if short in same:
        return short, {}, ()
    if case.op.startswith("Reduce"):
        axes = rows if case.results[0][0] == (x.shape[0],) and case.params[0].value == (1,) else whole(0)
        return case.op, {"keepdims": 0}, (axes,)
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    twice = (None, np.array([1, 1, 2, 2], np.float32))
    return {
        "Argmax": ("ArgMax", {"axis": 1, "keepdims": 0}, ()),
        "Concat": ("Concat", {"axis": 1}, ()),
        "Conv2d": ("Conv", {"pads": [1] * 4}, ()),
        "CumulativeSum": ("CumSum", {}, (np.array(1, np.int64),)),
        "DepthToSpace": ("DepthToSpace", {"blocksize": 2, "mode": "CRD"}, ()),
        "DepthWiseConv2d": ("Conv", {"pads": [1] * 4, "group": x.shape[1]}, ()),
        "ElementWiseDivide": ("Div", {}, ()),
        "ElementWiseMaximum": ("Max", {}, ()),
        "ElementWiseMultiply": ("Mul", {}, ()),
        "ElementWiseSubtract": ("Sub", {}, ()),
        "FullyConnected": ("Gemm", {"transB": 1}, ()),
        "Gather": ("Gather", {"axis": 0}, ()),
        "InstanceNorm": ("InstanceNormalization", {}, (case.inputs[-1],)),
        "L2Norm": ("LpNormalization", {"axis": 1, "p": 2}, ()),
        "LayerNorm": ("LayerNormalization", {"axis": 1}, (case.inputs[-1],)),
        "Pad": ("Pad", {}, (whole(0, 0, 1, 1, 0, 0, 1, 1),)),
        "PoolAvg2d": ("AveragePool", window, ()),
        "PoolMax2d": ("MaxPool", window, ()),
        "ResizeBilinear": ("Resize", {"mode": "linear"}, twice),
        "ResizeNearestNeighbor": (
            "Resize",
            {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
            twice,
        ),
        "RmsNorm": ("RMSNormalization", {"axis": 1}, ()),
        "StridedSlice": ("Slice", {}, (whole(0, 0), whole(*x.shape), whole(0, 1), whole(2, 2))),
        "Tile": ("Tile", {}, (whole(2, 1),)),
        "TopK": ("TopK", {"axis": 1}, (whole(8),)),
        "Transpose": ("Transpose", {"perm": [0, 3, 1, 2]}, ()),
    }.get(case.op)


def onnxruntime(case: Case) -> Call | None:
    """ONNX Runtime's CPU provider with one thread, inputs and outputs bound; weights are initializers."""
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper

    found = onnx_node(case)
    if found is None:
        return None
    kind, attributes, more = found
    given = (
        list(case.inputs[:1]) if case.op == "Transpose" else [t.contiguous().numpy() for t in case.tensors]
    )
    arrays: list[Array | None] = [*given, *more]
    fed = len(given) - (case.constants > 0) * (len(given) - 1)
    names = ["" if a is None else f"x{i}" for i, a in enumerate(arrays)]
    types = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int32): TensorProto.INT32}
    outputs = [f"y{i}" for i in range(len(case.results))]
    graph = helper.make_graph(
        [helper.make_node(kind, names, outputs, **attributes)],
        case.op,
        [helper.make_tensor_value_info(names[i], types[a.dtype], a.shape) for i, a in enumerate(given[:fed])],
        [helper.make_value_info(n, helper.make_tensor_type_proto(0, None)) for n in outputs],
        [
            numpy_helper.from_array(a, n)
            for n, a in list(zip(names, arrays, strict=True))[fed:]
            if a is not None
        ],
    )
    for output, shown in zip(graph.output, (np.float32, np.int64), strict=False):
        whole_result = case.op == "Argmax" or shown is np.int64
        output.type.tensor_type.elem_type = TensorProto.INT64 if whole_result else TensorProto.FLOAT
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # its own classes, without a common one
        return None
    binding = session.io_binding()
    for name, array in zip(names[:fed], given, strict=False):
        binding.bind_cpu_input(name, array)
    for name in outputs:
        binding.bind_output(name, "cpu")

    def call() -> None:
        session.run_with_iobinding(binding)

    return call


class Eager(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Any) -> Any:
        return self.function(*tensors)


def executorch(case: Case) -> Call | None:
    """ExecuTorch's portable kernels without a delegate: a .pte that is loaded once and whose method is run."""
    from executorch.exir import to_edge
    from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer

    tensors = tuple(t.contiguous() for t in case.tensors)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = to_edge(torch.export.export(Eager(case.function), tensors)).to_executorch()
            buffer = program.buffer
            module = _load_for_executorch_from_buffer(buffer)
            module.run_method("forward", tensors)
    except Exception:  # lowering raises many kinds; an operator without a kernel is a RuntimeError
        return None

    def call(_held: bytes = buffer) -> Any:  # the module reads the program where it is
        return module.run_method("forward", tensors)

    return call


#: Value of --against -> maker of the function that turns a case into a call.
RUNTIMES: dict[str, Callable[[], Callable[[Case], Call | None]]] = {
    "torch": lambda: eager,
    "qnn-cpu": QnnCpu,
    "onnxruntime": lambda: onnxruntime,
    "executorch": lambda: executorch,
}
