"""Programs quantized by --quantize on the vendor's emulation, against PyTorch in floats: values, not kinds of ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from emulated import WITH_FLOATS, WITHOUT, X, signal_to_noise
from torch.nn import functional

pytestmark = pytest.mark.vendor
N = torch.arange(16, dtype=torch.int32).reshape(1, 1, 16)


NUMBERS: dict[str, Callable[..., Any]] = {
    "argmax": lambda x, n: (x.argmax(-1).float(), x + n.float()),
    "truths": lambda x, n: ((x > 0).float(), x + n.float()),
    "truths of a product": lambda x, n: ((x > 0).float() * x, x + n.float()),
    "integers of a product": lambda x, n: n.float() * x,
    "equal integers": lambda x, n: ((x.argmax(-1, keepdim=True) == n).float(), x + n.float()),
    "indices of topk": lambda x, n: (x.topk(3)[1].float(), x + n.float()),
    "argmax divided": lambda x, n: (x.argmax(-1).float() / 15, x + n.float()),
    "a mask of truths": lambda x, n: x * (n > 3).float(),
}


@pytest.mark.parametrize("scheme", ["8a8w", "16a8w"])
@pytest.mark.parametrize("name", NUMBERS)
def test_integers_and_booleans_keep_their_values(name: str, scheme: str) -> None:
    bound = 33.0 if scheme == "8a8w" else 60.0
    found = signal_to_noise(NUMBERS[name], (X, N), WITH_FLOATS, scheme, [])
    assert min(found) > bound, found


@pytest.mark.parametrize(
    "name", ["truths", "truths of a product", "integers of a product", "a mask of truths"]
)
def test_integers_keep_their_values_on_an_integer_chip(name: str) -> None:
    found = signal_to_noise(NUMBERS[name], (X, N), WITHOUT, "8a8w", [])
    assert min(found) > 33, found


QKV = tuple(torch.randn(2, 2, 16, 32, generator=torch.Generator().manual_seed(0)) for _ in range(3))
SEEN = torch.ones(16, 16, dtype=torch.bool).tril()
MASKS: dict[str, Callable[..., Any]] = {
    "causal": lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
    "truths": lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, attn_mask=SEEN),
    "the least float": lambda q, k, v: functional.scaled_dot_product_attention(
        q, k, v, attn_mask=torch.full((16, 16), torch.finfo(torch.float32).min).triu(1)
    ),
    "-10000": lambda q, k, v: (
        functional.softmax(q @ k.transpose(2, 3) / 6 + torch.full((16, 16), -1e4).triu(1), -1) @ v
    ),
    "masked_fill": lambda q, k, v: (
        functional.softmax((q @ k.transpose(2, 3)).masked_fill(~SEEN, -3e4), -1) @ v
    ),
    "-20": lambda q, k, v: (
        functional.softmax(q @ k.transpose(2, 3) / 6 + torch.full((16, 16), -20.0).triu(1), -1) @ v
    ),
}


@pytest.mark.parametrize("soc", [WITH_FLOATS, WITHOUT])
@pytest.mark.parametrize("scheme", ["8a8w", "16a8w"])
@pytest.mark.parametrize("name", MASKS)
def test_masks_do_not_coarsen_attention_scores(name: str, scheme: str, soc: str) -> None:
    told: list[str] = []
    (found,) = signal_to_noise(MASKS[name], QKV, soc, scheme, told)
    assert found > (29 if scheme == "8a8w" else 40), (
        found
    )  # v68 multiplies 16 bits by 8 only: 41.8 dB, with floats 75
    cut_off = [line for line in told if "the softmax behind it makes them 0" in line]
    assert bool(cut_off) == (name != "-20")


WITHOUT_INTEGERS: dict[str, Callable[..., Any]] = {
    "softplus": functional.softplus,
    "mish": functional.mish,
    "log": lambda x: torch.log(x.abs() + 1),
    "logsigmoid": functional.logsigmoid,
    "log_softmax": lambda x: functional.log_softmax(x, -1),
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 0.5),
    "sin": torch.sin,
    "cos": torch.cos,
    "sort": lambda x: x.sort(-1)[0],
    "cumsum": lambda x: x.cumsum(1),
}


@pytest.mark.parametrize("scheme", ["8a8w", "16a8w"])
@pytest.mark.parametrize("name", WITHOUT_INTEGERS)
def test_ops_without_an_integer_form_use_floats(name: str, scheme: str) -> None:
    (found,) = signal_to_noise(WITHOUT_INTEGERS[name], (X,), WITH_FLOATS, scheme, [])
    assert found > (28 if scheme == "8a8w" else 50), found


@pytest.mark.parametrize("soc", [WITH_FLOATS, WITHOUT])
@pytest.mark.parametrize("scheme", ["8a8w", "16a8w"])
def test_the_bias_of_a_single_filter_is_kept(scheme: str, soc: str) -> None:
    weight, bias = torch.linspace(-0.5, 0.4, 8).reshape(1, 8, 1), torch.tensor([7.0])
    (found,) = signal_to_noise(lambda x: functional.conv1d(x, weight, bias), (X,), soc, scheme, [])
    assert found > (30 if scheme == "8a8w" else 55), found


@pytest.mark.parametrize("soc", [WITH_FLOATS, WITHOUT])
@pytest.mark.parametrize("scheme", ["8a8w", "16a8w"])
def test_shared_heads_are_repeated_with_a_concat(scheme: str, soc: str) -> None:
    """HTP has no integer Tile of rank 5, so a quantized one becomes a Concat."""
    told: list[str] = []
    keys = X.reshape(1, 2, 8, 16)
    (found,) = signal_to_noise(
        lambda x: x[:, :, None].expand(1, 2, 3, 8, 16).reshape(1, 6, 8, 16) * 2, (keys,), soc, scheme, told
    )
    assert found > (38 if scheme == "8a8w" else 80) and not told, (found, told)
