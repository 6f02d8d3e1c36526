"""Runs ops on Hexagon's instruction set, in a process under QEMU.

server = Server([emulator(), "DIR/opdb_server"])   # of `opdb build --target hexagon -o DIR`
y, = server.run(config, [x])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdb.core.lazy import lazy

if TYPE_CHECKING:
    from opdb.plugins.hexagon.process import Counted, ServerLost
    from opdb.plugins.hexagon.server import Server
    from opdb.plugins.hexagon.tools import check_compiler, emulator

#: The module of each public name.
_MODULES = {
    "Counted": "opdb.plugins.hexagon.process",
    "Server": "opdb.plugins.hexagon.server",
    "ServerLost": "opdb.plugins.hexagon.process",
    "check_compiler": "opdb.plugins.hexagon.tools",
    "emulator": "opdb.plugins.hexagon.tools",
}

__all__ = ["Counted", "Server", "ServerLost", "check_compiler", "emulator"]

__getattr__ = lazy(__name__, _MODULES)
