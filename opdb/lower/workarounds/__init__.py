"""The workarounds that errata name: functions that put other ops in the place of one op.

A workaround reads the op and the facts about its node, and nothing else.  Whether it is applied is the policy's
decision (opdb.judge.errata.policy); when it is applied is opdb.lower.obey's.
"""

from __future__ import annotations

from collections.abc import Mapping

from opdb.lower.workarounds import htp
from opdb.lower.workarounds.surroundings import Facts, InProgram, Nowhere, Surroundings, Workaround

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
]

#: What an erratum may name in the place of a workaround: another candidate of the lowering, or none.
NOT_A_FUNCTION = frozenset({"other-candidate", "reject"})
#: name -> workaround of an op for which the validator reports the erratum.
OF_OPS: Mapping[str, Workaround] = {**htp.OF_OPS}
#: Of these, the ones whose erratum is about values that they keep away: the config of their op still has it.
OF_VALUES = htp.OF_VALUES
#: name -> workaround that itself finds the ops that the erratum is about, as these depend on the surroundings.
OF_PATTERNS: Mapping[str, Workaround] = {**htp.OF_PATTERNS}
#: name -> workaround of an erratum that depends on all ops before and behind an op.
OF_PROGRAMS: Mapping[str, InProgram] = {**htp.OF_PROGRAMS}
#: erratum -> whether a node that is computed in floating point between conversions has it.
BETWEEN_CONVERSIONS = {**htp.BETWEEN_CONVERSIONS}
