"""Tests of an ExecuTorch kernel library: op_<name>_test.cpp for gtest, and supported_features in ExecuTorch's format.

In ExecuTorch, supported_features.yaml lists what kernels may support, with defaults, and supported_features_def.yaml
overrides them for one library.  Here the first states the C kernels' support according to specs, the second what a library
leaves out.  Both become a C++ header and its values, which the tests read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opdb.codegen.environment import c_string, render
from opdb.plugins.executorch.codegen.glue import OutVariant
from opdb.spec.mapping import plain_type

#: ExecuTorch's name of a data type (ScalarType) -> QNN's short name.
SCALAR_TYPES = {
    "Byte": "u8", "Char": "i8", "Short": "i16", "Int": "i32", "Long": "i64", "Half": "f16", "Float": "f32",
    "Double": "f64", "Bool": "bool8", "BFloat16": "bf16", "UInt16": "u16", "UInt32": "u32",
}  # fmt: skip
BY_SHORT_NAME = {short: name for name, short in SCALAR_TYPES.items()}
#: The features of all kernels in ExecuTorch's own supported_features.yaml that its operator tests read.
GLOBAL = {
    "is_aten": (False, "True for kernels of ATen, which throw exceptions"),
    "output_resize": (False, "True if a tensor of static shape for a result is given another shape"),
}


@dataclass(frozen=True)
class HeldTensor:
    """A tensor of a test.  ``values``: row-major; numbers or booleans."""

    dtype: str  # short name
    shape: tuple[int, ...]
    values: tuple[Any, ...]


@dataclass(frozen=True)
class DtypeValue:
    """An argument that is a data type (short name)."""

    dtype: str


@dataclass(frozen=True)
class KernelCall:
    """One call of a kernel.  ``arguments``: HeldTensor, a list of them, DtypeValue, numbers, lists of numbers, texts, None."""

    dtype: str  # the data type that it samples
    arguments: Mapping[str, Any]
    outs: tuple[HeldTensor, ...]
    bounds: tuple[tuple[float, float], ...]  # of each result: relative, absolute; 0, 0: equal
    taken: bool  # True if the kernel computes it, by its spec; else it must fail
    held: bool = True  # True if the library has the data type; else it must fail


@dataclass(frozen=True)
class KernelTests:
    """The calls that test one kernel; either all or none of one data type are held."""

    calls: tuple[KernelCall, ...]

    @property
    def features(self) -> dict[str, bool]:
        """Data type -> True if a call with it is taken."""
        found = {d: [c.taken for c in self.calls if c.dtype == d] for d in BY_SHORT_NAME}
        return {d: any(taken) for d, taken in found.items() if taken}

    @property
    def left_out(self) -> list[str]:
        """The data types that are taken but missing from the library."""
        return list(dict.fromkeys(c.dtype for c in self.calls if c.taken and not c.held))


def features(tests: Mapping[OutVariant, KernelTests]) -> dict[str, str]:
    """The two YAML files as C++ sources: path -> text."""
    overrides = [_full(f"op_{v.function}", feature(d)) for v, t in tests.items() for d in t.left_out]
    return {
        "test/supported_features.h": render("et_supported_features.h.j2", features=list(_features(tests))),
        "test/supported_features.cpp": render("et_supported_features.cpp.j2", overrides=overrides),
    }


def feature(dtype: str) -> str:
    """The name of a data type's feature; e.g. dtype_double."""
    return f"dtype_{BY_SHORT_NAME[dtype].lower()}"


def _full(namespace: str, name: str) -> str:
    return name if namespace == "global" else f"{namespace}_{name}"


def _features(tests: Mapping[OutVariant, KernelTests]) -> Iterator[dict[str, Any]]:
    """Namespace, name, full name, default, and docstring of each feature."""
    for name, (default, text) in GLOBAL.items():
        yield {"namespace": "global", "name": name, "full": name, "default": default, "text": text}
    for variant, own in tests.items():
        namespace = f"op_{variant.function}"
        for dtype, taken in own.features.items():
            text = f"True if the kernel of {variant.name} takes {BY_SHORT_NAME[dtype]}"
            full = _full(namespace, feature(dtype))
            yield {
                "namespace": namespace,
                "name": feature(dtype),
                "full": full,
                "default": taken,
                "text": text,
            }


def supported_features(tests: Mapping[OutVariant, KernelTests]) -> str:
    """The text of supported_features.yaml."""
    lines: list[str] = []
    namespace = None
    for f in _features(tests):
        if f["namespace"] != namespace:
            namespace = f["namespace"]
            lines += ["", f"- namespace: {namespace}"]
        default = str(f["default"]).lower()
        lines += [
            f"  {f['name']}:",
            "    type: bool",
            f"    default: {default}",
            f"    docstring: {f['text']}",
        ]
    return "\n".join(lines[1:]) + "\n"


def supported_features_def(tests: Mapping[OutVariant, KernelTests]) -> str:
    """The text of supported_features_def.yaml: what this library leaves out."""
    lines: list[str] = []
    for variant, own in tests.items():
        if own.left_out:
            lines += ["", f"- namespace: op_{variant.function}"]
            lines += [f"  {feature(dtype)}: false" for dtype in own.left_out]
    return "\n".join(lines[1:] or ["# no override"]) + "\n"


