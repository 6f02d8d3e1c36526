"""Every row of the function table: its examples in Python and in C, its wording in English."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluate import UNDECIDABLE, Case, arguments, build, c_arguments, c_evaluate, plain, python_evaluator
from expressions import SCOPE, batch
from inline_snapshot import snapshot
from isolated import isolated

from opdb.codegen.emit_english import sentence, term
from opdb.core.op_config import Quant, TensorConfig
from opdb.runtime import arguments as torch_arguments
from opdb.runtime import checks, forms, per_channel, tensors, windows
from opdb.spec.lang.functions import FUNCTIONS, Function
from opdb.spec.lang.nodes import BOOL, Name, Scope
from opdb.spec.lang.parse import parse

EXAMPLES = [(f, text, value) for f in FUNCTIONS.values() for text, value in f.examples]
#: Why a row has no examples of the rule language.
WITHOUT_EXAMPLES = {
    "present": "its argument is a name: test_present_is_the_same_in_python_and_c",
    "same_quant": "its arguments are tensors: test_same_quant, and tests/property",
}


def type_of(function: Function, text: str) -> str:
    """The type of an example; min and max have that of their arguments."""
    return function.result if "." not in text else "float"


def test_every_row_has_examples_or_a_reason() -> None:
    without = {f.name for f in FUNCTIONS.values() if not f.examples and not f.torch}
    assert without == set(WITHOUT_EXAMPLES)
    for f in FUNCTIONS.values():
        assert (f.c == "") == f.torch, f.name
        assert bool(f.english) != bool(f.predicate[0]), f.name
        values = [v for _, v in f.examples]
        assert not f.partial or None in values, f"{f.name}: no example without a value"
        assert f.partial or None not in values, f.name


@pytest.mark.parametrize(("function", "text", "value"), EXAMPLES, ids=[text for _, text, _ in EXAMPLES])
def test_examples_in_python_give_the_expected_values(function: Function, text: str, value: Any) -> None:
    case = Case.of(type_of(function, text), text)
    got = python_evaluator(case.node)(arguments(random.Random(0)))
    assert got == (UNDECIDABLE if value is None else value)
    assert got == UNDECIDABLE or type(got) is type(value)


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The values of all examples in C, by text; one library under UBSan."""
    cases = [Case.of(type_of(f, text), text) for f, text, _ in EXAMPLES]
    library = build(cases, tmp_path_factory.mktemp("functions"))
    args = c_arguments(arguments(random.Random(0)))
    return isolated(lambda: {case.text: c_evaluate(library, i, case, args) for i, case in enumerate(cases)})


@pytest.mark.parametrize(("function", "text", "value"), EXAMPLES, ids=[text for _, text, _ in EXAMPLES])
def test_examples_in_c_give_the_expected_values(
    function: Function, text: str, value: Any, in_c: dict[str, Any]
) -> None:
    case = Case.of(type_of(function, text), text)
    assert in_c[text] == (UNDECIDABLE if value is None else plain(case, value))


def test_present_is_the_same_in_python_and_c(tmp_path: Path) -> None:
    texts = ("present(w)", "present(k)", "not present(axes)", "present(w) and w.rank >= 0")
    cases = [Case.of(BOOL, text) for text in texts]
    library = build(cases, tmp_path)

    def compare() -> list[tuple[str, Any, Any]]:
        rng = random.Random(3)
        out = []
        for _ in range(50):
            args = arguments(rng)
            for i, case in enumerate(cases):
                want = plain(case, python_evaluator(case.node)(args))
                out.append((case.text, want, c_evaluate(library, i, case, c_arguments(args))))
        return out

    found = isolated(compare)
    assert all(want == got and want in (0, 1) for _, want, got in found)
    assert {(text, want) for text, want, _ in found} == {(t, v) for t in texts for v in (0, 1)}


