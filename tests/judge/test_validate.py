"""``opdb.judge.validate``: verdicts and their JSON, targets, and tensors bound by name or by position."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig, ParamConfig, TensorConfig, from_json
from opdb.judge.nearest import nearest
from opdb.judge.validate import check, infer
from opdb.runtime import native
from opdb.runtime.checks import Undecidable

HTP = Target("HTP", "SM8650")


def layer_norm(axes: list[int], dtype: str = "FLOAT_16", **more: Any) -> OpConfig:
    return from_json({
        "op": "LayerNorm",
        "inputs": [{"name": "x", "dtype": dtype, "shape": [2, 3, 4]}, {"name": "gamma", "dtype": dtype, "shape": [4]},
                   {"name": "beta", "dtype": dtype, "shape": [4]}],
        "params": {"axes": {"dtype": "UINT_32", "data": axes}},
        "outputs": [{"name": "y", "dtype": dtype, "shape": [2, 3, 4]}],
        **more,
    })  # fmt: skip


def test_an_accepted_config_has_no_violations() -> None:
    assert check(layer_norm([2]), HTP).json() == {
        "op": "LayerNorm", "backend": "HTP", "soc": "SM8650", "sdk": None, "verdict": "accept", "violations": [],
    }  # fmt: skip


def test_a_rejected_config_lists_all_details() -> None:
    out = check(layer_norm([3], id="n1"), replace(HTP, sdk="2.47")).json()
    assert list(out) == ["id", "op", "backend", "soc", "sdk", "verdict", "violations"]
    assert (out["id"], out["sdk"], out["verdict"]) == ("n1", "2.47", "reject")
    assert [v["rule"] for v in out["violations"]] == ["LayerNorm.C3", "LayerNorm.H5"]
    assert out["violations"][0] == {
        "rule": "LayerNorm.C3",
        "message": "every a in axes must be in [0, the rank of x); got a = 3 at axes[0], axes = [3], x.rank = 3",
        "path": "params.axes",
        "got": "a = 3 at axes[0], axes = [3], x.rank = 3",
        "warning": False,
        "finalize": False,
        "strength": "require",
        "why": "",
        "erratum": None,
        "effect": None,
        "url": "generated/docs/ops/LayerNorm.md#C3",
    }
    assert json.loads(json.dumps(out)) == out


def test_an_op_that_validates_but_does_not_finalize_is_refused_in_graphs() -> None:
    """The verdict accepts it, as the library's validator does; lowering refuses it and finds a variant that finalizes."""
    tensor = {"name": "x", "dtype": "FLOAT_32", "shape": [2, 3]}
    config = from_json({"op": "Gelu", "inputs": [tensor], "outputs": [tensor | {"name": "y"}]})
    verdict = check(config, Target("HTP", "SM8350"))
    assert verdict.verdict == "accept"
    (violation,) = verdict.violations
    assert (violation.rule, violation.strength, violation.warning, violation.refuses) == (
        "HTP-0042",
        "erratum",
        True,
        True,
    )
    assert nearest(config, Target("HTP", "SM8350")) is None
    found = nearest(config, Target("HTP", "SM8350"), finalized=True)
    assert found is not None and found.text == "x f16 instead of f32, y f16 instead of f32"
    assert not check(config, Target("HTP", "SM8650")).violations


def test_warnings_do_not_reject() -> None:
    quant = {"encoding": "AXIS_SCALE_OFFSET", "scale": [0.1, 0.2], "offset": [0, 0], "axis": 0}
    config = from_json({
        "op": "FullyConnected",
        "inputs": [{"dtype": "UFIXED_POINT_8", "shape": [3, 4]},
                   {"dtype": "SFIXED_POINT_8", "shape": [2, 4], "quant": quant}],
        "outputs": [{"dtype": "UFIXED_POINT_8", "shape": [3, 2]}],
    })  # fmt: skip
    verdict = check(config, HTP)
    assert verdict.verdict == "accept"
    assert [(v["rule"], v["warning"]) for v in verdict.json()["violations"]] == [("FullyConnected.H4", True)]


