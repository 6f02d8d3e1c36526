"""The folder's helpers are modules of their own; the benchmark that writes docs/results/field-cases.md uses them, too."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