def test_encoding_functions_agree_in_python_and_c(tmp_path: Path) -> None:
    encodings = (
        None,
        Quant("SCALE_OFFSET", (0.1,), (3,)),
        Quant("SCALE_OFFSET", (0.1,), (4,)),
        Quant("SCALE_OFFSET", (0.2,), (3,)),
        Quant("SCALE_OFFSET", (float(np.float32(0.1)),), (3,)),
        Quant("BW_SCALE_OFFSET", (0.1,), (3,), bits=4),
        Quant("BW_SCALE_OFFSET", (0.1,), (3,), bits=5),
        Quant("AXIS_SCALE_OFFSET", (0.1, 0.2), (0, 0), axis=1),
        Quant("AXIS_SCALE_OFFSET", (0.1, 0.2), (), axis=1),
        Quant("AXIS_SCALE_OFFSET", (0.1, 0.3), (0, 0), axis=1),
        Quant("AXIS_SCALE_OFFSET", (0.1, 0.2), (0, 0), axis=0),
    )
    cases = [Case.of(BOOL, "same_quant(x, w)"), Case.of("float", "x.scale"), Case.of("int", "x.offset")]
    library = build(cases, tmp_path)

    def compare() -> list[tuple[int, int, list[tuple[Any, Any]]]]:
        args = arguments(random.Random(3))
        out = []
        for i, a in enumerate(encodings):
            for j, b in enumerate(encodings):
                args["x"] = TensorConfig("x", "uq8", (2, 2), "NATIVE", None, a)
                args["w"] = TensorConfig("w", "uq8", (2, 2), "NATIVE", None, b)
                c_args = c_arguments(args)
                row = [
                    (plain(case, python_evaluator(case.node)(args)), c_evaluate(library, n, case, c_args))
                    for n, case in enumerate(cases)
                ]
                out.append((i, j, row))
        return out

    equal = {(1, 4), (4, 1), (7, 8), (8, 7)}
    for i, j, row in isolated(compare):
        assert all(python == c for python, c in row), (i, j, row)
        assert bool(row[0][0]) == (i == j or (i, j) in equal)
        assert row[1][0] == (float(np.float32(encodings[i].scale[0])) if encodings[i] else 0.0)
        assert row[2][0] == (encodings[i].offset[0] if encodings[i] and encodings[i].offset else 0)


def test_python_functions_are_in_checks_or_builtins() -> None:
    for f in FUNCTIONS.values():
        homes = (forms, tensors, windows, per_channel, torch_arguments) if f.torch else (checks,)
        builtin = f.python in ("len", "min", "max", "float", "present")
        assert builtin or any(callable(getattr(home, f.python, None)) for home in homes), f.name


def phrases() -> Iterator[tuple[str, str]]:
    scope = SCOPE.with_names({"s": Name("str"), "ts": Name("tensors")})
    scope = Scope(scope.names, scope.enums, torch=True)
    arguments = {
        "ints": ("S", "L"),
        "int": ("n", "m"),
        "bool": ("p",),
        "tensor": ("x",),
        "tensors": ("ts",),
        "float": ("f",),
        "str": ("s",),
        "any": ("w",),
    }
    for f in FUNCTIONS.values():
        used: dict[str, int] = {}
        names = []
        for types in f.params:
            names.append(arguments[types[0]][used.setdefault(types[0], 0) % len(arguments[types[0]])])
            used[types[0]] += 1
        text = f"{f.name}({', '.join(names)})"
        node = parse(text, scope, (f.result, "int", "float"))
        if f.predicate[0]:
            yes, no = sentence(node), sentence(node, must=False, yes=False)
            yield text, f"{yes} | if {sentence(node, must=False)} | if {no}"
        else:
            yield text, term(node)


