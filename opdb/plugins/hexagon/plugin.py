"""Kernels on Hexagon, under QEMU."""

from __future__ import annotations

EXECUTORS = {"hexagon": "opdb.plugins.hexagon.executor:HexagonExecutor"}
