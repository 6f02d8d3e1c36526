"""The cases, which benchmarks/field_cases.py uses, too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "corpus" / "field"))
