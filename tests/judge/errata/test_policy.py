"""The policy for an erratum on a target: avoid, warn or ignore."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opdb.catalog.targets.target import Target
from opdb.judge.errata.policy import AVOID, IGNORE, WARN, active, costs, decide, in_scope, policy, warning
from opdb.judge.errata.records import RECORDS
from opdb.runtime.errata import Erratum

DEVICE = Target("HTP", "SM8650", "2.47")
EMULATOR = replace(DEVICE, execution="emulator")
WRONG = Erratum(
    id="HTP-9001",
    backend="HTP",
    op="Gather",
    title="Gather returns wrong rows",
    effect="wrong-result",
    cause="unknown",
    workaround="gather-from-one-matrix",
    cost_class="large",
    cost_note="one Concat and one ElementWiseAdd",
    seen=(("HTP 2.47.0", ("SM8350", "SM8650"), "2026-11-20"),),
    seen_on_device=False,
    absent_on_device=False,
    execution="emulator",
    since="2.47",
    until=None,
    arch=(),
    socs=(),
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, WARN),
        ({"cost_class": ""}, WARN),
        ({"cost_class": "none"}, AVOID),
        ({"cost_class": "small"}, AVOID),
        ({"cost_class": "small", "absent_on_device": True}, WARN),
        ({"cause": "kernel"}, WARN),
        ({"cause": "graph-preparation"}, AVOID),
        ({"effect": "not-finalized", "cause": "graph-preparation"}, AVOID),
        ({"seen_on_device": True}, AVOID),
        ({"effect": "crash"}, WARN),
        ({"effect": "imprecise", "cost_class": "small"}, AVOID),
        ({"effect": "refuses-valid"}, AVOID),
    ],
)
def test_a_device_avoids_likely_and_cheap_errata(changes: dict[str, object], expected: str) -> None:
    erratum = replace(WRONG, **changes)  # type: ignore[arg-type]
    assert decide(erratum, DEVICE) == expected
    assert decide(erratum, EMULATOR) == AVOID


@pytest.mark.parametrize("errata", [AVOID, WARN, IGNORE])
@pytest.mark.parametrize("target", [DEVICE, EMULATOR])
def test_an_explicit_policy_is_followed(errata: str, target: Target) -> None:
    asked = replace(target, errata=errata)
    assert decide(WRONG, asked) == errata
    assert decide(replace(WRONG, cause="graph-preparation"), asked) == errata
    assert decide(replace(WRONG, effect="refuses-valid"), asked) == AVOID


def test_an_erratum_can_be_ignored_by_id() -> None:
    for erratum in (WRONG, replace(WRONG, effect="refuses-valid")):
        assert decide(erratum, replace(EMULATOR, ignored=frozenset({"HTP-9001"}))) == IGNORE
        assert decide(erratum, replace(EMULATOR, ignored=frozenset({"HTP-9002"}))) == AVOID


@pytest.mark.parametrize(
    ("changes", "inside"),
    [
        ({}, True),
        ({"backend": "CPU"}, False),
        ({"since": "2.48"}, False),
        ({"since": None}, True),
        ({"until": "2.46"}, False),
        ({"until": "2.47"}, True),
        ({"arch": (75,)}, True),
        ({"arch": (68, 73)}, False),
        ({"socs": ("SM8650",)}, True),
        ({"socs": ("SM8350",)}, False),
    ],
)
def test_a_scope_names_backend_version_architecture_and_soc(changes: dict[str, object], inside: bool) -> None:
    assert in_scope(replace(WRONG, **changes), DEVICE) is inside  # type: ignore[arg-type]


def test_htp_errata_do_not_apply_to_other_backends() -> None:
    """This holds even with the policy to avoid everything."""
    others = [Target(b, execution="emulator", errata=AVOID) for b in ("CPU", "GPU")] + [Target()]
    of_htp = [e for e in RECORDS.values() if e.backend == "HTP"]
    assert of_htp
    assert {policy(e.id, target) for e in of_htp for target in others} == {IGNORE}
    assert any(active(e.id, EMULATOR) for e in of_htp)


def test_a_warning_names_fault_place_and_cost() -> None:
    assert warning(WRONG) == (
        "Gather returns wrong rows (seen on the emulator, HTP 2.47.0 for SM8350 and SM8650); "
        "avoiding it costs one Concat and one ElementWiseAdd"
    )
    assert costs(replace(WRONG, cost_note="", workaround="reject")) == "leaves the node to the CPU"
