"""The workarounds that errata name: functions that replace one op by other ops.

A workaround reads the op and the facts about its node, and nothing else.  opdb.judge.errata.policy decides whether it is
applied, opdb.lower.obey when.
"""

from __future__ import annotations

from collections.abc import Mapping

from opdb.lower.workarounds import htp
from opdb.lower.workarounds.surroundings import (
    Facts,
    InProgram,
    Nowhere,
    Surroundings,
    Workaround,
    surroundings_of,
)

__all__ = [
    "BETWEEN_CONVERSIONS",
    "NOT_A_FUNCTION",
    "OF_OPS",
    "OF_PATTERNS",
    "OF_PROGRAMS",
    "OF_VALUES",
    "Facts",
    "InProgram",
    "Nowhere",
    "Surroundings",
    "Workaround",
    "surroundings_of",
]

#: Values that an erratum may have instead of a workaround: another candidate of the lowering, or none.
NOT_A_FUNCTION = frozenset({"other-candidate", "reject"})
#: name -> workaround of an op for which the validator reports the erratum.
OF_OPS: Mapping[str, Workaround] = {**htp.OF_OPS}
#: Workarounds that clamp values: the op config still matches the erratum afterward.
OF_VALUES = htp.OF_VALUES
#: name -> workaround that itself finds the ops of the erratum, as these depend on the surroundings.
OF_PATTERNS: Mapping[str, Workaround] = {**htp.OF_PATTERNS}
#: name -> workaround of an erratum that depends on all ops before and after an op.
OF_PROGRAMS: Mapping[str, InProgram] = {**htp.OF_PROGRAMS}
#: erratum -> a function that is true if a node computed in floating point between conversions has it.
BETWEEN_CONVERSIONS = {**htp.BETWEEN_CONVERSIONS}
