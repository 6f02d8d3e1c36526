"""opdb in ExecuTorch: builders, quantizer, delegate, kernels."""

from __future__ import annotations

from opdb.core.plugins import Commands

COMMANDS = (
    Commands("opdb.plugins.executorch.commands.debug", ("debug",), after="run"),
    Commands("opdb.plugins.executorch.commands.executorch", ("executorch",), after="aic"),
    Commands("opdb.plugins.executorch.commands.demo", ("demo",), after="export"),
)
PROGRAMS = {".pte": "opdb.plugins.executorch.commands.pte"}
CHECKS = {"executorch": "opdb.plugins.executorch.tools.check:check_model"}
EVIDENCE = {"operators": "opdb.plugins.executorch.evidence"}
DIAGNOSES = {"executorch": "opdb.plugins.executorch.env:diagnosis"}
TEMPLATES = ("opdb.plugins.executorch.codegen",)
