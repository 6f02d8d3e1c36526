"""The C helpers of tests/native, and a way to run what may end the process."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "native")]
