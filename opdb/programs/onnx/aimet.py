"""AIMET's encodings files.

Versions 0.4 to 1.0 have real = (stored + offset) * scale, stored from 0; version 2 has ONNX's fields:
real = (stored - y_zero_point) * y_scale, stored as ``output_dtype``.  In LPBQ (from 1.0 on) the scale of a block is an integer
times that of its channel (AIMET 2.42, Encoding Format Specification).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from opdb.core.errors import OpdbError
from opdb.programs.onnx.steps import BITS, Array, Encoding

#: Bits of biases, for which QNN has its own steps.
WIDE = 32
#: The versions that opdb writes.
VERSIONS = ("1.0.0", "2.0.0")
#: The lists in files before version 2.
GROUPS = ("activation_encodings", "param_encodings")
IN_BLOCKS = (
    "QNN has none but integers times that of the channel; export LPBQ, or QDQ (to_onnx_qdq), which opdb reads"
)


def read(path: str) -> dict[str, Encoding]:
    """Encodings by tensor name, without floats and biases.  Raises OpdbError that names the file and the tensor."""
    try:
        entries = list(_entries(json.loads(Path(path).read_text())))
    except (ValueError, KeyError, TypeError) as error:
        raise OpdbError(f"{path}: not AIMET's encodings: {type(error).__name__}: {error}") from None
    found = {}
    for name, entry in entries:
        try:
            encoding = _encoding(entry)
            if encoding is not None and encoding.bits in BITS:
                encoding.check()
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise OpdbError(f"{path}: {name}: cannot be read: {type(error).__name__}: {error}") from None
        if encoding is not None:
            if encoding.bits not in BITS:
                raise OpdbError(
                    f"{path}: {name} has {encoding.bits} bits; QNN's activations and weights have 4, 8 or 16"
                )
            found[name] = encoding
    return found


def written(encodings: Mapping[str, Encoding], constants: Mapping[str, int], version: str) -> str:
    """The text of a file in one of VERSIONS.  ``constants``: weights with their number of dimensions; other tensors are activations."""
    if version == "1.0.0":
        groups: tuple[list[Any], list[Any]] = ([], [])
        for name, own in encodings.items():
            groups[name in constants].append({"name": name} | _as_version_1(own))
        held: dict[str, Any] = dict(zip(GROUPS, groups, strict=True)) | {
            "excluded_layers": [],
            "quantizer_args": {},
        }
    else:
        held = {
            "encodings": [
                {"name": name} | _as_version_2(own, constants.get(name, 0)) for name, own in encodings.items()
            ]
        }
    return json.dumps({"version": version} | held, indent=1) + "\n"


def _as_version_1(own: Encoding) -> dict[str, Any]:
    kind = "LPBQ" if own.steps is not None else "PER_CHANNEL" if own.axis is not None else "PER_TENSOR"
    said: dict[str, Any] = {"enc_type": kind, "dtype": "INT", "bw": own.bits, "is_sym": own.symmetric}
    zeros = np.broadcast_to(own.zeros, own.scales.shape)
    if own.steps is not None:  # bw and offset refer to the products of stored and block integers
        said |= {"bw": 2 * own.bits, "compressed_bw": own.bits, "block_size": own.block}
        said["per_block_int_scale"] = own.steps.ravel().tolist()
        zeros = np.full(own.scales.shape, 1 << 2 * own.bits - 1)
    return said | {"scale": _numbers(own.scales), "offset": (-zeros).tolist()}


def _as_version_2(own: Encoding, rank: int) -> dict[str, Any]:
    """``rank``: the number of dimensions of a weight, 0 for an activation."""
    signed = rank > 0 and own.symmetric
    said: dict[str, Any] = {"output_dtype": f"{'' if signed else 'u'}int{own.bits}"}
    if own.steps is not None and own.axis is not None:
        for field, rows in (
            ("per_block_int_scale", own.steps),
            ("per_channel_float_scale", np.array(_numbers(own.scales))[:, None]),
        ):
            rows = rows.T if own.axis == 1 else rows
            said[field] = rows.reshape(*rows.shape, *[1] * (rank - 2)).tolist()
        return said | {"axis": 1 - own.axis, "block_size": own.block}
    zeros = np.broadcast_to(own.zeros - (1 << own.bits - 1 if signed else 0), own.scales.shape).tolist()
    scales = _numbers(own.scales)
    if own.axis is None:
        return said | {"y_scale": scales[0], "y_zero_point": zeros[0]}
    return said | {"y_scale": scales, "y_zero_point": zeros, "axis": own.axis}


def _numbers(scales: Array) -> list[float]:
    """The shortest decimals for these float32 values."""
    return [float(str(s)) for s in scales.astype(np.float32)]


def _entries(held: Any) -> Iterator[tuple[str, Any]]:
    """Each tensor's name and encoding.

    Files up to 0.6.1 have two mappings from name to a list, with an entry per channel; 1.0 has two lists of named objects, 2 has one.
    """
    if not isinstance(held, Mapping):
        raise TypeError("the file holds no object")
    groups = [held["encodings"]] if "encodings" in held else [held[k] for k in GROUPS]
    for group in groups:
        if isinstance(group, Mapping):
            yield from group.items()
        else:
            yield from ((entry["name"], entry) for entry in group)


def _encoding(entry: Any) -> Encoding | None:
    """The encoding of an entry; None for a float tensor and for a bias."""
    if not isinstance(entry, Mapping):
        first = entry[0]
        bits, is_float = int(first["bitwidth"]), first.get("dtype", "int") == "float"
        return (
            None
            if is_float or bits == WIDE
            else _offset(bits, [e["scale"] for e in entry], [e["offset"] for e in entry])
        )
    if "output_dtype" in entry:
        return _version_2(entry)
    bits = int(entry["bw"])
    if entry["dtype"].lower() == "float" or bits == WIDE:
        return None
    if entry.get("enc_type") == "PER_BLOCK":
        raise ValueError(f"it has a scale for each block (PER_BLOCK): {IN_BLOCKS}")
    if np.any(entry.get("zero_point_shift", 0)):
        raise ValueError("it has a zero_point_shift, and QNN's zero points are whole numbers")
    if entry.get("enc_type") == "LPBQ":
        return _lpbq(entry)
    return _offset(bits, entry["scale"], entry["offset"])


def _offset(bits: int, scales: Any, offsets: Any) -> Encoding:
    return Encoding(bits, np.asarray(scales, np.float32).reshape(-1), -_whole(offsets))


def _lpbq(entry: Mapping[str, Any]) -> Encoding:
    """Reads LPBQ of version 1.0: a row of block integers per channel; ``bw`` and ``offset`` are for their products with stored integers."""
    if np.any(_whole(entry["offset"]) != -(1 << int(entry["bw"]) - 1)):
        raise ValueError("its offset is not the middle of its bw, and QNN's blocks have their zero there")
    return _in_blocks(int(entry["compressed_bw"]), entry["scale"], entry["per_block_int_scale"], entry)


def _in_blocks(
    bits: int, scales: Any, steps: Any, entry: Mapping[str, Any], axis: int | None = None
) -> Encoding:
    """``steps``: block integers ordered by channel, then by block."""
    channels, whole = np.asarray(scales, np.float32).reshape(-1), _whole(steps)
    if not channels.size or whole.size % channels.size:
        raise ValueError(f"it has {whole.size} integers of blocks for {channels.size} channels")
    zeros = np.full(channels.shape, 1 << bits - 1)
    rows = whole.reshape(channels.size, -1)
    return Encoding(bits, channels, zeros, axis, int(entry["block_size"]), rows)


def _version_2(entry: Mapping[str, Any]) -> Encoding | None:
    kind = re.fullmatch(r"(u?)int(\d+)", entry["output_dtype"])
    if kind is None or int(kind[2]) == WIDE:
        return None
    bits, zeros = int(kind[2]), _whole(entry.get("y_zero_point") or 0)
    if "per_block_int_scale" in entry or isinstance(entry.get("y_scale"), Mapping):
        if np.any(zeros != (1 << bits - 1 if kind[1] else 0)):
            raise ValueError("its y_zero_point is not the middle, and QNN's blocks have their zero there")
        return _version_2_blocks(bits, entry)
    if "block_size" in entry:
        raise ValueError(f"it has scales for blocks: {IN_BLOCKS}")
    scales, axis = np.asarray(entry["y_scale"], np.float32).reshape(-1), entry.get("axis")
    return Encoding(
        bits,
        scales,
        np.broadcast_to(zeros if kind[1] else zeros + (1 << bits - 1), scales.shape),
        None if axis is None else int(axis),
    )


def _version_2_blocks(bits: int, entry: Mapping[str, Any]) -> Encoding:
    """Reads block integers and scales of version 2.0, each a field of the entry, or of 2.1, in ``y_scale``."""
    held = entry.get("y_scale")
    spread = held if isinstance(held, Mapping) else None
    steps = np.asarray(spread["x"] if spread else entry["per_block_int_scale"])
    scales = spread["x_scale"] if spread else entry["per_channel_float_scale"]
    if spread and np.any(spread.get("x_zero_point", 0)):
        raise ValueError(f"its scales have zero points: {IN_BLOCKS}")
    rank = max(steps.ndim, 1)
    along = int(entry["axis"]) % rank
    if along > 1 or rank < 2:
        raise ValueError(
            f"its blocks are along dimension {along}, and QNN has them along one of the first two"
        )
    return _in_blocks(bits, scales, np.moveaxis(steps, 1 - along, 0), entry, 1 - along)


def _whole(numbers: Any) -> Array:
    found = np.asarray(numbers, np.float64).reshape(-1)
    if not np.array_equal(found, np.rint(found)):
        raise ValueError("a zero point, or an integer of a block, is no whole number")
    return found.astype(np.int64)
