"""Schemas of torch operators outside ATen, read from PyTorch's text form."""

from __future__ import annotations

import pytest

from opdb.catalog.facts import aten_schema
from opdb.catalog.facts.signature import torch_schema
from opdb.core.errors import OpdbError

TEXT = "g(Tensor x, Tensor? w=None, Scalar a=1, int[2] d=[1, 2], *, ScalarType? dt=None, str m='sum') -> (Tensor a, Tensor b)"


@pytest.mark.torch
def test_a_parsed_schema_matches_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    library = torch.library.Library("opdb_signatures", "DEF")
    library.define(TEXT)
    known = torch.ops.opdb_signatures.g.default._schema
    read = torch_schema("opdb_signatures.g.default", str(known))
    assert [a.name for a in read.arguments] == [a.name for a in known.arguments]
    assert [a.kwarg_only for a in read.arguments] == [a.kwarg_only for a in known.arguments]
    assert [a.default for a in read.arguments] == [a.default_value for a in known.arguments]
    assert [a.optional for a in read.arguments] == [False, True, False, False, True, False]
    assert read.returns == ("Tensor", "Tensor")


@pytest.mark.torch
def test_aten_schemas_can_be_parsed_too() -> None:
    torch = pytest.importorskip("torch")
    for target in (
        "native_layer_norm.default",
        "convolution.default",
        "scatter_reduce.two",
        "mean.dim",
        "split.Tensor",
    ):
        op, overload = target.split(".")
        text = str(getattr(getattr(torch.ops.aten, op), overload)._schema).replace("aten::", "")
        read = torch_schema(f"mine.{target}", text)
        assert [(a.name, a.optional) for a in read.arguments] == [
            (a.name, a.optional) for a in aten_schema(f"aten.{target}").arguments
        ]


@pytest.mark.parametrize(
    ("target", "text", "words"),
    [
        ("aten.relu.default", "relu(Tensor x) -> Tensor", "leave 'signature' out"),
        ("mylib.a.default", None, "needs a 'signature', e.g. a(Tensor x) -> Tensor"),
        ("mylib.a.default", "b(Tensor x) -> Tensor", "it is that of b"),
        ("mylib.a.two", "a(Tensor x) -> Tensor", "it is that of a"),
        ("mylib.a.default", "a(Tensor x) -> int", "it returns 'int'"),
        ("mylib.a.default", "a(Tensor x) -> ()", "it returns '()'"),
        ("mylib.a.default", "a(Tensor) -> Tensor", "'Tensor' is not TYPE NAME"),
        ("mylib.a.default", "a(Tensor x, int x) -> Tensor", "two arguments have one name"),
        ("mylib.a.default", "a(Tensor x, int n=f(2)) -> Tensor", "'f(2)' is not a default value"),
        ("mylib.a.default", "a", "not of the form"),
        ("my;lib.a.default", "a(Tensor x) -> Tensor", "is not a torch operator"),
    ],
)
def test_malformed_signatures_are_rejected(target: str, text: str | None, words: str) -> None:
    with pytest.raises(OpdbError) as caught:
        torch_schema(target, text)
    assert words in str(caught.value)
