"""Gives the rows of a coverage the names of the nodes in the model's file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from opdb.checks.coverage import Coverage, Row
from opdb.lower.candidates import ONNX_NODE
from opdb.lower.qnn_names import qnn_op
from opdb.programs.onnx.files import open_model, place_of

#: ONNX operators with a scale that is computed when the model runs.
DYNAMIC = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeMatMul"})
_PLACE = re.compile(r"n(\d+)(?:\.|$)")


def with_names(coverage: Coverage, path: str, encodings: str | None = None) -> Coverage:
    """Rows with the node's name as the module; the line is the file, the node's number from 1 and its operator.

    A TensorFlow Lite operator has the name of its first result.  The target of a node that PyTorch cannot express is its operator.
    ``encodings``: the file whose encodings the model was read with; nodes added for it have this file as the line, without a number.
    """
    model = open_model(path, weights=False)
    own = len(model.graph.node)
    if encodings is not None:
        from opdb.programs.onnx.encodings import read_encodings, with_encodings

        model = with_encodings(model, read_encodings(encodings), encodings, stored=False)
    nodes = list(model.graph.node)
    told: set[int] = set()

    def named(row: Row) -> Row:
        found = _PLACE.match(row.module)
        if found is None:
            return row
        place = int(found[1])
        node = nodes[place]
        if encodings is not None and place >= own:
            line, file = f"{Path(encodings).name}: {node.op_type}", str(Path(encodings).absolute())
            return replace(row, module=node.name, line=line, file=file)
        if node.op_type in DYNAMIC and place not in told:
            told.add(place)
            why = f"{node.op_type} in floats: its scale is computed when the model runs, and QNN's are constants"
            row = replace(row, said=(why,))
        number, operator, name = place_of(node, place + 1)
        line = f"{Path(path).name}:{number}: {operator}"
        if row.target == ONNX_NODE:
            target = f"{node.domain or 'onnx'}.{node.op_type}"
            row = replace(row, target=target, reasons=tuple(_with_op(row, target)))
        return replace(row, module=name, line=line, file=str(Path(path).absolute()))

    return replace(coverage, rows=tuple(map(named, coverage.rows)))


def _with_op(row: Row, operator: str) -> Iterator[Mapping[str, str]]:
    """The reasons of a node that PyTorch cannot express, which say whether QNN has an op for it."""
    op = qnn_op(operator)
    for reason in row.reasons:
        text = reason["message"]
        if op:
            text += f"; QNN has the op {op}"
        elif "QNN" not in text:
            text += f"; QNN has no op for {operator}"
        yield {**reason, "message": text, "brief": text}
