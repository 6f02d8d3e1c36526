"""Custom-op configurations of Cloud AI, in each form in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from opdb.author.importers.opxml.draft import drafts
from opdb.core.errors import OpdbError
from opdb.plugins.cloud_ai.importer import read
from opdb.spec.catalog import Catalog

OP = """\
type: {name}
package: com.example.onnx
inputs:
  - name: x
    maxDims: 5
  - {{name: weight, maxDims: 1, constant: true}}
outputs: [{{name: y, maxDims: 5}}]
parameters:
  - {{name: eps, dataType: FLOAT, scalar: true}}
  - {{name: axes, dataType: int, size: 2}}
  - {{name: mode, dataType: string, scalar: true}}
scratchBuffers:
functionsLibrary: ./src/lib.so
implementations:
  - {{backend: Interpreter, type: {name}Interpreter, impl: ./src/lib.so}}
  - {{backend: AIC, type: {name}AIC, impl: ./src/aic.cpp, memoryConfig: {{VTCM: [x], requiredFor: [x]}}}}
"""


def listed(*names: str, version: str = "Major.Minor.Patch") -> str:
    """The current form, as the generator writes it: the version is a placeholder."""
    ops = "".join("  - " + OP.format(name=n).replace("\n", "\n    ").rstrip() + "\n" for n in names)
    return f"version: {version}\nCustomOps:\n{ops}"


FORMS = {
    "the generator's": listed("Gelu", "Norm"),
    "of a version": listed("Gelu", "Norm", version="5.0.0"),
    "a document for each op": f"---\n{OP.format(name='Gelu')}...\n---\n{OP.format(name='Norm')}...\n",
    "with an empty document": f"---\n---\n{OP.format(name='Gelu')}---\n{OP.format(name='Norm')}",
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_read(form: str, tmp_path: Path, catalog: Catalog) -> None:
    path = tmp_path / "custom_op_config.yaml"
    path.write_text(FORMS[form])
    (found,) = read(path)
    assert (found.package, [op.name for op in found.ops]) == ("com_example_onnx", ["Gelu", "Norm"])
    made = drafts(found, path.name, catalog.backends)
    assert (
        "axes:\n    type: i32[2]" in made[0].text
        and "mode: str" in made[0].text
        and "eps: f32" in made[0].text
    )
    assert "weight:\n    shape: [Weight0]\n    static: true" in made[0].text
    assert "Gelu: functionsLibrary ./src/lib.so is left out" in found.notes
    assert any("the kernel NormAIC for AIC (./src/aic.cpp)" in note for note in found.notes)


def test_packages_are_kept_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(listed("Gelu", "Norm").replace("com.example.onnx", "QAic", 1))
    assert [(c.package, [op.name for op in c.ops]) for c in read(path)] == [
        ("QAic", ["Gelu"]),
        ("com_example_onnx", ["Norm"]),
    ]


@pytest.mark.parametrize(
    ("change", "said", "line"),
    [
        (("type: Gelu", "type: a-b"), "'a-b' is not a name", 3),
        (("dataType: int", "dataType: complex"), "'complex' is not one of", 12),
        (("outputs: [{name: y, maxDims: 5}]", "outputs:"), "outputs is empty", 3),
        (("package: com.example.onnx", "color: red"), "the field 'package' is missing", 3),
    ],
)
def test_faults_name_their_line(change: tuple[str, str], said: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(listed("Gelu").replace(*change))
    with pytest.raises(OpdbError, match=said) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:{line}:")


def test_errors_give_lines_of_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(
        f"---\n{OP.format(name='Gelu')}...\n---\n{OP.format(name='Norm').replace('FLOAT', 'half')}"
    )
    with pytest.raises(OpdbError, match="'half' is not one of") as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:{len(OP.splitlines()) + 12}:")


@pytest.mark.parametrize(
    "text", ["", "a: 1", "- 1", "version: 1.0\nCustomOps:\n", "x: [", "version: 1\nCustomOps: 3"]
)
def test_files_that_are_not_configurations_are_rejected(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(OpdbError, match=r"a\.yaml"):
        read(path)
