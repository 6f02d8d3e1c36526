"""The output arrays of a graph: for display, as statistics, and in files."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opdb.core.files import write_atomically
from opdb.core.graph import GraphTensor
from opdb.runtime.qnn.real_numbers import to_real

Array = np.ndarray[Any, Any]


def shown(
    outputs: Mapping[str, Array], tensors: Sequence[GraphTensor], real: bool, scalars: Container[str]
) -> dict[str, Array]:
    """The outputs to print and write: stored values, or real numbers; ``scalars`` without their dimension."""
    if not outputs:
        return {}
    values = {t.name: to_real(t, outputs[t.name]) if real else outputs[t.name] for t in tensors}
    return {name: v[..., 0] if name in scalars and v.shape[-1:] == (1,) else v for name, v in values.items()}


def write(path: Path, values: Mapping[str, Array]) -> None:
    """Writes arrays to ``path``: a .npz archive, or else a folder with a .npy file for each.  Raises OpdbError."""
    if path.suffix == ".npz":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:  # numpy.savez takes no array called "file"
            for name, value in values.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, value, allow_pickle=False)
        write_atomically(path, buffer.getvalue())
        return
    for name, value in values.items():
        buffer = io.BytesIO()
        np.save(buffer, value)
        write_atomically(path / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}.npy", buffer.getvalue())


def figures(value: Array) -> dict[str, Any]:
    """min, max and mean of the finite values, and the number of values that are not finite."""
    numbers = value.astype(np.float64).ravel()
    finite = numbers[np.isfinite(numbers)]
    some = finite.size > 0
    return {
        "min": float(finite.min()) if some else None,
        "max": float(finite.max()) if some else None,
        "mean": float(finite.mean()) if some else None,
        "not_finite": int(numbers.size - finite.size),
    }
