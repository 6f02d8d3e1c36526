"""Makes the cases importable; benchmarks/field_cases.py uses them, too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "corpus" / "field"))
