"""Lowers a model in the command line's notation to its graph, with the names of the model's file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opdb.execute.compile.model import graph_name, lowered
from opdb.execute.compile.model_io import Ends

if TYPE_CHECKING:
    from collections.abc import Collection

    from torch.export import ExportedProgram

    from opdb.catalog.targets.target import Target
    from opdb.checks.coverage import Coverage
    from opdb.core.graph import QnnGraph


@dataclass(frozen=True)
class Lowering:
    """Options for lowering a model: the graph's name (None: the model's), and the options of opdb.execute.compile.model.lowered.

    ``encodings``: the file with the encodings by which the program was quantized when it was read.
    """

    name: str | None
    dtype: str
    decompose: bool
    without: Collection[str]
    io_layout: str
    to_quantize: bool = False
    encodings: str | None = None


def lowered_model(
    program: ExportedProgram, model: str, target: Target, how: Lowering
) -> tuple[Coverage, QnnGraph | None]:
    """The verdict on each node of the program of ``model``, and its graph if every node is supported."""
    from opdb.checks.file_names import with_names
    from opdb.programs.load import has_names
    from opdb.programs.onnx.files import ends

    named = has_names(model)
    coverage, graph = lowered(
        program,
        target,
        how.name or graph_name(model),
        float_dtype=how.dtype,
        decompose=how.decompose,
        without=how.without,
        io_layout=how.io_layout,
        to_quantize=how.to_quantize,
        ends=Ends(*ends(model)) if named else None,
    )
    return with_names(coverage, model, how.encodings) if named else coverage, graph
