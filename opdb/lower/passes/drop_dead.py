"""drop-dead: removes ops whose results are not read, and constants that no op reads."""

from __future__ import annotations

from opdb.lower.passes.edit import Edit


def run(edit: Edit) -> int:
    """Returns the number of ops and constants removed."""
    gone = edit.drop_dead()
    unread = [t.name for t in edit.tensors.values() if t.type == "STATIC" and not edit.readers(t.name)]
    for name in unread:
        del edit.tensors[name]
    return gone + len(unread)
