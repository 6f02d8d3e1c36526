"""Builds programs for Hexagon and runs them under QEMU."""

from __future__ import annotations

TEMPLATES = ("opdb.plugins.hexagon",)
