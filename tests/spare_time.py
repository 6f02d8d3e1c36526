"""Caches repeated work in a process of thousands of tests.

Lowering makes many objects in a process with a million: the garbage collector, and PyTorch's list of its composite operators,
took most of the time of ExecuTorch's suite.
"""

from __future__ import annotations

import functools
import gc
import sys
from typing import Any


def spare_time() -> None:
    """Call it after the tests are collected: imported objects are permanent, and no longer scanned."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    if "torch" in sys.modules:
        _list_composite_operators_once()
        _register_kernels_fast()
        _read_schemas_once()


def _list_composite_operators_once() -> None:
    """Until an operator or a namespace is registered, PyTorch's previous list is returned."""
    import torch
    from torch._export import utils
    from torch.export import decomp_utils, exported_program

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
    for module in (utils, exported_program, decomp_utils):
        module._collect_all_valid_cia_ops = collect_once  # type: ignore[attr-defined]


def _register_kernels_fast() -> None:
    """Each lowering registers and removes kernels of a thousand operators, and PyTorch evaluates annotations for each."""
    import torch
    from torch._ops import OperatorBase

    register = OperatorBase.py_impl

    def py_impl(self: Any, key: Any) -> Any:
        if type(key) is not torch._C.DispatchKey or key == torch._C.DispatchKey.Python:
            return register(self, key)

        def put(kernel):  # type: ignore[no-untyped-def]  # annotations are what takes the time
            if key in self.py_kernels:
                raise RuntimeError(f"Trying to override a python impl for {key} on operator {self.name()}")
            self.py_kernels[key] = kernel
            self._dispatch_cache.clear()
            return kernel

        return put

    OperatorBase.py_impl = py_impl  # type: ignore[method-assign]


def _read_schemas_once() -> None:
    """ExecuTorch reads the same operators' schemas in every lowering; they never change."""
    from torchgen.model import FunctionSchema

    FunctionSchema.parse = staticmethod(functools.cache(FunctionSchema.parse))  # type: ignore[method-assign]