def op_test(variant: OutVariant, tests: KernelTests) -> str:
    """The text of op_<name>_test.cpp."""
    shown = []
    counts: dict[str, int] = {}
    for call in tests.calls:
        name = BY_SHORT_NAME[call.dtype] + ("" if call.taken else "IsRefused")
        counts[name] = counts.get(name, 0) + 1
        number = f"Case{counts[name]}" if counts[name] > 1 else ""
        shown.append({"name": f"{name}{number}", **_call(variant, call)})
    resized = next((c for c in tests.calls if c.taken and c.held), None)
    fixture = "".join(part.capitalize() for part in variant.function.split("_"))
    return render(
        "et_test.cpp.j2", variant=variant, fixture=f"Op{fixture}Test", calls=shown,
        parameters=variant.parameters()[1:], names=[f"et_{n}" for n in (*(n for n, _ in variant.arguments), *variant.outs)],
        resized=None if resized is None or not _resizable(resized) else _call(variant, resized, larger=True),
        fixed=None if resized is None else _call(variant, resized, other=True),
    )  # fmt: skip


def _resizable(call: KernelCall) -> bool:
    return all(0 not in out.shape for out in call.outs) and any(out.shape for out in call.outs)


def _call(variant: OutVariant, call: KernelCall, larger: bool = False, other: bool = False) -> dict[str, Any]:
    """The C++ of one call.  ``larger``: results are allocated larger; ``other``: with another fixed shape."""
    lines: list[str] = []
    given = []
    for name, type_ in variant.arguments:
        made, text = argument(f"et_{name}", type_, call.arguments.get(name))
        lines += made
        given.append(text)
    results, expected = [], []
    for name, out, (relative, absolute) in zip(variant.outs, call.outs, call.bounds, strict=True):
        shape, more = out.shape, ""
        if larger:
            shape, more = tuple(d + 2 for d in shape), ", TensorShapeDynamism::DYNAMIC_BOUND"
        elif other:
            shape = (*shape, 2)
        factory = f"TensorFactory<ScalarType::{BY_SHORT_NAME[out.dtype]}>"
        lines += [f"{factory} factory_{name};",
                  f"Tensor et_{name} = factory_{name}.zeros({_braces(map(str, shape))}{more});"]  # fmt: skip
        results.append(f"et_{name}")
        tensor = f"factory_{name}.make({_braces(map(str, out.shape))}, {_values(out)})"
        if (relative, absolute) == (0, 0):
            expected.append(f"EXPECT_TENSOR_EQ(et_{name}, {tensor});")
        else:
            bounds = f"{_real(relative)}, {_real(absolute)}"
            expected.append(f"EXPECT_TENSOR_CLOSE_WITH_TOL(et_{name}, {tensor}, {bounds});")
    return {
        "lines": lines, "call": f"op_{variant.function}({', '.join([*given, *results])})", "expected": expected,
        "taken": call.taken, "feature": _full(f"op_{variant.function}", feature(call.dtype)),
    }  # fmt: skip


def argument(name: str, type_: str, value: Any) -> tuple[list[str], str]:
    """Statements before the call, and the argument itself."""
    bare, optional = plain_type(type_)
    if value is None:
        return [], "std::nullopt" if optional else "{}"
    if isinstance(value, HeldTensor):
        factory = f"TensorFactory<ScalarType::{BY_SHORT_NAME[value.dtype]}> factory_{name};"
        made = f"factory_{name}.make({_braces(map(str, value.shape))}, {_values(value)})"
        return [factory, f"const Tensor {name} = {made};"], name
    if bare == "Tensor[]":
        lines = [line for i, t in enumerate(value) for line in argument(f"{name}_{i}", "Tensor", t)[0]]
        names = [f"{name}_{i}" for i in range(len(value))]
        return [*lines, f"const Tensor {name}[] = {_braces(names)};"], f"ArrayRef<Tensor>({name})"
    if bare in ("int[]", "SymInt[]", "float[]", "bool[]"):
        return _list(name, bare, value)
    if isinstance(value, DtypeValue):
        return [], f"ScalarType::{BY_SHORT_NAME[value.dtype]}"
    if bare == "str":
        return [], c_string(value)
    text = _number(value) if bare == "Scalar" else _number(float(value) if bare == "float" else value)
    return [], f"Scalar({text})" if bare == "Scalar" else text


def _list(name: str, bare: str, values: Any) -> tuple[list[str], str]:
    kind = {"float[]": "double", "bool[]": "bool"}.get(bare, "int64_t")
    items = list(values) if isinstance(values, (list, tuple)) else [values]
    if not items:
        return [], f"ArrayRef<{kind}>()"
    return [f"const {kind} {name}[] = {_braces(map(_number, items))};"], f"ArrayRef<{kind}>({name})"


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return _real(value) if isinstance(value, float) else f"INT64_C({value})"


def _real(value: float, single: bool = False) -> str:
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    text = format(value, ".9g" if single else ".17g")
    return (text if any(c in text for c in ".e") else f"{text}.0") + ("f" if single else "")


def _braces(items: Sequence[str] | Iterator[str] | map[str]) -> str:
    return "{" + ", ".join(items) + "}"


def _values(tensor: HeldTensor) -> str:
    kind = tensor.dtype
    if kind == "bool8":
        return _braces(str(bool(v)).lower() for v in tensor.values)
    if kind in ("f16", "f32", "bf16", "f64"):
        return _braces(_real(float(v), kind != "f64") for v in tensor.values)
    return _braces(str(int(v)) for v in tensor.values)
