"""The output of `opdb executorch patches`; runs in a process with the environment (opdb.plugins.executorch.env)."""

from __future__ import annotations

from typing import Any

from opdb.plugins.executorch import env
from opdb.plugins.executorch.patches.registry import State, states


def report(self_test: bool = False) -> dict[str, Any]:
    """The patches and their state on the installed release.

    ``self_test``: also run the self-tests of applied patches.
    """
    version = env.version()
    return {
        "executorch": version,
        "known": version in env.RELEASES,
        "releases": list(env.RELEASES),
        "patches": [_row(state, self_test) for state in states()],
    }


def _row(state: State, self_test: bool) -> dict[str, Any]:
    patch = state.patch
    return {
        "id": patch.id,
        "kind": patch.kind,
        "releases": patch.releases,
        "symbols": list(patch.symbols),
        "why": patch.why,
        "upstream": patch.upstream,
        "left_out": state.why,
        "needed": patch.needed() if self_test and state.applied else None,
    }
