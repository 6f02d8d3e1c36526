"""All errata by id, and which of them a violation reports."""

from __future__ import annotations

from collections.abc import Mapping

from opdb.generated.constants.errata import ERRATA
from opdb.runtime.checks import Violation
from opdb.runtime.errata import Erratum

RECORDS: Mapping[str, Erratum] = ERRATA
#: Hits of later records are told and change no lowering yet: many conditions read data types alone, and the candidates
#: in which such a fault cannot show have to say so first (``avoids`` in specs/torch).
_LAST_OBEYED = "HTP-0199"


def erratum_of(violation: Violation) -> str:
    """The id of the erratum that a violation reports and that lowering obeys; "" for any other violation."""
    obeyed = violation.erratum.startswith("HTP-") and violation.erratum <= _LAST_OBEYED
    return violation.erratum if obeyed else ""
