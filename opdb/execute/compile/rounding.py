"""Rounds the weights of an ONNX file with AIMET's AdaRound, which learns from samples whether to round each number up or down.

The new file has floats that lie on the steps, which opdb.lower.quantize.weights stores exactly.  AIMET reads only ONNX files,
so this happens before the file becomes a graph.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opdb.core.errors import MissingExtra, OpdbError
from opdb.core.names import counted
from opdb.execute.compile.sources import sources_of
from opdb.lower.quantize import Recipe
from opdb.lower.quantize.recipe_types import asked

if TYPE_CHECKING:
    from opdb.checks.coverage import Row
    from opdb.core.graph import QnnGraph
    from opdb.execute.compile.calibration import Sample

Array = np.ndarray[Any, Any]
#: Optimizer steps per weight (docs/results/calibration.md).
ITERATIONS = 2000
#: AIMET's description of where HTP quantizes.
CONFIGURATION = "htp_v73"
#: Operators whose weights AdaRound rounds.
OPERATORS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
#: The line of a node of an ONNX file: file, number from 1, operator.
_NUMBER = re.compile(r"[^:]*:(\d+): ")


def check(recipe: Recipe, model: str, io_layout: str) -> bool:
    """True if the weights of ``model`` must be rounded.  Raises OpdbError if that is impossible, MissingExtra without AIMET."""
    if recipe.weights is None or recipe.weights.rounding == "nearest":
        return False
    where = f"the recipe {recipe.name}: rounding: adaround"
    if not model.endswith(".onnx"):
        raise OpdbError(
            f"{where} is for ONNX files, not for {model}; export the module with torch.onnx.export, or give rounding: nearest"
        )
    if io_layout != "keep":
        raise OpdbError(f"{where} takes samples in the file's layout; leave --io-layout {io_layout} out")
    _aimet()
    return True


def rounded(
    path: str,
    samples: Sequence[Sample],
    recipe: Recipe,
    graph: QnnGraph,
    rows: Sequence[Row],
    folder: Path,
    iterations: int = ITERATIONS,
) -> tuple[str, str]:
    """Writes a copy of the file with rounded weights to ``folder``; returns its path, and a line for the report.

    ``graph``, ``rows``: the graph and coverage of the file; nodes that a rule gives floats or other weights keep theirs.  Raises
    OpdbError if AIMET fails, and if it rounds nothing.
    """
    import onnx

    model = onnx.load(path)
    assert recipe.activations is not None and recipe.weights is not None
    left = {name for number in _left(recipe, graph, rows) for name in model.graph.node[number - 1].input}
    bits = f"int{recipe.weights.bits}", f"int{recipe.activations.bits}"
    try:
        with _silent():
            made, weights, whole = _adaround(model, _inputs(model, samples), bits, left, iterations)
    except Exception as error:  # AIMET and ONNX Runtime may raise anything
        lines = str(error).strip().splitlines() or [""]
        raise OpdbError(f"{path}: AdaRound fails: {type(error).__name__}: {lines[0]}") from error
    count = _write(made, weights)
    if not count:
        raise OpdbError(f"{path}: AdaRound finds no weight to round; give rounding: nearest")
    copy = folder / Path(path).name
    onnx.save(made, copy)
    return str(copy), f"rounded by AdaRound: {count} of {whole} weights, on {counted(len(samples), 'sample')}"


def _aimet() -> Any:
    try:
        with _silent():
            import aimet_onnx
    except ImportError:
        raise MissingExtra("AIMET (aimet-onnx)", "aimet") from None
    return aimet_onnx


@contextmanager
def _silent() -> Iterator[None]:
    """Suppresses AIMET's logs and output."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            yield
    finally:
        logging.disable(before)


def _left(recipe: Recipe, graph: QnnGraph, rows: Sequence[Row]) -> set[int]:
    """The numbers of the file's nodes that a rule gives floats or other weights."""
    wish = asked(recipe, graph, sources_of(rows))
    kept = {
        op.origin
        for op in graph.ops
        if op.name in wish.floats or wish.weights_of.get(op.name, wish.weights) != wish.weights
    }
    found = (_NUMBER.match(row.line) for row in rows if row.node in kept)
    return {int(number[1]) for number in found if number}


def _inputs(model: Any, samples: Sequence[Sample]) -> list[dict[str, Array]]:
    """Converts the samples to the types of the file."""
    from onnx.helper import tensor_dtype_to_np_dtype

    kinds = {i.name: tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in model.graph.input}
    return [{name: np.asarray(x, kinds[name]) for name, x in sample.items()} for sample in samples]


def _adaround(
    model: Any, inputs: list[dict[str, Array]], bits: tuple[str, str], left: Collection[str], iterations: int
) -> tuple[Any, Mapping[str, Array], int]:
    """Returns ``model`` with its batch norms folded, the rounded weights by name, and the number of weights to round.

    ``left``: tensors that stay.  AIMET fuses and renames nodes, so they are identified by the weights that they read.
    """
    from aimet_onnx.batch_norm_fold import fold_all_batch_norms_to_weight
    from onnx import ModelProto, numpy_helper

    aimet = _aimet()
    fold_all_batch_norms_to_weight(model)
    copy = ModelProto()
    copy.CopyFrom(model)
    weight, activation = bits
    sim = aimet.QuantizationSimModel(
        copy, param_type=weight, activation_type=activation, config_file=CONFIGURATION
    )
    sim.compute_encodings(inputs)
    nodes = [op.name for op in sim.connected_graph.ordered_ops if _weight(op) not in (None, *left)]
    aimet.apply_adaround(sim, inputs, iterations, nodes)
    found = {}
    for held in sim.model.model.graph.initializer:
        quantizer = sim.qc_quantize_op_dict.get(held.name)
        if quantizer is not None and quantizer.enabled and quantizer.is_encoding_frozen():
            found[held.name] = _on_steps(numpy_helper.to_array(held), quantizer)
    return model, found, len(nodes)


def _weight(op: Any) -> str | None:
    """The weight of an AIMET node if its operator is one whose weights AdaRound rounds to 4 bits; else None."""
    held = (tensor.name for tensor, kind in op.parameters.values() if kind == "weight")
    return next(held, None) if op.type in OPERATORS else None


def _on_steps(weight: Array, quantizer: Any) -> Array:
    """Rounds a weight like AIMET's quantizer."""
    steps = np.asarray(quantizer.export_encodings("1.0.0")["scale"], np.float64)
    half = 1 << quantizer.bitwidth - 1
    if len(steps) > 1:
        steps = steps.reshape(
            [-1 if d == quantizer.quant_info.channelAxis % weight.ndim else 1 for d in range(weight.ndim)]
        )
    whole = np.clip(np.rint(weight / steps), -half, half - 1)
    return np.asarray(whole * steps, np.float32)


def _write(model: Any, weights: Mapping[str, Array]) -> int:
    """Puts ``weights`` into the model; returns the number of weights it has."""
    from onnx import numpy_helper

    found = [held for held in model.graph.initializer if held.name in weights]
    for held in found:
        held.CopyFrom(numpy_helper.from_array(weights[held.name], held.name))
    return len(found)
