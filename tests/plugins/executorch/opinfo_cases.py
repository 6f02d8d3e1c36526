"""The part of the tests of opdb.plugins.executorch.backend_opinfo that runs in a child process."""

from __future__ import annotations

import os
from typing import Any

import torch


def everything(url: str) -> dict[str, Any]:
    os.environ["OPDB_URL"] = url
    from executorch.backends.qualcomm.quantizer import backend_opinfo_adapter as adapter
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset

    from opdb.core.errors import OpdbError
    from opdb.plugins.executorch import backend_opinfo

    found: dict[str, Any] = {
        "before": adapter.get_backend_opinfo("htp", QcomChipset.SM8650).get_all_supported_ops()
    }
    try:
        os.environ["OPDB_URL"] = url + ".none"
        backend_opinfo.install()
    except OpdbError as error:
        found["missing"] = str(error)
    os.environ["OPDB_URL"] = url
    backend_opinfo.install()
    try:
        backend_opinfo.install()
    except OpdbError as error:
        found["twice"] = str(error)
    info = adapter.get_backend_opinfo("htp", QcomChipset.SM8650)
    found["type"] = type(info) is backend_opinfo.BackendOpInfo
    found["ops"] = info.get_all_supported_ops()
    found["constraints"] = {
        op: _plain(adapter.constraints_loader(info, op)) for op in (*found["ops"], "Nothing")
    }
    found["layer_norm"] = {name: _layer_norm(info, *args) for name, args in LAYER_NORMS.items()}
    found["quantizer"] = _quantizer()
    backend_opinfo.uninstall()
    found["after"] = adapter.get_backend_opinfo("htp", QcomChipset.SM8650).get_all_supported_ops()
    return found


def _plain(variants: list[Any]) -> list[Any]:
    """Normalized constraints as values that a test can read."""

    def port(p: Any) -> dict[str, Any]:
        told = [
            (sorted(e.name for e in c.encoding_types), c.is_symmetric, c.axis, c.is_math_invariant)
            for c in p.constraints
        ]
        return {"dtype": p.dtype.name, "onward": p.applicable_from_current_dtype_onward, "told": told}

    return [
        {"inputs": [port(p) for p in v.inputs], "outputs": [port(p) for p in v.outputs]} for v in variants
    ]


#: bits of the weight, True if the weight and the output are symmetric
LAYER_NORMS = {"right": (16, True, False), "crooked": (16, False, False), "eight": (8, False, False)}


def _layer_norm(info: Any, bits: int, weight_symmetric: bool, output_symmetric: bool) -> bool:
    """The result of ExecuTorch's check for a LayerNorm node with these annotations."""
    from executorch.backends.qualcomm.quantizer import backend_opinfo_adapter as adapter
    from executorch.backends.qualcomm.quantizer.validators import validate_against_backend_constraints
    from torchao.quantization.pt2e import MinMaxObserver
    from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec
    from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

    def spec(width: int, symmetric: bool) -> Any:
        scheme = torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine
        dtype = torch.uint8 if width == 8 else torch.int32
        return QuantizationSpec(dtype, MinMaxObserver, 0, 2**width - 1, scheme)

    module = torch.nn.LayerNorm(4)
    program = torch.export.export(module, (torch.randn(2, 4),)).module()
    (node,) = [n for n in program.graph.nodes if n.op == "call_function" and "layer_norm" in str(n.target)]
    x, weight = node.args[0], node.args[2]
    node.args = (x, weight)  # as QNN orders them; the check takes the tensors of the arguments in order
    node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(
        {x: spec(16, False), weight: spec(bits, weight_symmetric)},
        spec(16, output_symmetric),
        _annotated=True,
    )
    return bool(validate_against_backend_constraints(node, adapter.constraints_loader(info, "LayerNorm")))


def _quantizer() -> dict[str, Any]:
    """A model through QnnQuantizer in strict mode, which queries every op it annotates."""
    from executorch.backends.qualcomm.quantizer.quantizer import QnnQuantizer, QuantDtype
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    from opdb.plugins.executorch import backend_opinfo

    asked: list[str] = []
    plain = backend_opinfo.BackendOpInfo.get_op_info

    def get_op_info(self: Any, name: str) -> Any:
        asked.append(name)
        return plain(self, name)

    backend_opinfo.BackendOpInfo.get_op_info = get_op_info  # type: ignore[method-assign]
    module = torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.ReLU())
    inputs = (torch.randn(2, 4),)
    quantizer = QnnQuantizer(soc_model=QcomChipset.SM8650)
    quantizer.set_default_quant_config(QuantDtype.use_8a8w)
    prepared = prepare_pt2e(torch.export.export(module, inputs).module(), quantizer)
    backend_opinfo.BackendOpInfo.get_op_info = plain  # type: ignore[method-assign]
    return {"asked": asked, "same": bool(torch.allclose(prepared(*inputs), module(*inputs)))}
