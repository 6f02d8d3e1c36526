/* Rotary embedding of one row. */
#ifndef OPDB_ROTARY_H
#define OPDB_ROTARY_H

#include <string.h>

#include "kernel.h"

/* Rotates `half` pairs of `size` numbers by the angles with the given cosines and sines: adjacent numbers if
 * interleaved, else numbers `half` apart. The numbers after them stay. */
static inline void rotary_turn(const float *in, float *out, int64_t size, int64_t half, bool interleaved,
                               const float *cosines, const float *sines) {
    int64_t apart = interleaved ? 1 : half, step = interleaved ? 2 : 1;
    memcpy(out, in, (size_t)size * sizeof *out);
    for (int64_t i = 0; i < half; i++) {
        double a = in[i * step], b = in[i * step + apart];
        out[i * step] = (float)(a * cosines[i] - b * sines[i]);
        out[i * step + apart] = (float)(b * cosines[i] + a * sines[i]);
    }
}

#endif