def test_a_rule_that_cannot_be_evaluated_gives_unknown() -> None:
    big = [2**31 - 1] * 4
    config = from_json({"op": "Reshape", "inputs": [{"dtype": "f32", "shape": big}],
                        "outputs": [{"dtype": "f32", "shape": big}]})  # fmt: skip
    verdict = check(config)
    assert (verdict.verdict, [(v.rule, v.undecidable) for v in verdict.violations]) == (
        "unknown",
        [("Reshape.C2", True)],
    )
    assert verdict.violations[0].message.endswith("(cannot be evaluated)")
    # with a rule that is certainly broken, the verdict is certain
    worse = replace(config, outputs=(replace(config.outputs[0], dtype="f16"),))
    assert (check(worse).verdict, [v.rule for v in check(worse).violations]) == ("reject", ["Reshape.C1"])


def test_a_backend_without_a_document_is_unknown() -> None:
    verdict = check(layer_norm([2]), Target("hta"))
    assert verdict.verdict == "unknown"
    assert [v.rule for v in verdict.violations] == ["LayerNorm.TYPES_HTA"]
    assert verdict.json()["backend"] == "HTA"


def test_the_verdict_depends_on_the_soc() -> None:
    config = layer_norm([2], "UFIXED_POINT_16")
    assert check(config, Target("HTP", "SM8650")).verdict == "accept"
    old = check(config, Target("htp", "sm8350"))
    assert (old.verdict, old.json()["soc"]) == ("reject", "SM8350")
    assert [v.rule for v in old.violations] == ["LayerNorm.H3"]
    assert "arch = 68" in old.violations[0].got


@pytest.mark.parametrize(("target", "message"), [
    (Target("HPT", "SM8650"), "unknown backend 'HPT'; did you mean 'HTP'? (known: CPU, GPU, DSP, HTP, HTA, LPAI, AIC)"),
    (Target("HTP"), "HTP: its rules depend on the SoC; give one, e.g. --soc SM8650 (opdb query socs lists them)"),
    (Target("HTP", "SM865"), "unknown SoC 'SM865'; did you mean 'SM8650' or 'SM8635'? ('opdb query socs' lists them)"),
    (Target("CPU", None, "two"), "'two' is not an SDK version; e.g. 2.47"),
])  # fmt: skip
def test_unknown_targets_are_rejected(target: Target, message: str) -> None:
    with pytest.raises(OpdbError) as caught:
        check(layer_norm([2]), target)
    assert str(caught.value) == message


@pytest.mark.parametrize("ask", [check, infer])
def test_an_unknown_op_is_an_error(ask: Any) -> None:
    with pytest.raises(OpdbError) as caught:
        ask(OpConfig("LayerNrom"))
    assert (
        str(caught.value)
        == "unknown op 'LayerNrom'; did you mean 'LayerNorm'? ('opdb query ops' lists the known ones)"
    )


def test_infer_gives_the_output_shapes() -> None:
    config = replace(layer_norm([2]), outputs=())
    assert infer(config) == {"y": [2, 3, 4]}
    with pytest.raises(Undecidable, match="every required parameter must be given; got axes = omitted"):
        infer(replace(config, params=()))


# -- binding


def rules(config: OpConfig) -> list[tuple[str, str, str]]:
    """The broken rules according to Python; checks that C agrees."""
    violations = check(config).violations
    in_c = native.validate(config)
    assert [(v.rule, v.sentence, v.got) for v in violations] == [(v.rule, v.sentence, v.got) for v in in_c]
    return [(v.rule.partition(".")[2], v.got, v.path) for v in violations]


def test_tensors_are_bound_by_name_or_by_position() -> None:
    config = layer_norm([1, 2])  # gamma and beta differ from x: the order shows
    wide = [replace(t, shape=(3, 4)) if t.name != "x" else t for t in config.inputs]
    assert rules(replace(config, inputs=tuple(wide))) == []
    for order in permutations(wide):
        assert rules(replace(config, inputs=order)) == []  # by name
    bare = tuple(replace(t, name="") for t in wide)
    assert rules(replace(config, inputs=bare)) == []
    assert rules(replace(config, inputs=(bare[1], bare[0], bare[2]))) != []  # by position