def test_functions_are_put_in_english() -> None:
    said = dict(phrases())
    assert set(FUNCTIONS) == {text.partition("(")[0] for text in said}
    for words in said.values():
        assert "{" not in words and "}" not in words and "  " not in words
    assert said == snapshot(
        {
            "len(S)": "the number of S",
            "prod(S)": "the product of S",
            "sum_of(S)": "the sum of S",
            "min(n, m)": "the smaller of n and m",
            "max(n, m)": "the larger of n and m",
            "unique(S)": "S must have no value twice | if S has no value twice | if S has a value twice",
            "increasing(S)": "S must be strictly increasing | if S is strictly increasing | if S is not strictly increasing",
            "contains(S, n)": "S must contain n | if S contains n | if S does not contain n",
            "present(w)": "w must be given | if w is given | if w is left out",
            "broadcastable(S, L)": "S must be broadcastable with L | if S is broadcastable with L | if S is not broadcastable with L",
            "broadcast(S, L)": "the broadcast of S and L",
            "gather(S, L)": "S at L",
            "replace(S, n, m)": "S with m at position n",
            "range(n, m)": "the integers from n to m - 1",
            "cat(S, L)": "S followed by L",
            "reduced(S, L, p)": "S without the axes L (kept as 1 if p)",
            "expand(S, n)": "S, repeated to n values if it has one",
            "same_quant(x, x)": "x must have the encoding of x | if x has the encoding of x | if x does not have the encoding of x",
            "of_rank(S, n)": "S with ones in front, n values in all",
            "axes_of(S, n)": "the axes S of n dimensions in order, counted from the first; all where there is none",
            "bit(n, m)": "bit m of n",
            "permute(x, S)": "x permuted by S",
            "reshape(x, S)": "x in the shape S",
            "ones(S, x)": "ones in the shape S",
            "batched(x, n)": "x as a batch of n dimensions",
            "as_image(x)": "x as an image",
            "zeros(S, x)": "zeros in the shape S",
            "full(S, f, x)": "f in the shape S",
            "ramp(S, L, n)": "n plus L times the place, in the shape S",
            "ramp_mask(S, L, n)": "whether n plus L times the place is not negative, in the shape S",
            "tiled(x, S)": "x repeated to the shape S",
            "wrapped(x, n)": "x, negative values counted from n",
            "scaled(x, n)": "x times n",
            "inverse_root(x, f)": "1 / sqrt(x + f)",
            "given_at(ts)": "the positions at which ts has a tensor",
            "chosen(ts)": "the tensors that ts has",
            "filled(ts)": "the tensors of ts that have elements",
            "lifted(ts, n)": "each of ts with a dimension of 1 at n",
            "window_means(n, m, n, m, n, p, x)": "the means of n windows of m among n",
            "window_sums(n, m, n, m, n, x)": "the sums of n windows of m among n",
            "adaptive_means(n, m, x)": "the means of m windows that share n",
            "window_places(n, m, n, m, n, m)": "the places of m windows of m among n",
            "fold_sums(n, m, n, m, n, m, x)": "the sums over n places of m windows of m",
            "fold_places(S, L, S, L, S, L)": "the places of L windows of L over each of S",
            "adaptive_places(n, m)": "the places of m windows that share n",
            "adaptive_window(n, m)": "the widest of m windows that share n",
            "nearest_places(n, m, f, p)": "the nearest places among n of m values",
            "padded_places(n, m, n, s)": "the places of n values with m more before and n after",
            "slice_places(S, n, m, n)": "the places of n slices from m on in steps of n behind dimensions of the sizes S",
            "window_factors(S, L, S, L, S, p, x)": "by what the means of windows of L among S are multiplied, zeros beyond the"
            " edges included",
            "floats(x)": "x in floating point",
            "channel_filter(x, x, x)": "x as a filter with a scale for each channel",
            "channel_bias(x, x, x)": "x as the bias of x with the filter x",
            "block_diagonal(x, n)": "x without its n groups",
            "spaced(x, S)": "x with zeros between, for the dilation S",
            "widened(x)": "x in 16 bits",
            "linear_weights(n, m, f, p, x)": "the weights of n values in m between them",
            "cubic_weights(n, m, f, p, x)": "the weights of n values in m between them",
            "causal_mask(n, m, f, x)": "f above the diagonal of n rows of m",
            "root(f)": "the square root of f",
            "power(f, f)": "f to the power of f",
            "to_float(n)": "n",
            "is_whole(f)": "f must be a whole number | if f is a whole number | if f has a fraction",
            "columns(S, L, S)": "the rows whose columns are the arguments",
            "is_float(x)": "x must have a floating-point type | if x has a floating-point type | if x does not have a floating-point type",
            "pool_stride(S, L, n)": "the steps S along n dimensions, those of the kernel L where there is none",
            "pool_over(S, L, S, L, S)": "how far S windows of L reach beyond S",
            "same_padding(s, S, L)": "the padding that s means for the kernel S",
            "pads_of(S, n)": "S before and after each of n dimensions",
            "slice_ranges(S, n, m, n, m)": "m to n in steps of m along n, all of the other dimensions of S",
            "swapped(n, m, n)": "the order of n dimensions with m and n swapped",
            "is_real(x)": "x must be floating-point or quantized | if x is floating-point or quantized"
            " | if x is neither floating-point nor quantized",
            "lower_case(s)": "s in lower case",
            "times(x, x)": "x times x",
            "minus(x, x)": "x less x",
        }
    )


@pytest.mark.parametrize("text", [text for f, text, _ in EXAMPLES if f.english])
def test_examples_are_put_in_english(text: str) -> None:
    words = term(parse(text, SCOPE, ("int", "float", "ints", "bool")))
    assert "{" not in words and "(" not in words.replace("(kept as 1", "").replace("(1 == ", "")


def test_every_predicate_has_a_sentence_and_its_negation() -> None:
    for _, text in batch(400, 3, (BOOL,)):
        node = parse(text, SCOPE, BOOL)
        said = {sentence(node, must, yes) for must in (True, False) for yes in (True, False)}
        assert len(said) >= 2, text
        assert not any("{" in s or "  " in s or "None" in s for s in said), said


def test_ranges_and_sums_are_put_in_english() -> None:
    ints = {
        t: term(parse(t, SCOPE, ("int", "ints"))) for t in ("range(n)", "range(m, n)", "sum(S)", "len(xs)")
    }
    assert ints == snapshot(
        {
            "range(n)": "the integers from 0 to n - 1",
            "range(m, n)": "the integers from m to n - 1",
            "sum(S)": "the sum of S",
            "len(xs)": "the number of xs",
        }
    )
