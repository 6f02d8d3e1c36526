"""The YAML of packages: every format is read, and each fault is reported with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opdb.core.errors import OpdbError
from opdb.plugins.cloud_ai.check import memory
from opdb.plugins.cloud_ai.check.config import Op, read, yaml_files
from opdb.plugins.cloud_ai.check.findings import KINDS, Finding, Findings

from .packages import FIRST_YAML, GELU_YAML, NORM_YAML, SHARE_YAML, write


def said(text: str, tmp_path: Path) -> tuple[list[Op], list[Finding]]:
    path = write(tmp_path, {"op.yaml": text}) / "op.yaml"
    findings = Findings()
    ops = read(path, findings)
    for op in ops:
        memory.check(op, {}, False, findings)
    return ops, findings.sorted()


def test_lists_without_values_are_empty(tmp_path: Path) -> None:
    (op,), findings = said(NORM_YAML, tmp_path)
    assert findings == []
    assert (op.type, op.package, op.version, op.listed) == ("CustomNorm", "QAic", "5.0.0", True)
    assert [(t.name, t.max_dims) for t in (*op.inputs, *op.outputs)] == [("x", 3), ("weight", 1), ("y", 3)]
    (kernel,) = op.implementations
    assert [n for n, _ in kernel.memory["VTCM"]] == ["x", "weight", "y"] and set(kernel.memory) == {"VTCM"}


def test_ops_may_have_separate_documents(tmp_path: Path) -> None:
    ops, findings = said(FIRST_YAML, tmp_path)
    assert findings == []
    assert [(op.type, op.line, op.listed) for op in ops] == [("Reverse", 2, False), ("Add", 15, False)]
    assert ops[1].parameters[0].size == 8 and not ops[1].parameters[0].scalar


def test_a_placeholder_version_is_reported(tmp_path: Path) -> None:
    (op,), (finding,) = said(GELU_YAML, tmp_path)
    assert (finding.id, finding.severity, finding.line) == ("yaml-version", "warning", 2)
    assert op.parameters == () and [i.backend for i in op.implementations] == ["Interpreter", "AIC"]


FAULTS = {
    "no version": ("version: 1.0.0\n", "", "yaml-version", 1),
    "a key that is missing": ("    package: com.example\n", "", "yaml-form", 3),
    "a list that is missing": ("      - {name: y, maxDims: 4}\n", "", "yaml-form", 7),
    "no maxDims": ("{name: x, maxDims: 4}", "{name: x}", "yaml-form", 6),
    "maxDims 0": ("{name: x, maxDims: 4}", "{name: x, maxDims: 0}", "yaml-form", 6),
    "a key of another spelling": ("{name: x, maxDims: 4}", "{name: x, maxDims: 4, Constant: true}", "yaml-key", 6),
    "a type that is none": ("dataType: float", "dataType: half", "parameter", 10),
    "a scalar with a size": ("scalar: true", "scalar: true, size: 2", "parameter", 10),
    "a flag that is none": ("scalar: true", "scalar: maybe", "yaml-form", 10),
    "a name twice": ("{name: y, maxDims: 4}", "{name: x, maxDims: 4}", "name-twice", 8),
    "a backend that is none": ("backend: Interpreter", "backend: CPU", "backend", 15),
    "a kernel's name": ("type: ShareInterpreter", "type: share-it", "yaml-form", 15),
    "memory of what is not there": ("VTCM: [x, y]", "VTCM: [x, z]", "memory-name", 20),
    "memory in two places": ("DDR:", "DDR: [x]", "memory-twice", 20),
    "required without a memory": ("requiredFor: [sums]", "requiredFor: [sums, eps]", "memory-name", 22),
    "no list": ("VTCM: [x, y]", "VTCM: x", "yaml-form", 20),
    "a buffer above VTCM": ("size: 16", "size: 9000000", "memory-required", 22),
    "a buffer above 31 bits": ("size: 16", "size: 3000000000", "memory-size", 12),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_reported_with_their_line(name: str, tmp_path: Path) -> None:
    old, new, wanted, line = FAULTS[name]
    assert old in SHARE_YAML
    _, findings = said(SHARE_YAML.replace(old, new, 1), tmp_path)
    assert (wanted, line) in {(f.id, f.line) for f in findings}
    assert len({f.id for f in findings}) <= 2 and all(f.cure for f in findings)


def test_a_duplicate_op_is_reported(tmp_path: Path) -> None:
    op = SHARE_YAML[SHARE_YAML.index("  - type") :]
    _, findings = said(SHARE_YAML + op, tmp_path)
    assert {f.id for f in findings} == {"name-twice"}


def test_memory_that_does_not_fit_in_vtcm_is_reported(tmp_path: Path) -> None:
    yaml = SHARE_YAML.replace("size: 16", "size: 9000000").replace("requiredFor: [sums]", "requiredFor:")
    _, findings = said(yaml, tmp_path)
    assert [(f.id, f.severity) for f in findings] == [("memory-fit", "warning")]


@pytest.mark.parametrize("text", ["", "a: 1\n", "- 1\n", "x: [\n", "version: 1.0.0\nCustomOps:\n"])
def test_files_that_are_not_packages_are_rejected(text: str, tmp_path: Path) -> None:
    with pytest.raises(OpdbError, match=r"op\.yaml"):
        said(text, tmp_path)


def test_the_yaml_of_a_folder_is_found(tmp_path: Path) -> None:
    write(tmp_path, {"a/op.yaml": NORM_YAML, "b/ops.yml": FIRST_YAML, "other.yaml": "type: pipeline\n"})
    assert yaml_files(tmp_path) == [tmp_path / "a" / "op.yaml", tmp_path / "b" / "ops.yml"]


def test_the_page_lists_each_finding() -> None:
    text = (Path(__file__).parents[4] / "docs" / "guides" / "cloud-ai-check.md").read_text()
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (error|warning) \|", text, re.MULTILINE))
    assert rows == {id_: severity for id_, (severity, _) in KINDS.items()}
