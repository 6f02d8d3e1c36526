"""QnnOpDef.h: a header with the real structure, written from the catalog, and edits of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

import opdb.specs
from opdb.author.importers import header
from opdb.catalog import facts
from opdb.catalog.store import read_catalog
from opdb.codegen.constants import op_macro
from opdb.core.errors import OpdbError, SpecError
from opdb.spec import files as spec
from opdb.spec.catalog import Catalog
from opdb.spec.compiler import compile_op
from opdb.spec.model import OpDef, resolve

FOLDER = Path(opdb.specs.__file__).parent


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return read_catalog(FOLDER)


@pytest.fixture(scope="module")
def text(catalog: Catalog) -> str:
    """A header with all ops of QNN's own package and the one documented op without tensors."""
    ops = {
        n: {p: d.enum for p, d in op.params.items()}
        for n, op in catalog.ops.items()
        if op.package == "qti.aisw"
    }
    ops["If"] = {p.name: {} for p in facts.documented_op("If").params}
    return "\n".join(lines(ops)) + "\n#endif  // QNN_OP_DEF_H\n"


def lines(ops: dict[str, dict[str, dict[str, int]]]) -> Iterable[str]:
    yield "/* Names of ops.\n * QNN_OP_NOT_THIS */\n#ifndef QNN_OP_DEF_H\n#define QNN_OP_DEF_H"
    yield '#define QNN_OP_PACKAGE_NAME_QTI_AISW "qti.aisw"'
    yield "#define QNN_OPSET_VERSION_MAJOR 1\n#define QNN_OPSET_VERSION_MINOR 33\n#define QNN_OPSET_VERSION_PATCH 0"
    for name, params in ops.items():
        macro = op_macro(name)
        yield f'\n#define {macro}   "{name}"'
        for param, values in params.items():
            yield f'#define {macro}_PARAM_{param.upper()} "{param}"'
            yield from (f"#define {macro}_{param.upper()}_{n} {v}" for n, v in values.items())


def read(tmp_path: Path, text: str) -> header.Header:
    path = tmp_path / "QnnOpDef.h"
    path.write_text(text, encoding="utf-8")
    return header.read(path)


def test_the_macros_of_every_documented_op_are_qnns() -> None:
    for name in facts.documented_ops():
        op = facts.documented_op(name)
        assert op_macro(name) == op.facts["macro"]


def test_a_header_of_the_catalog_shows_no_differences(catalog: Catalog, text: str, tmp_path: Path) -> None:
    found = read(tmp_path, text)
    assert found.opset == "1.33.0" and len(found.ops) == 161
    assert header.compare(found, catalog) == []
    assert header.drafts(found, catalog, "QnnOpDef.h") == {}


