"""The inputs of an ONNX file as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opdb.core.errors import OpdbError

if TYPE_CHECKING:
    import torch


def parsed(given: Sequence[str]) -> dict[str, int]:
    """Sizes by name from `--dim NAME=SIZE` options.  Raises OpdbError for another form, and for a name with two sizes."""
    found: dict[str, int] = {}
    for text in given:
        name, equals, size = text.rpartition("=")
        if not equals or not name or not size.isascii() or not size.isdigit() or int(size) < 1:
            raise OpdbError(f"--dim {text}: give NAME=SIZE with a size of 1 or more, e.g. --dim batch=1")
        if found.setdefault(name, int(size)) != int(size):
            raise OpdbError(f"--dim {text}: {name} is {found[name]} already")
    return found


def inputs_of(path: str, values: Sequence[Any], dims: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """A tensor for each input of a file, by name: random for floats, 0 for integers.

    ``values``: onnx.ValueInfoProto.  ``dims``: the size of a dimension, by its name in the file, or as ``INPUT:AXIS`` with
    the axis from 0.  Raises OpdbError for an input that is not a tensor of numbers or has an open dimension, and for a size
    that matches no dimension.
    """
    used: set[str] = set()
    found = {value.name: _input(path, value, dims, used) for value in values}
    if unknown := sorted(set(dims) - used):
        names = {d.dim_param for v in values for d in v.type.tensor_type.shape.dim if d.dim_param}
        known = f"it has {', '.join(sorted(names))}" if names else "all dimensions of its inputs have a size"
        raise OpdbError(f"--dim {unknown[0]}={dims[unknown[0]]}: {path} has no such dimension; {known}")
    return found


def _input(path: str, value: Any, dims: Mapping[str, int], used: set[str]) -> torch.Tensor:
    import onnx
    import torch

    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        what = str(kind).removesuffix("_type").replace("_", " ")
        article = "an" if what.startswith("o") else "a"
        raise OpdbError(
            f"{path}: the input {value.name} is {article} {what}, and QNN has tensors only; split off what makes tensors of it, "
            "e.g. with onnx.utils.extract_model"
        )
    tensor = value.type.tensor_type
    if tensor.elem_type in (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED):
        what = "holds strings" if tensor.elem_type else "has no data type"
        raise OpdbError(
            f"{path}: the input {value.name} {what}, and QNN has tensors of numbers only; split off what makes numbers of it, "
            "e.g. with onnx.utils.extract_model"
        )
    array = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    dtype = getattr(torch, array.name, None)
    if dtype is None:
        raise OpdbError(
            f"{path}: the input {value.name} holds {array.name}, which PyTorch cannot compute with"
        )
    shape = _shape(path, value, dims, used)
    if not dtype.is_floating_point:
        return torch.zeros(shape, dtype=dtype)
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def _shape(path: str, value: Any, dims: Mapping[str, int], used: set[str]) -> list[int]:
    tensor, shape, open_ = value.type.tensor_type, [], []
    for axis, d in enumerate(tensor.shape.dim):
        place = f"{value.name}:{axis}"
        chosen = [n for n in (place, d.dim_param) if n in dims]
        used.update(chosen)
        if d.HasField("dim_value") and d.dim_value > 0:
            shape.append(d.dim_value)
            if chosen and dims[chosen[0]] != d.dim_value:
                raise OpdbError(f"--dim {chosen[0]}={dims[chosen[0]]}: it is {d.dim_value} in {path}")
        elif chosen:
            shape.append(dims[chosen[0]])
        else:
            shape.append(0)
            open_.append(d.dim_param or place)
    if not tensor.HasField("shape"):
        raise OpdbError(
            f"{path}: the input {value.name} has no shape; give it one, e.g. with onnx.helper.make_tensor_value_info"
        )
    if open_:
        named = [d.dim_value or d.dim_param or "?" for d in tensor.shape.dim]
        options = " ".join(f"--dim {name}=1" for name in dict.fromkeys(open_))
        raise OpdbError(
            f"{path}: the input {value.name} has the shape [{', '.join(map(str, named))}]; fix all dimensions, e.g. {options}"
        )
    return shape
