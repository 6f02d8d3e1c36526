"""Patches of ExecuTorch: the unpatched release needs each one, and each bug is fixed by its patch."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from opdb.plugins.executorch import env, process
from opdb.plugins.executorch.patches.registry import KINDS, patches

pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]
HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@pytest.fixture(scope="module")
def asked(environment: env.Environment) -> dict[str, Any]:
    found: dict[str, Any] = process.call("patch_cases:everything", environment=environment, path=[HERE])
    return found


@pytest.mark.parametrize("patch", patches(), ids=lambda p: p.id)
def test_the_release_needs_every_applied_patch(asked: dict[str, Any], patch: Any) -> None:
    got = asked[patch.id]
    if not got.left_out:
        assert got.without is True, got.without
        if patch.kind == "bug":
            assert got.applied is False, got.applied


def test_omitted_patches_are_for_other_releases(asked: dict[str, Any]) -> None:
    """Applies to releases that opdb was tested with; a removed symbol ends the range of its patch."""
    left_out = {name for name, got in asked.items() if got.left_out}
    assert left_out == {p.id for p in patches() if not _in_range(p, env.version())}


def test_self_tests_decide_on_a_later_release(environment: env.Environment) -> None:
    said = process.call("patch_cases:on_a_later_release", environment=environment, path=[HERE])
    assert said["applied"] == {p.id for p in patches() if not p.until} & said["there"]
    assert re.fullmatch(
        r"executorch 99\.0\.0: opdb was run with .*; of its \d+ patches \d+ apply, .*", said["warning"]
    )
    assert said["gone"] == "the release has no executorch.exir.pass_base:Nothing"
    assert said["passes"] == "the release passes its self-test without it"
    assert said["raises"] == "its self-test ends with ZeroDivisionError: division by zero"


def test_the_command_lists_the_patches(environment: env.Environment) -> None:
    opdb = [sys.executable, "-m", "opdb", "executorch", "patches", "--json"]
    said = json.loads(subprocess.run(opdb, capture_output=True, text=True, check=True).stdout)
    assert said["executorch"] == env.version() and said["known"]
    assert [row["id"] for row in said["patches"]] == [p.id for p in patches()]
    assert all(
        bool(row["left_out"]) != _in_range(p, env.version())
        for row, p in zip(said["patches"], patches(), strict=True)
    )


def test_the_docs_state_the_number_of_patches() -> None:
    text = (ROOT / "docs/guides/executorch.md").read_text()
    for release in env.RELEASES:
        counts = Counter(p.kind for p in patches() if _in_range(p, release))
        cells = " | ".join(str(n) for n in (counts.total(), *(counts[kind] for kind in KINDS)))
        assert f"| {release} | {cells} |" in text


def _in_range(patch: Any, release: str) -> bool:
    numbers = env.numbers(release)
    return env.numbers(patch.since) <= numbers and not (patch.until and numbers >= env.numbers(patch.until))


def test_patched_functions_keep_their_signatures(environment: env.Environment) -> None:
    """ExecuTorch, its tests and other programs pass arguments by name, too."""
    script = """
import inspect, json
from importlib import import_module
from opdb.plugins.executorch import register
from opdb.plugins.executorch.patches.registry import states

def signature(symbol):
    module, _, names = symbol.partition(":")
    owner = import_module(module)
    for name in names.split("."):
        owner = getattr(owner, name)
    return inspect.signature(owner) if inspect.isroutine(owner) else None

symbols = dict.fromkeys(s for state in states() if state.applied for s in state.patch.symbols)
before = {symbol: signature(symbol) for symbol in symbols}
register()
lost = []
for symbol, old in before.items():
    new = signature(symbol)
    if old is None or new is None:
        continue
    kinds = {p.kind for p in new.parameters.values()}
    named = inspect.Parameter.VAR_KEYWORD in kinds
    for name, given in list(old.parameters.items()):
        variadic = given.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        if name not in ("self", "_") and not variadic and name not in new.parameters and not named:
            lost.append(f"{symbol}: {name}")
        if name in new.parameters and given.default is not inspect.Parameter.empty and not variadic:
            if new.parameters[name].default is inspect.Parameter.empty:
                lost.append(f"{symbol}: {name} has no default")
    required = [n for n, p in new.parameters.items()
                if n != "self" and "_" not in old.parameters and p.default is inspect.Parameter.empty
                and p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and n not in old.parameters]
    lost += [f"{symbol}: asks for {n}" for n in required]
print(json.dumps({"asked": len(before), "lost": lost}))
"""
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment.child(), capture_output=True, text=True, check=True
    )
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["asked"] > 40
    assert not found["lost"]
