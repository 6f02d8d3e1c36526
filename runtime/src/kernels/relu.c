#include "kernel.h"

/* max(x, 0); NaN stays NaN, -0 stays -0. */
opdb_status opdb_relu(const opdb_tensor *x, const opdb_tensor *y) {
    if (!is_f32(x) || !is_f32(y))
        return OPDB_UNSUPPORTED;
    const float *in = x->data;
    float *out = y->data;
    int64_t n = size_of(y);
    for (int64_t i = 0; i < n; i++)
        out[i] = in[i] < 0 ? 0.0f : in[i];
    return OPDB_OK;
}
