"""Faults in the C between a package's loader and a kernel: a text of a file, and the mistaken text."""

from __future__ import annotations

import cloud_ai_faults
from memory_faults import MEMORY
from ort_faults import OPS, VALUES
from qnn_faults import CPU, DESCRIPTIONS, HTP, LISTS, NODES, SCALARS, TILES, VIEWS

#: package kind -> the possible faults in the files that it is made of
MUTANTS = {
    "HTP": (*VIEWS, *LISTS, *SCALARS, *HTP, *TILES, *NODES, *DESCRIPTIONS),
    "CPU": (*LISTS, *CPU),
    "ORT": (*VALUES, *OPS),
    "AIC": cloud_ai_faults.FAULTS,
}
#: package kind -> faults that no result shows, or not always: a sanitizer has to
UNSEEN = {**MEMORY, "AIC": cloud_ai_faults.UNSEEN}
