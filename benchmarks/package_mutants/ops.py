"""Ops whose results depend on everything that a package passes to a kernel, and their kernels."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import opdb.specs
from opdb.catalog.store import read_catalog
from opdb.spec.catalog import Catalog

PACKAGE = "OpdbMutants"
SPECS = {
    "Weighted": """
summary: Inputs and parameters in one number, each with a weight of its own.
inputs:
  x: [S...]
  a: {shape: [S...], optional: true}
  b: {shape: [S...], optional: true}
params:
  list: u32[]
  rows: i32[][2]
  reals: f32[]
  mode: "enum {ONE: 1, TWO: 2}"
  flag: bool8
  whole: i32
  real: f32 = 0.5
outputs:
  y: [S...]
  z: [S...]
kernel: {function: opdb_weighted, dtypes: [f32]}
""",
    "Shifted": """
summary: The stored integers plus one.
inputs:
  x: [S...]
outputs:
  y: [S...]
kernel: {function: opdb_shifted, dtypes: [i8, u8, i16, u16, sq8, uq8, sq16, uq16]}
""",
    "Dequantized": """
summary: The number that the stored integer stands for, plus that of a constant.
inputs:
  x: [S..., C]
  w: [C]
outputs:
  y: {shape: [S..., C], dtype: f32}
kernel: {function: opdb_dequantized, dtypes: [uq8, sq8, uq16, sq16]}
""",
    "Blur": """
summary: The mean of three rows, the middle one twice, of stored values.
inputs:
  x: [N, H, W, C]
outputs:
  y: [N, H - 2, W, C]
kernel:
  function: opdb_blur
  tiling:
    axes: [any, any, any, {multiple: 4}]
    inputs:
      x: [same, {after: 2}, same, same]
  dtypes: [uq8, sq8]
""",
    "Halved": """
summary: Of each two rows the first plus ten times the second, plus a row for all, plus the sum of a table for each channel.
inputs:
  x: [H, W, C]
  row: [W, C]
  table: [T, C]
