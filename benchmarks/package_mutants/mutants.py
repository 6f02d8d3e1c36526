"""Faults in the C that stands between whoever loads a package and a kernel: a text of a file, and what a mistake makes of it."""

from __future__ import annotations

import cloud_ai_faults
from memory_faults import MEMORY
from ort_faults import OPS, VALUES
from qnn_faults import CPU, DESCRIPTIONS, HTP, LISTS, NODES, SCALARS, TILES, VIEWS

#: package kind -> what can be wrong in the files that it is made of
MUTANTS = {
    "HTP": (*VIEWS, *LISTS, *SCALARS, *HTP, *TILES, *NODES, *DESCRIPTIONS),
    "CPU": (*LISTS, *CPU),
    "ORT": (*VALUES, *OPS),
    "AIC": cloud_ai_faults.FAULTS,
}
#: package kind -> faults that no result shows, or not always: a sanitizer has to
UNSEEN = {**MEMORY, "AIC": cloud_ai_faults.UNSEEN}
