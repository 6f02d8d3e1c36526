"""The ops of the package for Cloud AI: the fitting ones of ``ops.py``, and one whose threads need their own memory."""

from __future__ import annotations

from pathlib import Path

import ops

from opdb.plugins.cloud_ai import aic_package
from opdb.plugins.cloud_ai.aic_package import AicFolder
from opdb.plugins.cloud_ai.codegen import aic

API = "1.21"
SCRATCH = 65536
GROUPED = {
    "Grouped": """
summary: Each four elements of a row in the opposite order, through the scratch.
inputs:
  x: [N, C]
outputs:
  y: [N, C]
kernel:
  function: opdb_grouped
  scratch: 4 * prod(x.shape)
  tiling:
    axes: [any, {multiple: 4}]
    inputs:
      x: [same, same]
  dtypes: [f32]
"""
}
GROUPED_C = """
opdb_status opdb_grouped(const opdb_tensor *x, const opdb_tensor *y, void *scratch) {
    const int64_t n = size_of(x), channels = x->dims[1];
    float *kept = scratch;
    for (int64_t i = 0; i < n; i++)
        kept[i] = ((const float *)x->data)[i];
    for (int64_t i = 0; i < n; i++) {
        const int64_t c = i % channels, first = i - c + c / 4 * 4;
        const int64_t last = first + 3 < i - c + channels ? first + 3 : i - c + channels - 1;
        ((float *)y->data)[i] = kept[first + last - i];
    }
    return OPDB_OK;
}
"""


def write(folder: Path) -> AicFolder:
    """Writes the package to ``folder / "made"``."""
    catalog, kernels = ops.catalog(folder / "specs", GROUPED, GROUPED_C)
    fitting = [n for n in (*ops.SPECS, *GROUPED) if not aic.unfit(catalog.compiled(n))]
    choice = aic.Choice(API, name="mutants", scratch=SCRATCH)
    return aic_package.write(catalog, fitting, choice, folder / "made", kernels=[kernels], force=True)