def test_one_foreign_name_makes_all_positional() -> None:
    config = layer_norm([2])
    x, gamma, beta = config.inputs
    assert rules(replace(config, inputs=(replace(x, name="hidden_states"), gamma, beta))) == []
    swapped = (gamma, replace(x, name="hidden_states"), beta)
    assert ("SHAPE_gamma", "gamma.shape = [2, 3, 4], S = [4], axes = [2]", "params.axes") not in rules(
        replace(config, inputs=swapped)
    )
    assert rules(replace(config, inputs=swapped)) != []


def test_a_name_given_twice_makes_all_positional() -> None:
    config = layer_norm([2])
    x, gamma, _ = config.inputs
    assert rules(replace(config, inputs=(x, gamma, gamma))) == []


def test_an_optional_tensor_may_be_omitted() -> None:
    config = layer_norm([2])
    x, gamma, beta = config.inputs
    absent = TensorConfig("", "f32", (), "NULL")
    for inputs in ((x,), (x, gamma), (x, beta), (beta, x), (x, absent, absent)):
        assert rules(replace(config, inputs=inputs)) == []
    bare_x, bare_beta = replace(x, name=""), replace(beta, name="")
    assert rules(replace(config, inputs=(bare_x, absent, bare_beta))) == []
    assert rules(replace(config, inputs=(absent, gamma, beta))) == [("INPUTS", "x = omitted", "inputs.x")]
    assert rules(replace(config, inputs=())) == [("INPUTS", "x = omitted", "inputs.x")]


def test_variadic_tensors_are_bound_by_name() -> None:
    xs = [TensorConfig(f"xs[{i}]", "f32", (2, i + 1)) for i in range(3)]
    y = TensorConfig("y", "f32", (2, 6))
    axis = ParamConfig("axis", "u32", 1)
    assert rules(OpConfig("Concat", tuple(xs), (axis,), (y,))) == []
    plain = tuple(replace(t, name="xs") for t in xs)
    assert rules(OpConfig("Concat", plain, (axis,), (y,))) == []
    assert rules(OpConfig("Concat", (), (axis,), (y,))) == [("INPUTS", "xs = 0", "inputs.xs")]
    hole = (TensorConfig("xs", "f32", (), "NULL"), *plain[:2])
    assert rules(OpConfig("Concat", hole, (axis,), (y,)))[0] == ("INPUTS", "xs = omitted", "inputs.xs")


@pytest.mark.parametrize(("params", "got", "path"), [
    ((), "axes = omitted", "params.axes"),
    ((ParamConfig("axes", "i32", (2,), (1,)),), "axes = i32", "params.axes"),
    ((ParamConfig("axes", "u32", 2),), "axes.shape = []", "params.axes"),
    ((ParamConfig("axes", "u32", (2, 1), (1, 2)),), "axes.shape = [1, 2]", "params.axes"),
    ((ParamConfig("axes", "u32", (2,), (1,)),) * 2, "axes = given twice", "params.axes"),
    ((ParamConfig("axes", "u32", (2,), (1,)), ParamConfig("epsilon", "f64", 0.1)), "epsilon = f64", "params.epsilon"),
])  # fmt: skip
def test_parameters_must_match_the_definition(params: tuple[ParamConfig, ...], got: str, path: str) -> None:
    assert rules(replace(layer_norm([2]), params=params)) == [("PARAMS", got, path)]


def test_unknown_parameters_do_not_hide_other_rules() -> None:
    params = (
        ParamConfig("axes", "u32", (7,), (1,)),
        ParamConfig("axis", "u32", 2),
        ParamConfig("axis", "f32", 1.0),
    )
    found = rules(replace(layer_norm([2]), params=params))
    assert found[:2] == [("UNKNOWN_PARAMS", "axis = unknown", "params.axis")] * 2
    assert "C3" in {rule for rule, _, _ in found}
    assert [r for r, _, _ in rules(replace(layer_norm([2]), params=params[1:2]))] == [
        "PARAMS",
        "UNKNOWN_PARAMS",
    ]


