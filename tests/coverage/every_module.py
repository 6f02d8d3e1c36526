"""The modules of modules.py and of the files for each family of operators."""

from __future__ import annotations

from arithmetic import ARITHMETIC_CASES
from conversions import MORE_CASES
from core_modules import CORE_CASES
from indexing import INDEX_CASES
from modules import BOUNDS, Case
from modules import CASES as DIRECT
from windows import WINDOW_CASES

__all__ = ["BOUNDS", "CASES", "Case"]
CASES = (*DIRECT, *CORE_CASES, *INDEX_CASES, *MORE_CASES, *ARITHMETIC_CASES, *WINDOW_CASES)
