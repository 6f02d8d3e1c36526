"""Pixels are arranged as an image, since HTP prepares a single long row slowly."""

from __future__ import annotations

import pytest

from opdb.runtime.tensors import TensorRef, as_image


@pytest.mark.parametrize(
    ("shape", "image"),
    [
        ((1, 32, 32768), (1, 32, 128, 256)),
        ((2, 8, 97), (2, 8, 97, 1)),
        ((1, 8, 131), (1, 8, 1, 131)),
        ((1, 8, 4, 6, 6), (1, 8, 72, 2)),
        ((1, 8, 1, 100), (1, 8, 100, 1)),
        ((3, 8, 5, 7), (3, 8, 5, 7)),
        ((1, 8, 1), (1, 8, 1, 1)),
    ],
)
def test_a_long_row_is_factored_into_an_image(shape: tuple[int, ...], image: tuple[int, ...]) -> None:
    t = TensorRef(shape, "f32", base_shape=shape)
    made = as_image(t)
    assert made.shape == image
    assert (made is t) == (shape == image)


@pytest.mark.torch
def test_instance_norm_of_a_row_becomes_one_of_an_image() -> None:
    """GroupNorm as exporters write it: [1, 32, 32768] took 12 s to finalize."""
    import torch

    from opdb.catalog.targets.target import Target
    from opdb.execute.compile.model import lowered
    from opdb.programs.torch.export import export

    program = export(torch.nn.InstanceNorm1d(32), (torch.randn(1, 32, 32768),))
    graph = lowered(program, Target("HTP", "SM8650"), "row")[1]
    assert graph is not None
    (norm,) = [op for op in graph.ops if op.op == "InstanceNorm"]
    assert graph.tensors[norm.inputs[0] or ""].shape == (1, 128, 256, 32)
