"""The text of generated gtest files; tests/plugins/executorch/test_kernel_gtest.py compiles and runs them."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from opdb.plugins.executorch.codegen.glue import OutVariant
from opdb.plugins.executorch.codegen.gtests import (
    DtypeValue,
    HeldTensor,
    KernelCall,
    KernelTests,
    argument,
    features,
    op_test,
    supported_features,
    supported_features_def,
)

X = HeldTensor("f32", (2,), (1.0, -0.5))
VARIANT = OutVariant(
    "aten::relu.out", "aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", "aten.relu.default",
    (("self", "Tensor"),), ("out",),
)  # fmt: skip


def call(dtype: str, taken: bool, shape: tuple[int, ...] = (2,), held: bool = True) -> KernelCall:
    x = HeldTensor(dtype, shape, (1,) * math.prod(shape))
    return KernelCall(dtype, {"self": x}, (x,), ((0.0, 0.0),), taken, held)


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        ("Scalar", 0.1, "Scalar(0.10000000000000001)"),
        ("Scalar", 2.0, "Scalar(2.0)"),
        ("Scalar", 2, "Scalar(INT64_C(2))"),
        ("Scalar", True, "Scalar(true)"),
        ("float", -math.inf, "-INFINITY"),
        ("float", 3, "3.0"),
        ("int?", None, "std::nullopt"),
        ("int", -(2**40), "INT64_C(-1099511627776)"),
        ("bool", False, "false"),
        ("str", 'a"b', r'"a\"b"'),
        ("ScalarType?", DtypeValue("bf16"), "ScalarType::BFloat16"),
        ("int[2]", [], "ArrayRef<int64_t>()"),
    ],
)
def test_simple_arguments_are_written_inline(type_: str, value: Any, text: str) -> None:
    assert argument("et_a", type_, value) == ([], text)


def test_complex_arguments_are_declared_first() -> None:
    assert argument("et_d", "int[]?", [0, -1]) == (
        ["const int64_t et_d[] = {INT64_C(0), INT64_C(-1)};"], "ArrayRef<int64_t>(et_d)",
    )  # fmt: skip
    assert argument("et_x", "Tensor?", X) == (
        ["TensorFactory<ScalarType::Float> factory_et_x;",
         "const Tensor et_x = factory_et_x.make({2}, {1.0f, -0.5f});"], "et_x",
    )  # fmt: skip
    lines, text = argument("et_xs", "Tensor[]", [X, HeldTensor("bool8", (), (True,))])
    assert text == "ArrayRef<Tensor>(et_xs)" and lines[-1] == "const Tensor et_xs[] = {et_xs_0, et_xs_1};"
    assert "const Tensor et_xs_1 = factory_et_xs_1.make({}, {true});" in lines


def test_a_feature_holds_if_any_call_of_its_type_is_taken() -> None:
    tests = KernelTests((call("f32", True), call("f64", False), call("f16", True, held=False)))
    assert tests.features == {"f16": True, "f32": True, "f64": False}
    assert tests.left_out == ["f16"]
    every = yaml.safe_load(supported_features({VARIANT: tests}))
    assert [e["namespace"] for e in every] == ["global", "op_relu_out"]
    defaults = {name: f["default"] for name, f in every[1].items() if name != "namespace"}
    assert defaults == {"dtype_half": True, "dtype_float": True, "dtype_double": False}
    own = yaml.safe_load(supported_features_def({VARIANT: tests}))
    assert own == [{"namespace": "op_relu_out", "dtype_half": False}]
    assert yaml.safe_load(supported_features_def({VARIANT: KernelTests((call("f32", True),))})) is None


def test_the_header_matches_the_yaml_files(tmp_path: Path) -> None:
    """In C++, each feature of supported_features.yaml has its default or its override."""
    tests = KernelTests((call("f32", True), call("f64", False), call("f16", True, held=False)))
    for path, text in features({VARIANT: tests}).items():
        (tmp_path / Path(path).name).write_text(text)
    names = [
        "is_aten",
        "output_resize",
        "op_relu_out_dtype_half",
        "op_relu_out_dtype_float",
        "op_relu_out_dtype_double",
    ]
    printed = " ".join(f'std::printf("%d", f->{n});' for n in names)
    main = tmp_path / "main.cpp"
    main.write_text(
        '#include <cstdio>\n#include "supported_features.h"\n'
        f"int main() {{ const auto *f = torch::executor::testing::SupportedFeatures::get(); {printed} }}\n"
    )
    program = tmp_path / "main"
    subprocess.run(["g++", "-std=c++17", "-Wall", "-Werror", str(main), str(tmp_path / "supported_features.cpp"),
                    "-o", str(program)], check=True)  # fmt: skip
    said = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    assert said == "00010"


def test_calls_of_one_type_have_distinct_names() -> None:
    tests = KernelTests((call("u16", True), call("u16", True, (2, 3)), call("f64", False)))
    text = op_test(VARIANT, tests)
    names = [
        line.split(", ")[1].removesuffix(") {") for line in text.splitlines() if line.startswith("TEST_F")
    ]
    assert names == [
        "UInt16", "UInt16Case2", "DoubleIsRefused", "DynamicShapeUpperBoundLargerThanExpected",
        "MismatchedShapeOfTheResultIsRefused",
    ]  # fmt: skip


def test_a_kernel_missing_in_the_library_has_no_shape_tests() -> None:
    text = op_test(VARIANT, KernelTests((call("f16", True, held=False),)))
    assert "DynamicShape" not in text and "Mismatched" not in text and "TEST_F(OpReluOutTest, Half)" in text
