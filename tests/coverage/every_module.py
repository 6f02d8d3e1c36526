"""The modules of modules.py and core_modules.py."""

from __future__ import annotations

from core_modules import CORE_CASES
from modules import BOUNDS, Case
from modules import CASES as DIRECT

__all__ = ["BOUNDS", "CASES", "Case"]
CASES = (*DIRECT, *CORE_CASES)
