"""What the self-tests of patches say of the installed release without them, and with them; in a child process."""

from __future__ import annotations

import traceback
import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch

import opdb.executorch
from opdb.executorch import env
from opdb.executorch.builder import decider, operators
from opdb.executorch.patches.registry import Context, Patch, found, patches, state, states
from opdb.generated.builders import TARGETS
from opdb.lowering.select import lower
from opdb.targets.target import Target


def asked(patch: Patch) -> bool | str:
    torch.manual_seed(0)
    try:
        return patch.needed()
    except Exception:
        return traceback.format_exc()


def everything() -> dict[str, SimpleNamespace]:
    """Of each patch: why it is left out ("": it is not), and its self-test without and with it."""
    targets = tuple(t for t in TARGETS if _known(t))
    names = {edge: name for name in targets for edge in operators.edge_names(name)}
    context = Context(
        targets, names, frozenset(), decider.Decider(lower, None, Target()), lambda *_: None, {}, targets
    )
    answers = {}
    for one in states():
        patch = one.patch
        if not one.applied:
            answers[patch.id] = SimpleNamespace(left_out=one.why, without=None, applied=None)
            continue
        without = asked(patch)
        undo = patch.apply(context)
        try:
            applied = asked(patch)
        finally:
            undo()
        answers[patch.id] = SimpleNamespace(left_out="", without=without, applied=applied)
    return answers


def on_a_later_release() -> dict[str, Any]:
    """The installed release, taken for one that opdb was not run with."""
    env.version = lambda: "99.0.0"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        made = opdb.executorch.register()
    opdb.executorch.unregister()
    one = next(p for p in patches() if not p.until)
    return {
        "applied": {s.patch.id for s in made.patches if s.applied},
        "there": {p.id for p in patches() if all(map(found, p.symbols))},
        "warning": next(str(w.message) for w in said if "opdb was run with" in str(w.message)),
        "gone": state(replace(one, symbols=("executorch.exir.pass_base:Nothing",))).why,
        "passes": state(replace(one, needed=lambda: False)).why,
        "raises": state(replace(one, needed=lambda: bool(1 / 0))).why,
    }


def _known(name: str) -> bool:
    try:
        operators.overload(name)
    except Exception:
        return False
    return True
