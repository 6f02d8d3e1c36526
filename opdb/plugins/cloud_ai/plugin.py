"""Custom ops for Qualcomm Cloud AI."""

from __future__ import annotations

from opdb.core.plugins import Commands

COMMANDS = (
    Commands("opdb.plugins.cloud_ai.commands.aic", ("aic",), after="package"),
    Commands("opdb.plugins.cloud_ai.commands.package", ("package",)),
    Commands("opdb.plugins.cloud_ai.commands.imports", ("import",)),
)
TEMPLATES = ("opdb.plugins.cloud_ai.codegen",)
