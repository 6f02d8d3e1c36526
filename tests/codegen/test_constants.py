"""Names and numbers against the documents, ExecuTorch's constants, and a C compiler."""

from __future__ import annotations

import enum
import importlib.util
import inspect
import subprocess
import sys
import types
from pathlib import Path

import pytest

from opdb.catalog import facts
from opdb.codegen import constants, formatters
from opdb.codegen.artifact import Artifact
from opdb.core.dtypes import DTYPES
from opdb.spec.catalog import Catalog

#: Names that only ExecuTorch 1.4.1 has, and names it spells differently than QNN.
NOT_QNN = {"OpContextLoader"}
MISSPELT = {("OpGridSample", "Mode"): {"BILINAR": "BILINEAR"}}


def module(text: str) -> types.ModuleType:
    made = types.ModuleType("constants_under_test")
    sys.modules[made.__name__] = made  # dataclasses look their module up
    exec(compile(text, "ops.py", "exec"), made.__dict__)
    return made


def texts(artifacts: list[Artifact]) -> dict[str, str]:
    return dict(zip((Path(a.path).name for a in artifacts), formatters.format_all(artifacts), strict=True))


@pytest.fixture(scope="module")
def ours(full: Catalog) -> types.ModuleType:
    return module(texts(list(constants.python(full)))["ops.py"])


def _executorch_constants() -> types.ModuleType:
    """The module loaded by file: importing its package looks for an SDK."""
    package = importlib.util.find_spec("executorch")
    assert package is not None and package.submodule_search_locations
    path = Path(package.submodule_search_locations[0], "backends/qualcomm/builders/qnn_constants.py")
    return module(path.read_text())


def members(cls: type) -> dict[str, object]:
    return {n: v for n, v in vars(cls).items() if not n.startswith("_")}


@pytest.mark.executorch
def test_executorchs_constants_have_the_same_values(ours: types.ModuleType) -> None:
    theirs = _executorch_constants()
    classes = {n: c for n, c in inspect.getmembers(theirs, inspect.isclass) if n.startswith("Op")}
    assert len(classes) > 90
    for name, cls in classes.items():
        if name in NOT_QNN:
            assert not hasattr(ours, name)
            continue
        for attribute, value in members(cls).items():
            found = getattr(getattr(ours, name), attribute)
            if inspect.isclass(value) and issubclass(value, enum.IntEnum):
                spelling = MISSPELT.get((name, attribute), {})
                wanted = {spelling.get(member.name, member.name): member.value for member in value}
                assert wanted.items() <= {m.name: m.value for m in found}.items(), name
            else:
                assert found == value, f"{name}.{attribute}"
    assert ours.QNN_OP_PACKAGE_NAME_QTI_AISW == theirs.QNN_OP_PACKAGE_NAME_QTI_AISW


def test_every_documented_name_is_generated(ours: types.ModuleType) -> None:
    assert len(facts.documented_ops()) > 150
    for name in facts.documented_ops():
        cls = getattr(ours, f"Op{name}")
        assert cls.op_name == name
        for param in facts.documented_op(name).params:
            assert getattr(cls, f"param_{param.name}") == param.name
            if param.enum:
                values = getattr(cls, "".join(w.capitalize() for w in param.name.split("_")))
                assert dict(param.enum).items() <= {m.name: m.value for m in values}.items()  # newer SDKs add


def test_specs_and_documents_agree_on_names_and_values(full: Catalog) -> None:
    for name, op in full.ops.items():
        if op.package != constants.PACKAGE:
            assert name not in facts.documented_ops(), name
            continue
        for param in facts.documented_op(name).params:
            assert param.name in op.params, f"{name}.{param.name}"
            assert dict(param.enum).items() <= op.params[param.name].enum.items(), f"{name}.{param.name}"


def test_macros_match_the_documents() -> None:
    for name in facts.documented_ops():
        macro = facts.documented_op(name).facts.get("macro")
        assert macro is None or constants.op_macro(name) == macro


def test_headers_compile_and_have_the_values(full: Catalog, tmp_path: Path) -> None:
    made = texts(list(constants.c(full)))
    include = tmp_path / "opdb"
    include.mkdir()
    for name, text in made.items():
        (include / name).write_text(text)
    prints = [f'    printf("{d.enumerator} %d\\n", (int){d.enumerator});' for d in DTYPES]
    prints += [f'    printf("{b} %d\\n", (int)OPDB_BACKEND_{b});' for b in full.backends]
    prints += [
        '    puts(QNN_OP_LAYER_NORM " " QNN_OP_LAYER_NORM_PARAM_AXES);',
        '    printf("TANH %d\\n", QNN_OP_ELEMENT_WISE_NEURON_OPERATION_TANH);',
    ]
    includes = "".join(f'#include "opdb/{name}"\n' for name in made)
    body = "\n".join(prints)
    source = tmp_path / "main.c"
    source.write_text(
        f"{includes}{includes}#include <stdio.h>\nint main(void) {{\n{body}\n    return 0;\n}}\n"
    )
    command = [
        "cc",
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        f"-I{tmp_path}",
        source,
        "-o",
        tmp_path / "main",
    ]
    subprocess.run(command, check=True)
    out = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert out[: len(DTYPES)] == [f"{d.enumerator} {d.code}" for d in DTYPES]
    assert out[len(DTYPES) : -2] == [f"{b} {i}" for i, b in enumerate(full.backends)]
    assert out[-2:] == ["LayerNorm axes", "TANH 8"]


def test_the_vendors_header_takes_precedence(full: Catalog, tmp_path: Path) -> None:
    (tmp_path / "names.h").write_text(texts(list(constants.c(full)))["op_names.h"])
    source = tmp_path / "main.c"
    source.write_text(
        '#define QNN_OP_PACKAGE_NAME_QTI_AISW "qti.aisw"\n#define QNN_OP_RELU ("Relu")\n#include "names.h"\n'
        "int main(void) { return sizeof(QNN_OP_RELU) == 5 ? 0 : 1; }\n"
    )
    subprocess.run(["cc", "-Wall", "-Werror", source, "-o", tmp_path / "main"], check=True)
    subprocess.run([tmp_path / "main"], check=True)
