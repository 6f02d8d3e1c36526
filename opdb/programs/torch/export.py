"""Exports PyTorch modules as programs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from opdb.core.errors import MissingExtra, OpdbError
from opdb.core.foreign import quiet

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.nn import Module


def export(module: Module, inputs: tuple[Any, ...], name: str = "the model") -> ExportedProgram:
    """``torch.export.export`` in eval mode.  Raises OpdbError with PyTorch's reason."""
    torch = require_torch()
    try:
        with quiet():
            return torch.export.export(in_eval_mode(module), inputs)
    except Exception as error:  # PyTorch raises anything here: its own errors, the model's errors, assertions
        raise OpdbError(f"{name} cannot be exported: {first_line(error)}") from error


def in_eval_mode(module: Module) -> Module:
    """``module`` in eval mode; one that torch.export or PT2E made has a mode already and refuses the call."""
    with suppress(NotImplementedError):
        module.eval()
    return module


def require_torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtra("PyTorch", "torch") from None
    return torch


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
