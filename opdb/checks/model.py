"""Checks which nodes of a model a target takes: ``opdb.check``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Coverage
from opdb.checks.file_names import with_names
from opdb.checks.verdicts import check_program
from opdb.programs.load import has_names
from opdb.programs.model import Model, program_of


def check(
    model: Model,
    target: Target,
    inputs: tuple[Any, ...] | None = None,
    *,
    dtype: str = "f32",
    decompose: bool = False,
    dims: Mapping[str, int] | None = None,
    encodings: str | None = None,
) -> Coverage:
    """The verdict of ``target`` on every node of a model, with reasons; `opdb check`.

    ``model``: a torch.nn.Module with its example ``inputs``, a program of torch.export, a .pt2, .onnx or .tflite file, or
    "module:callable".  ``dtype``: what float32 tensors become, "f32" or "f16".  ``decompose``: break the program down to core
    ATen if a node has no form.  ``dims``: sizes that an ONNX file leaves open; ``encodings``: a file with an ONNX file's encodings.

    Raises OpdbError for a model that cannot be read, an unknown chip, and a chip that is older than the backend.

    >>> import opdb, torch
    >>> found = opdb.check(torch.nn.Softmax(-1), opdb.Target("HTP", "SM8650"), (torch.randn(2, 8),))
    >>> found.complete
    True
    >>> [(row.target, row.verdict) for row in found.rows]
    [('aten.softmax.int', 'supported')]
    """
    program, file = program_of(model, inputs, dims=dims, encodings=encodings)
    coverage = check_program(program, target, float_dtype=dtype, decompose=decompose)
    return with_names(coverage, file, encodings) if file is not None and has_names(file) else coverage
