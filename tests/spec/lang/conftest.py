"""Makes the C helpers of tests/runtime/native and the evaluators of tests/property importable."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]
sys.path[:0] = [str(TESTS / "property"), str(TESTS / "runtime" / "native")]
