"""Hashes that the catalogue and its rows in SQL must agree on; no models, so that a run with nothing to do loads none."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any


def to_json(value: Any) -> str:
    """Data as the tables hold it."""
    return json.dumps(value, ensure_ascii=False)


def family_hash(digest: str, ops: Iterable[tuple[str, str]]) -> str:
    """sha256 over a family, by its digest, and over the ops of its candidates, name and hash."""
    text = json.dumps([digest, sorted(ops)], ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
