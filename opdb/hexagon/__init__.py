"""Ops on Hexagon's instruction set: the tools that compile for it, and a process under QEMU that runs what they made.

server = Server([emulator(), "DIR/opdb_server"])   # of `opdb build --target hexagon -o DIR`
y, = server.run(config, [x])
"""

from __future__ import annotations

from opdb.hexagon.server import Counted, Server
from opdb.hexagon.tools import check_compiler, emulator

__all__ = ["Counted", "Server", "check_compiler", "emulator"]
