"""Guesses for unknown names: only likely ones."""

from __future__ import annotations

import pytest

from opdb.core.guess import did_you_mean, guesses
from opdb.generated import validators
from opdb.generated.constants.socs import SOCS

OPS = list(validators.MODULES)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("LayerNrom", ["LayerNorm"]),  # two letters swapped
        ("Softmx", ["Softmax"]),
        ("layernorm", ["LayerNorm"]),
        ("MaxPool2d", ["PoolMax2d"]),  # the same words
        ("LayerNormalization", ["LayerNorm"]),
        ("Multiply", ["ElementWiseMultiply"]),
        ("Swish", ["HardSwish"]),
        ("Foo", []),
        ("Bar", []),
        ("Gemm", []),
    ],
)
def test_ops(name: str, meant: list[str]) -> None:
    assert guesses(name, OPS) == meant


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("SM8560", {"SM8550", "SM8650"}),  # one digit off, or two swapped; not SM8950
        ("sdm840", {"SDM845"}),
        ("QCS6940", {"QCS6490"}),
        ("SM865", {"SM8650", "SM8635"}),
        ("v75", set()),  # not XRV7205
        ("SM9999", set()),
        ("snapdragon", set()),
    ],
)
def test_chips(name: str, meant: set[str]) -> None:
    assert set(guesses(name, SOCS, 3)) == meant


def test_the_likeliest_kind_wins() -> None:
    assert guesses("relu", ["Prelu", "Relu"], 2) == ["Relu"]
    assert guesses("float32", ["f16", "f32", "i32"]) == ["f32"]
    assert guesses("yy", ["x", "y"]) == ["y"]
    assert guesses("NPU", ["CPU", "GPU"]) == [] and guesses("HPT", ["CPU", "HTP"]) == ["HTP"]
    assert guesses("C2", ["C1", "x"]) == guesses("e", ["n", "x"]) == []
    assert guesses("Rely", ["Relu", "Relu1"], 2) == ["Relu"]


def test_no_known_name_is_a_guess_for_another_one() -> None:
    """Each op and chip is its own best guess."""
    for known in (OPS, list(SOCS)):
        assert [guesses(name, known) for name in known] == [[name] for name in known]


def test_the_sentence() -> None:
    assert did_you_mean("Rellu", ["Relu"]) == "; did you mean 'Relu'?"
    assert did_you_mean("Rellu", ["Relu"], "known: Relu") == "; did you mean 'Relu'?"
    assert did_you_mean("Rellu", ["Relu"], lists="'opdb query ops' lists them") == (
        "; did you mean 'Relu'? ('opdb query ops' lists them)"
    )
    assert did_you_mean("Foo", ["Relu"], "known: Relu") == "; known: Relu"
    assert did_you_mean("Foo", ["Relu"], lists="'opdb query ops' lists them") == (
        "; 'opdb query ops' lists them"
    )
    assert did_you_mean("Foo", ["Relu"]) == ""
