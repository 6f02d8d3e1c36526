"""Hashes that the catalog and its SQL rows must agree on; without models, so that a run with nothing to do loads none."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any


def to_json(value: Any) -> str:
    """JSON text in the format of the tables."""
    return json.dumps(value, ensure_ascii=False)


def family_hash(digest: str, ops: Iterable[tuple[str, str]]) -> str:
    """sha256 over a family's digest and the (name, hash) pairs of its candidates' ops."""
    text = json.dumps([digest, sorted(ops)], ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
