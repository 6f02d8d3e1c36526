"""``torch.ops.opdb_onnx.node``: a node of an ONNX file that opdb does not express in PyTorch, as one operator.

It keeps the node's place in the program, so that the nodes around it are judged, and it carries all that a run on the
CPU needs: the node as a separate model, which ONNX Runtime computes, or ONNX's reference if that is not installed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from opdb.core.errors import OpdbError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

#: inputs: the tensors that the model takes, in its order; reason: why PyTorch cannot express it; made: data type and shape of
#: each result, as JSON.
_SCHEMA = "node(Tensor[] inputs, str model, str reason, str made) -> Tensor[]"


def call(
    inputs: Sequence[torch.Tensor],
    model: ModelProto,
    reason: str,
    made: Sequence[tuple[torch.dtype, Sequence[int]]],
) -> list[torch.Tensor]:
    """Calls the operator.  ``model`` takes ``inputs``; ``made`` has the data type and shape of each result."""
    written = json.dumps([[str(kind).removeprefix("torch."), list(shape)] for kind, shape in made])
    found: list[torch.Tensor] = torch.ops.opdb_onnx.node(
        list(inputs), base64.b64encode(model.SerializeToString()).decode(), reason, written
    )
    return found


def alone(model: str) -> NodeProto:
    """The node of a call, from its argument ``model``."""
    return read(model).graph.node[0]


def read(model: str) -> ModelProto:
    """The node of a call as a separate model, from its argument ``model``."""
    import onnx

    return onnx.ModelProto.FromString(base64.b64decode(model))


def _shapes(made: str) -> list[tuple[torch.dtype, list[int]]]:
    return [(getattr(torch, kind), shape) for kind, shape in json.loads(made)]


def zeros(inputs: Sequence[torch.Tensor], model: str, reason: str, made: str) -> list[torch.Tensor]:
    """Zeros in the shapes of the node's results, for a run that only looks at shapes."""
    return [torch.zeros(shape, dtype=kind) for kind, shape in _shapes(made)]


def _fake(inputs: Sequence[torch.Tensor], model: str, reason: str, made: str) -> list[torch.Tensor]:
    return [torch.empty(shape, dtype=kind) for kind, shape in _shapes(made)]


def _run(inputs: Sequence[torch.Tensor], model: str, reason: str, made: str) -> list[torch.Tensor]:
    """Raises OpdbError if nothing here can compute the node, or if a result has another shape or type than the program."""
    proto = read(model)
    node, given = proto.graph.node[0], [i.detach().cpu().numpy() for i in inputs]
    fed = {value.name: array for value, array in zip(proto.graph.input, given, strict=True)}
    name = f"{node.op_type}{f' {node.name!r}' if node.name else ''}"
    try:
        results = _computed(proto, fed)
    except Exception as error:  # whatever a runtime raises: an unknown operator, shapes that do not fit
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise OpdbError(f"{name} cannot be computed on this machine: {lines[0]}") from error
    found = [torch.from_numpy(r.copy()) for r in results]
    for value, (kind, shape) in zip(found, _shapes(made), strict=True):
        if value.dtype != kind or list(value.shape) != shape:
            raise OpdbError(
                f"{name} made {list(value.shape)} of {value.dtype}, and the program has {shape} of {kind}: its shape "
                "depends on the data"
            )
    return found


def _computed(model: ModelProto, fed: dict[str, Any]) -> list[Any]:
    try:
        import onnxruntime
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        return list(ReferenceEvaluator(model).run(None, fed))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, fed))


_library = torch.library.Library("opdb_onnx", "DEF")
#: The tag keeps a node with known inputs, or without inputs, from being constant-folded.
_library.define(_SCHEMA, tags=(torch.Tag.nondeterministic_seeded,))
_library.impl("node", _run, "CompositeExplicitAutograd")
torch.library.register_fake("opdb_onnx::node", _fake, lib=_library)
#: The operator.
NODE = torch.ops.opdb_onnx.node.default
