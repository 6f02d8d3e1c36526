"""Ops on Hexagon's instruction set: the tools that compile for it, and a process under QEMU that runs what they made.

server = Server([emulator(), "DIR/opdb_server"])   # of `opdb build --target hexagon -o DIR`
y, = server.run(config, [x])
"""

from __future__ import annotations

from opdb.plugins.hexagon.process import Counted, ServerLost
from opdb.plugins.hexagon.server import Server
from opdb.plugins.packages.hexagon_tools import check_compiler, emulator

__all__ = ["Counted", "Server", "ServerLost", "check_compiler", "emulator"]
