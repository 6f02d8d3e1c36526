"""All errata by id."""

from __future__ import annotations

from collections.abc import Mapping

from opdb.generated.constants.errata import ERRATA
from opdb.runtime.errata import Erratum

RECORDS: Mapping[str, Erratum] = ERRATA
