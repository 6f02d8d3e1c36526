"""The QNN SDKs that the specs mention, in sources, libraries, and version limits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from opdb.core.sdk import sdk_number
from opdb.spec.catalog import Catalog

if TYPE_CHECKING:
    from pydantic import BaseModel

VERSION = re.compile(r"\d+\.\d+(\.\d+)*")
_RUN = re.compile(
    r"(?:^| )(\d+\.\d+(?:\.\d+)*)(?: |$)"
)  # in the name of a run or a library; e.g. probe HTP 2.47.0


def sdks_of(catalog: Catalog) -> tuple[str, ...]:
    """The sorted versions, as spelled in the specs, cached; skips device evidence, which cites other documents."""
    return catalog.once("sdks", lambda: _sdks_of(catalog))


def _sdks_of(catalog: Catalog) -> tuple[str, ...]:
    parts = (catalog.own, catalog.bases, catalog.errata, catalog.backends)
    models: list[BaseModel] = [model for part in parts for model in part.values()]
    models += [candidate.definition for candidate in catalog.candidates]
    found = {v for model in models for v in _named(catalog.dumped(model))}
    return tuple(sorted(found, key=lambda v: (sdk_number(v), v)))


def _named(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for part in value:
            yield from _named(part)
    elif isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(part, str):
                yield from _named({} if key == "evidence" else part)
            elif key in ("since", "until", "sdk") and VERSION.fullmatch(part):
                yield part
            elif key in ("source", "library"):
                head, _, version = part.partition("#")[0].partition("@")
                yield from [version] if VERSION.fullmatch(version) else _RUN.findall(head)
