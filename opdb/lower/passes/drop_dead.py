"""drop-dead: ops of which nothing is read, and constants that no op reads."""

from __future__ import annotations

from opdb.lower.passes.edit import Edit


def run(edit: Edit) -> int:
    """How many ops and constants are gone."""
    gone = edit.drop_dead()
    unread = [t.name for t in edit.tensors.values() if t.type == "STATIC" and not edit.readers(t.name)]
    for name in unread:
        del edit.tensors[name]
    return gone + len(unread)
