"""Makes the corpus of PyTorch operators importable; its modules import each other by name."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "corpus" / "operators"))