def test_enum_values_and_tensor_counts_are_checked() -> None:
    x = TensorConfig("", "f32", (2,))
    neuron = OpConfig("ElementWiseNeuron", (x,), (ParamConfig("operation", "u32", 99),), (x,))
    assert rules(neuron) == [("PARAMS", "operation = 99", "params.operation")]
    relu = OpConfig("Relu", (x, x), (), (x, x))
    assert rules(relu) == [("INPUTS", "inputs = 2", "inputs"), ("OUTPUTS", "outputs = 2", "outputs")]
    assert rules(OpConfig("Relu")) == [
        ("INPUTS", "x = omitted", "inputs.x"),
        ("OUTPUTS", "y = omitted", "outputs.y"),
    ]


def test_ignored_parameters_do_not_hide_violations() -> None:
    """CPU 2.47 ignores parameters that PoolMax3d does not have; everything else is still judged."""
    x, y = TensorConfig("", "f32", (1, 4, 4, 4, 8)), TensorConfig("", "f32", (1, 3, 3, 3, 8))
    params = (
        ParamConfig("filter_size", "u32", (2, 2, 2), (3,)),
        ParamConfig("stride", "u32", (1, 1, 1), (3,)),
        ParamConfig("pad_amount", "u32", (0,) * 6, (3, 2)),
    )
    config = OpConfig("PoolMax3d", (x,), (*params, ParamConfig("axis", "i32", 1)), (y,))
    for outputs, verdict in (((y,), "accept"), ((replace(y, shape=(1, 2, 3, 3, 8)),), "reject")):
        judged = check(replace(config, outputs=outputs), Target("CPU"))
        assert judged.verdict == verdict
        assert [v.warning for v in judged.violations if v.rule == "PoolMax3d.UNKNOWN_PARAMS"] == [True]
    assert "UNKNOWN_PARAMS" in {rule for rule, _, _ in rules(config)}


@pytest.mark.parametrize(("data", "verdict"), [
    (None, "reject"),  # zeros
    ([3, 1, 2, 0], "accept"),
    ([[3], [1], [2], [0]], "accept"),
    ([0, 4, 4, -1], "accept"),  # indices out of range are ignored
    ([0, 1, 1, 2], "reject"),
    ([0, 1, 2], "unknown"),  # not as many values as the shape says
    ([0.0, 1.0, 2.0, 3.0], "unknown"),
])  # fmt: skip
def test_values_of_static_tensors_are_checked(data: Any, verdict: str) -> None:
    x, indices = TensorConfig("", "f32", (4, 8)), TensorConfig("", "i32", (4,), "STATIC", data)
    config = OpConfig("BatchPermutation", (x, indices), (), (x,))
    assert check(config, Target("CPU")).verdict == verdict
    context = Target("CPU").context()
    assert [v.got for v in native.validate(config, context)] == [
        v.got for v in check(config, Target("CPU")).violations
    ]
    many = TensorConfig("", "i32", (2**18 + 1,), "STATIC")
    large = OpConfig(
        "BatchPermutation", (replace(x, shape=(2**18 + 1, 8)), many), (), (replace(x, shape=(2**18 + 1, 8)),)
    )
    assert check(large, Target("CPU")).verdict == "unknown"


@pytest.mark.parametrize(
    ("kind", "verdict"), [("NATIVE", "reject"), ("STATIC", "reject"), ("APP_WRITE", "accept")]
)
def test_types_of_tensors_are_checked(kind: str, verdict: str) -> None:
    x, y = TensorConfig("", "f32", (2, 3), kind), TensorConfig("", "f16", (2, 3))
    config = OpConfig("Convert", (x,), (ParamConfig("dynamic_input_data", "bool8", True),), (y,))
    found = native.validate(config, Target("HTP", "SM8650").context())
    assert check(config, Target("HTP", "SM8650")).verdict == verdict
    assert [v.got for v in found] == (
        [] if verdict == "accept" else [f"dynamic_input_data = true, x.type = {kind}"]
    )
