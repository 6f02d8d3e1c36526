"""A warning about values that do not fit their type, and the limits of fp16.

fp16 ends at 65504.  Its smallest number is 2**-24 (6e-8), and below 2**-14 (6.1e-5) it has steps of that size.
"""

from __future__ import annotations

from collections.abc import Mapping

#: The largest number of fp16.
FP16_MAX = 65504.0

#: A warning in the form that rows have: form, rule, message, and brief.
Warned = Mapping[str, str]


def warning(rule: str, message: str) -> Warned:
    """The warning of a rule, e.g. FP16.OVERFLOW; its brief form is the whole message."""
    return {"form": "", "rule": rule, "message": message, "brief": message}