def test_changed_macros_are_reported(catalog: Catalog, text: str, tmp_path: Path) -> None:
    new = text.replace(
        "\n#define QNN_OP_RELU ",
        '\n#define QNN_OP_WIDGET "Widget"\n#define QNN_OP_WIDGET_PARAM_MODE "mode"\n'
        "#define QNN_OP_WIDGET_MODE_FAST 0\n#define QNN_OP_WIDGET_MODE_FASTER 1\n"
        '#define QNN_OP_WIDGET_PARAM_AXIS "axis"\n\n#define QNN_OP_RELU ',
    )
    new = new.replace("ARGB_TO_RGB_INPUT_ORDER_RGBA 1", "ARGB_TO_RGB_INPUT_ORDER_RGBA 0x2u")
    new = re.sub(r"#define QNN_OP_LAYER_NORM_PARAM_EPSILON .*\n", "", new)
    new = new.replace(
        '#define QNN_OP_LAYER_NORM_PARAM_AXES "axes"',
        '#define QNN_OP_LAYER_NORM_PARAM_AXES "axes"\n#define QNN_OP_LAYER_NORM_PARAM_BIAS "bias"',
    )
    new = new.replace('#define QNN_OP_SHAPE   "Shape"', '#define QNN_OP_SHAPES   "Shape"').replace(
        "QNN_OP_SHAPE_PARAM", "QNN_OP_SHAPES_PARAM"
    )
    new = re.sub(r"\n#define QNN_OP_TANH .*", "", new)  # fmt: skip
    found = read(tmp_path, new)
    rows = [tuple(row.values()) for row in header.compare(found, catalog)]
    assert rows == [
        ("ArgbToRgb", "value", "input_order.RGBA", "other", 2, 1),
        ("LayerNorm", "parameter", "bias", "new", "bias", None),
        ("LayerNorm", "parameter", "epsilon", "gone", None, "epsilon"),
        ("Shape", "macro", "Shape", "other", "QNN_OP_SHAPES", "QNN_OP_SHAPE"),
        ("Tanh", "op", "Tanh", "gone", None, "Tanh"),
        ("Widget", "op", "Widget", "new", "QNN_OP_WIDGET", None),
    ]
    made = header.drafts(found, catalog, "QnnOpDef.h")
    assert set(made) == {"ArgbToRgb", "LayerNorm", "Widget"}
    for name in ("ArgbToRgb", "LayerNorm"):
        op = load(made[name], name)
        compile_op(resolve(op, catalog.bases), catalog.context)
        assert op.constraints == catalog.own[name].constraints and op.torch == catalog.own[name].torch
    assert load(made["ArgbToRgb"], "ArgbToRgb").params["input_order"].enum == {"ARGB": 0, "RGBA": 2}
    assert list(load(made["LayerNorm"], "LayerNorm").params) == ["epsilon", "axes", "bias"]
    widget = load(made["Widget"], "Widget")
    assert widget.params["mode"].enum == {"FAST": 0, "FASTER": 1}
    assert "opset-1.33.0: its inputs and outputs" in made["Widget"]
    assert "whether axis is mandatory, its default and its type" in made["Widget"]


def load(text: str, name: str) -> OpDef:
    return spec.load(OpDef, spec.parse_document(text, f"ops/{name}.yaml"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t[: len(t) // 2].rpartition("\n")[0], "is cut off"),
        (lambda t: t[:60], "defines no QNN_OP_ macro"),
        (lambda t: "int main(void) { return 0; }\n", "defines no QNN_OP_ macro"),
        (lambda t: t.replace("#define QNN_OPSET_VERSION_MINOR 33\n", ""), "no number QNN_OPSET_VERSION_MINOR"),
        (lambda t: t.replace("ORDER_RGBA 1", "ORDER_RGBA one"), r":\d+:1: QNN_OP_ARGB_TO_RGB_INPUT_ORDER_RGBA: 'one' is"),
        (lambda t: t.replace('#define QNN_OP_RELU   "Relu"', '#define QNN_OP_RELU   "Elu"'), r"QNN_OP_RELU: the op 'Elu' is there"),
        (lambda t: t.replace('#define QNN_OP_LAYER_NORM   "LayerNorm"\n', ""), "QNN_OP_LAYER_NORM_PARAM_EPSILON: no op of that macro"),
    ],
    ids=["half", "start", "another", "no-version", "no-number", "twice", "no-owner"],
)  # fmt: skip
def test_unreadable_headers_are_rejected(text: str, tmp_path: Path, change: object, words: str) -> None:
    assert callable(change)
    with pytest.raises(OpdbError, match=words) as caught:
        read(tmp_path, change(text))
    assert "QnnOpDef.h" in str(caught.value)
    assert isinstance(caught.value, SpecError) or len(str(caught.value).splitlines()) == 1


def test_a_binary_header_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "QnnOpDef.h"
    path.write_bytes(b"\x7fELF\xff\xfe\x00")
    with pytest.raises(OpdbError, match="not UTF-8 at byte 4"):
        header.read(path)
