"""The table of all generated outputs, in order; to add a kind of output, add a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opdb.codegen.artifact import Artifact, Target, later
from opdb.codegen.environment import render

if TYPE_CHECKING:
    from opdb.spec.catalog import Catalog

#: Files shipped with opdb that targets read besides the catalog.
ABI = Path(str(files("opdb.specs"))) / "abi"
FACTS = Path(str(files("opdb.catalog.facts"))) / "data"
EVIDENCE = Path(str(files("opdb.catalog.evidence"))) / "shipped.jsonl.gz"
#: Folders of generated Python whose __init__.py no other target writes.
PACKAGES = {
    "": "What opdb generates from specs/: constants, validators, builders.",
    "constants/": "Names and numbers: ops, parameters, enums, backends, chips, error codes.",
}


#: The files of specs/abi/ that become C headers.
HEADERS = ("qnn", "htp", "system", "op_package")


def python_packages() -> Iterable[Artifact]:
    """Renders the __init__.py of folders."""
    for folder, text in PACKAGES.items():
        path = f"generated/python/{folder}__init__.py"
        yield Artifact(path, render("package.py.j2", text=text), ("codegen/targets.py",), "python")


def qnn_abi() -> Iterable[Artifact]:
    """Renders QNN's declarations, the version-dependent layouts, and the error names."""
    from opdb.codegen import abi

    for name in HEADERS:
        yield Artifact(abi.header_path(name), abi.render_header(_abi(name)), (f"specs/abi/{name}.yaml",), "c")
    text = abi.render_layouts([_abi(name) for name in HEADERS])
    sources = tuple(f"specs/abi/{name}.yaml" for name in HEADERS)
    yield Artifact("generated/python/constants/qnn_layouts.py", text, sources, "python")
    text = abi.render_errors(_abi("errors"))
    yield Artifact("generated/python/constants/qnn_errors.py", text, ("specs/abi/errors.yaml",), "python")


def socs(catalog: Catalog) -> Iterable[Artifact]:
    """Renders the table of chips."""
    from opdb.codegen import abi

    text = abi.render_socs([soc.data() for soc in catalog.socs.values()])
    yield Artifact("generated/python/constants/socs.py", text, ("specs/socs.yaml",), "python")


def _abi(name: str) -> Mapping[str, Any]:
    return _parsed((ABI / f"{name}.yaml").read_text(encoding="utf-8"), f"specs/abi/{name}.yaml")


@cache
def _parsed(text: str, path: str) -> Mapping[str, Any]:
    from opdb.spec.files import parse_document  # the YAML library: only when something is rendered

    data: Mapping[str, Any] = parse_document(text, path).data
    return data


TARGETS: tuple[Target, ...] = (
    Target("packages", "the __init__.py of generated Python", alone=python_packages),
    Target(
        "constants",
        "ops, parameters, enums, backends: Python",
        whole=later("constants", "python"),
        reads=(FACTS / "qnn-2.25.0.json", FACTS / "qnn-newer.json"),
    ),
    Target(
        "headers",
        "ops, parameters, enums, backends, data types: C",
        whole=later("constants", "c"),
        reads=(FACTS / "qnn-2.25.0.json", FACTS / "qnn-newer.json"),
    ),
    Target(
        "abi",
        "QNN's interface: C headers, layouts by version, error names",
        alone=qnn_abi,
        reads=tuple(ABI / f"{name}.yaml" for name in (*HEADERS, "errors")),
    ),
    Target("socs", "chips: Python", whole=socs),
    Target("errata", "faults of vendor libraries: Python", whole=later("errata", "python")),
    Target("quant", "encodings of quantized tensors by op: Python", whole=later("quant", "python")),
    Target("validators", "validation and shape inference: Python", per_op=later("validators", "python")),
    Target(
        "validators-registry", "the Python validators by op", whole=later("validators", "python_registry")
    ),
    Target("validators-c", "validation, shape inference, kernel shims: C", per_op=later("validators", "c")),
    Target(
        "validators-c-registry",
        "the table of ops and the kernels' header: C",
        whole=later("validators", "c_registry"),
    ),
    Target("kernels", "kernels of ops that are functions of elements: C", per_op=later("kernels", "c")),
    Target("op-packages", "op packages of ops that are not QNN's own: C", whole=later("packages", "c")),
    Target(
        "builders",
        "torch nodes to ops: Python",
        per_op=later("builders", "python"),
        reads=(FACTS / "aten-2.13.0.json",),
    ),
    Target(
        "builders-families",
        "families of candidates: Python",
        per_family=later("builders", "python_family"),
        reads=(FACTS / "aten-2.13.0.json",),
    ),
    Target(
        "builders-registry", "builders by torch target: Python", whole=later("builders", "python_registry")
    ),
    Target(
        "torch-ops", "schemas of the torch operators of QNN's ops: Python", whole=later("torch_ops", "python")
    ),
    Target("docs", "one page for each op", per_op=later("docs", "pages"), reads=(EVIDENCE,)),
    Target("docs-errata-index", "the index of errata", whole=later("errata_docs", "index")),
    Target("docs-index", "the index of pages, and the page of backends", whole=later("docs", "index")),
    Target(
        "tables",
        "declared and measured support: Markdown, CSV",
        whole=later("tables", "support"),
        reads=(EVIDENCE,),
    ),
    Target(
        "support",
        "supported operators as ExecuTorch and ONNX Runtime print them: CSV, reStructuredText, Markdown",
        whole=later("support_tables", "tables"),
        reads=(FACTS / "aten-2.13.0.json", EVIDENCE),
    ),
    Target("readme", "the counts in README.md", whole=later("tables", "readme")),
)