outputs:
  y: [H // 2, W, C]
kernel:
  function: opdb_halved
  tiling:
    axes: [any, any, whole]
    inputs:
      x: [{scale: 2, after: 1}, same, same]
      row: [same, same]
      table: [whole, same]
  dtypes: [f32]
""",
    "Turned": """
summary: The elements in the opposite order, through the scratch.
inputs:
  x: [S...]
outputs:
  y: [S...]
kernel: {function: opdb_turned, scratch: 4 * prod(x.shape), dtypes: [f32]}
""",
    "Positive": """
summary: x, which may hold nothing below zero.
inputs:
  x: [S...]
outputs:
  y: [S...]
constraints:
  C1: y.shape[0] < 9
kernel: {function: opdb_positive, dtypes: [f32]}
""",
    "Sides": """
summary: The sum of each row, and of each column.
inputs:
  x: [H, W]
outputs:
  ends: [H]
  tops: [W]
kernel: {function: opdb_sides, dtypes: [f32]}
""",
}
KERNELS = """\
#include "kernel.h"

opdb_status opdb_weighted(const opdb_tensor *x, const opdb_tensor *a, const opdb_tensor *b, opdb_ints list,
                          opdb_rows rows, opdb_reals reals, int64_t mode, bool flag, int64_t whole, double real,
                          const opdb_tensor *y, const opdb_tensor *z) {
    double sum = real + (double)whole * 3 + (flag ? 1000 : 0) + (double)mode * 100;
    for (int64_t i = 0; i < list.n; i++)
        sum += (double)list.v[i] * (double)(i + 1);
    for (int64_t i = 0; i < rows.n * rows.width; i++)
        sum += (double)rows.v[i] * (double)(i + 1) * 10;
    for (int64_t i = 0; i < reals.n; i++)
        sum += reals.v[i] * (double)(i + 1);
    for (int64_t i = 0; i < size_of(y); i++) {
        const double value = sum + ((const float *)x->data)[i] + (a != NULL ? 2 * ((const float *)a->data)[i] : 0) +
                             (b != NULL ? 4 * ((const float *)b->data)[i] : 0);
        ((float *)y->data)[i] = (float)value;
        ((float *)z->data)[i] = (float)(x->rank + 10 * x->dims[0] + 100 * x->dims[x->rank - 1]) +
                                ((const float *)x->data)[i];
    }
    return OPDB_OK;
}

opdb_status opdb_shifted(const opdb_tensor *x, const opdb_tensor *y) {
    const bool wide = x->dtype == OPDB_I16 || x->dtype == OPDB_U16 || x->dtype == OPDB_SQ16 || x->dtype == OPDB_UQ16;
    const bool has_sign = x->dtype == OPDB_I16 || x->dtype == OPDB_SQ16 || x->dtype == OPDB_I8 || x->dtype == OPDB_SQ8;
    for (int64_t i = 0; i < size_of(y); i++)
        if (wide && has_sign)
            ((int16_t *)y->data)[i] = (int16_t)(((const int16_t *)x->data)[i] / 2);
        else if (wide)
            ((uint16_t *)y->data)[i] = (uint16_t)(((const uint16_t *)x->data)[i] / 2);
        else if (has_sign)
            ((int8_t *)y->data)[i] = (int8_t)(((const int8_t *)x->data)[i] / 2);
        else
            ((uint8_t *)y->data)[i] = (uint8_t)(((const uint8_t *)x->data)[i] / 2);
    return OPDB_OK;
}

static double real_of(const opdb_tensor *t, int64_t i) {
    double stored = 0;
    if (t->dtype == OPDB_UQ8)
        stored = ((const uint8_t *)t->data)[i];
    else if (t->dtype == OPDB_SQ8)
        stored = ((const int8_t *)t->data)[i];
    else if (t->dtype == OPDB_UQ16)
        stored = ((const uint16_t *)t->data)[i];
    else
        stored = ((const int16_t *)t->data)[i];
    return (stored + t->quant->offsets[0]) * t->quant->scales[0];
}

opdb_status opdb_dequantized(const opdb_tensor *x, const opdb_tensor *w, const opdb_tensor *y) {
    const int64_t channels = w->dims[0];
    if (x->quant == NULL || w->quant == NULL)
        return OPDB_UNSUPPORTED;
    for (int64_t i = 0; i < size_of(y); i++)
        ((float *)y->data)[i] = (float)(real_of(x, i) + real_of(w, i % channels));
    return OPDB_OK;
}

opdb_status opdb_blur(const opdb_tensor *x, const opdb_tensor *y) {
    const int64_t row = x->dims[2] * x->dims[3], h = y->dims[1];
    for (int64_t n = 0; n < x->dims[0]; n++)
        for (int64_t i = 0; i < h * row; i++) {
            const int64_t at = n * (h + 2) * row + i;
            if (x->dtype == OPDB_UQ8) {
                const uint8_t *in = x->data;
                ((uint8_t *)y->data)[n * h * row + i] =
                    (uint8_t)((in[at] + 2 * in[at + row] + in[at + 2 * row] + 2) / 4);
            } else {
                const int8_t *in = x->data;
                ((int8_t *)y->data)[n * h * row + i] =
                    (int8_t)((in[at] + 2 * in[at + row] + in[at + 2 * row]) / 4);
            }
        }
    return OPDB_OK;
}

opdb_status opdb_halved(const opdb_tensor *x, const opdb_tensor *row, const opdb_tensor *table, const opdb_tensor *y) {
    const int64_t channels = x->dims[2], width = x->dims[1] * channels;
    const float *in = x->data, *all = row->data, *column = table->data;
    if (x->dims[0] < 2 * y->dims[0] || size_of(row) != width)
        return OPDB_OUTSIDE;
    for (int64_t i = 0; i < y->dims[0]; i++)
        for (int64_t k = 0; k < width; k++) {
            float sum = in[2 * i * width + k] + 10 * in[(2 * i + 1) * width + k] + all[k];
            for (int64_t t = 0; t < table->dims[0]; t++)
                sum += column[t * channels + k % channels];
            ((float *)y->data)[i * width + k] = sum;
        }
    return OPDB_OK;
}

opdb_status opdb_turned(const opdb_tensor *x, const opdb_tensor *y, void *scratch) {
    const int64_t n = size_of(x);
    float *kept = scratch;
    for (int64_t i = 0; i < n; i++)
        kept[i] = ((const float *)x->data)[i];
    for (int64_t i = 0; i < n; i++)
        ((float *)y->data)[i] = kept[n - 1 - i];
    return OPDB_OK;
}

opdb_status opdb_sides(const opdb_tensor *x, const opdb_tensor *ends, const opdb_tensor *tops) {
    float *row = ends->data, *column = tops->data;
    if (ends->dims[0] != x->dims[0] || tops->dims[0] != x->dims[1])
        return OPDB_OUTSIDE;
    for (int64_t i = 0; i < tops->dims[0]; i++)
        column[i] = 0;
    for (int64_t i = 0; i < ends->dims[0]; i++) {
        row[i] = 0;
        for (int64_t k = 0; k < tops->dims[0]; k++) {
            const float value = ((const float *)x->data)[i * tops->dims[0] + k];
            row[i] += value;
            column[k] += value;
        }
    }
    return OPDB_OK;
}

opdb_status opdb_positive(const opdb_tensor *x, const opdb_tensor *y) {
    for (int64_t i = 0; i < size_of(x); i++) {
        if (((const float *)x->data)[i] < 0)
            return OPDB_OUTSIDE;
        ((float *)y->data)[i] = ((const float *)x->data)[i];
    }
    return OPDB_OK;
}
"""


def catalog(folder: Path, more: Mapping[str, str] | None = None, more_c: str = "") -> tuple[Catalog, Path]:
    """The specs in a separate folder, and the file of their kernels.  ``more``: other specs, ``more_c``: their kernels."""
    (folder / "ops").mkdir(parents=True, exist_ok=True)
    for name, text in {**SPECS, **(more or {})}.items():
        (folder / "ops" / f"{name}.yaml").write_text(f"op: {name}\npackage: {PACKAGE}{text}")
    kernels = folder / "mutants.c"
    kernels.write_text(KERNELS + more_c)
    own = Path(opdb.specs.__file__).parent
    shutil.copytree(own / "backends", folder / "backends", dirs_exist_ok=True)
    shutil.copy(own / "socs.yaml", folder)
    return read_catalog(folder), kernels
