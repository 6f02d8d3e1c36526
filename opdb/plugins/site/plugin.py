"""The command `opdb site`."""

from __future__ import annotations

from opdb.core.plugins import Commands

COMMANDS = (Commands("opdb.plugins.site.commands.site", ("site",), after="diff"),)
