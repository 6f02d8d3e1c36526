"""Results of the patches' self-tests for the installed release, without and with them; in a child process."""

from __future__ import annotations

import re
import sys
import traceback
import warnings
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

import opdb.plugins.executorch
from opdb.catalog.targets.target import Target
from opdb.generated.builders import TARGETS
from opdb.lower.select import lower
from opdb.plugins.executorch import env
from opdb.plugins.executorch.builder import decider, operators
from opdb.plugins.executorch.patches.registry import Context, Patch, found, patches, state, states

ROOT = Path(__file__).parents[3]


def asked(patch: Patch) -> bool | str:
    torch.manual_seed(0)
    try:
        return patch.needed()
    except Exception:
        return traceback.format_exc()


def every_target() -> Context:
    targets = tuple(t for t in TARGETS if _known(t))
    names = {edge: name for name in targets for edge in operators.edge_names(name)}
    decide = decider.Decider(lower, None, Target())
    return Context(targets, names, frozenset(), decide, lambda *_: None, {}, targets)


def everything() -> dict[str, SimpleNamespace]:
    """Patch -> why it is omitted ("" if it is not), and its self-test without and with it."""
    context = every_target()
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
    """The results if the installed release counts as one that opdb was not tested with."""
    env.version = lambda: "99.0.0"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        made = opdb.plugins.executorch.register()
    opdb.plugins.executorch.unregister()
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


def reproductions() -> dict[str, tuple[str, str | None]]:
    """File of ``upstream/`` -> how its program ends without opdb's patch, and with it (None: not for this release)."""
    by_id = {one.patch.id: one for one in states()}
    ended = {}
    for path in sorted((ROOT / "upstream").glob("*.md")):
        blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(), re.M | re.S)
        if not blocks:
            continue
        (program,) = blocks
        without = end_of(program)
        here = [one for name in (path.stem, f"{path.stem}-1.4") if (one := by_id.get(name)) and one.applied]
        if not here:
            ended[path.stem] = (without, None)
            continue
        undo = here[0].patch.apply(every_target())
        try:
            ended[path.stem] = (without, end_of(program))
        finally:
            undo()
    return ended


def end_of(program: str) -> str:
    module = sys.modules["reproduction"] = ModuleType(
        "reproduction"
    )  # torch.export looks here for the traced code
    try:
        exec(compile(program, "reproduction", "exec"), module.__dict__)
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""
