"""Kernels for other programs: ONNX Runtime's custom ops, and C libraries, also for Hexagon."""

from __future__ import annotations

from opdb.core.plugins import Commands

COMMANDS = (
    Commands("opdb.plugins.packages.commands.build", ("build",), after="cost"),
    Commands("opdb.plugins.packages.commands.onnx_runtime", ("package",)),
)
TEMPLATES = ("opdb.plugins.packages.codegen",)
EXECUTORS = {"hexagon": "opdb.plugins.packages.hexagon_executor:HexagonExecutor"}
