"""What a process of thousands of tests would do again and again, and once is enough.

Lowering makes many objects in a process that holds a million: the collector, and PyTorch's list of its composite operators,
took most of the time of ExecuTorch's suite.
"""

from __future__ import annotations

import gc
import sys
from typing import Any


def spare_time() -> None:
    """Call it after the tests are collected: what they imported stays, and is not looked through any more."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    if "torch" in sys.modules:
        _list_composite_operators_once()


def _list_composite_operators_once() -> None:
    """Until an operator or a namespace is registered, PyTorch's list is the one that it made before."""
    import torch
    from torch._export import utils
    from torch.export import exported_program

    collect, materialize = utils._collect_all_valid_cia_ops, utils._materialize_cpp_cia_ops
    made: dict[str, Any] = {}

    def registered() -> int:
        return len(torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd"))

    def materialize_once() -> None:
        if made.get("materialized") != (now := registered()):
            materialize()
            made["materialized"] = now

    def collect_once() -> Any:
        if made.get("collected") != (now := (registered(), tuple(torch.ops._dir))):
            made["operators"], made["collected"] = collect(), now
        return made["operators"]

    utils._materialize_cpp_cia_ops = materialize_once
    utils._collect_all_valid_cia_ops = exported_program._collect_all_valid_cia_ops = collect_once
