"""Programs for Hexagon, under QEMU."""

from __future__ import annotations

TEMPLATES = ("opdb.plugins.hexagon",)
