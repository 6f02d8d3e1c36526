"""Custom-op libraries for ONNX Runtime on disk: a folder of sources with a Makefile, and the library."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from opdb.core.c_compiler import make
from opdb.core.errors import OpdbError
from opdb.core.source_folder import write_folder
from opdb.execute.packages.package import MANIFEST
from opdb.plugins.packages.codegen import ort
from opdb.spec.catalog import Catalog


def write(
    catalog: Catalog,
    ops: Sequence[str],
    name: str,
    folder: Path | None = None,
    *,
    domain: str,
    kernels: Sequence[Path] = (),
    force: bool = False,
) -> tuple[Path, tuple[str, ...]]:
    """Writes the sources of a custom-op library for ONNX Runtime to ``folder``, by default ``name``; returns it and its files.

    Raises OpdbError as ``write_folder`` does, and for an invalid name or domain.
    """
    if not re.fullmatch(r"[A-Za-z]\w*", name):
        raise OpdbError(f"{name!r}: not a valid library name; use letters, digits, and _")
    if not re.fullmatch(r"[A-Za-z][\w.-]*", domain):
        raise OpdbError(
            f"{domain!r} is not a valid ONNX domain; use letters, digits, ., _, and -, e.g. com.opdb"
        )
    texts = ort.folder(catalog, ops, name, domain, kernels)
    root = folder or Path(name)
    write_folder(root, texts, MANIFEST, {"package": name, "ops": sorted(set(ops)), "domain": domain}, force)
    return root, tuple(texts)


def build(root: Path, name: str) -> Path:
    """Compiles such a library and returns its path.  Raises OpdbError as ``make`` does."""
    make(root, f"the custom ops {name}")
    return (root / ort.library(name)).resolve()
