"""Sources of a C library for some data types: each kernel with variants by a parameter, limited to one of its types."""

from __future__ import annotations

import pytest

from opdb.plugins.packages.codegen import c_library
from opdb.spec.catalog import Catalog

from ...repository_specs import repository_catalog

OPS = repository_catalog().ops
DIVIDED = [
    (n, d)
    for n, op in OPS.items()
    if op.kernel is not None and op.kernel.by
    for d in ("f32", "i32", "bool8")
    if d in op.kernel.dtypes
]


@pytest.mark.parametrize(("name", "dtype"), DIVIDED)
def test_one_type_has_only_its_own_variants(catalog: Catalog, name: str, dtype: str) -> None:
    whole = catalog.compiled(name).each
    kind = {"f32": "real", "i32": "whole", "bool8": "truth"}[dtype]
    texts = c_library.sources(catalog, {name: frozenset({dtype})})
    (kernel,) = [t for p, t in texts.items() if p.endswith(f"kernels/{OPS[name].kernel.function[5:]}.c")]  # type: ignore[union-attr]
    table = kernel[kernel.rindex("static const opdb_each") :]
    for choice, kinds in whole.items():
        assert (f"/* {choice} */" in table) == (kind in kinds), choice
