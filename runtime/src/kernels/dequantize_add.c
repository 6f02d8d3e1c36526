#include "kernel.h"

/* y = x * scale + bias, the bias along the last axis; the sum is rounded to float32 once. */
opdb_status opdb_dequantize_add(const opdb_tensor *x, const opdb_tensor *bias, double scale,
                                const opdb_tensor *y) {
    if (x->dtype != OPDB_I8 || bias->dtype != OPDB_F32 || y->dtype != OPDB_F32)
        return OPDB_UNSUPPORTED;
    int64_t columns = x->dims[x->rank - 1], rows = size_between(x, 0, (int64_t)x->rank - 1);
    const float *b = bias->data;
    for (int64_t r = 0; r < rows; r++) {
        const int8_t *in = (const int8_t *)x->data + r * columns;
        float *out = (float *)y->data + r * columns;
        for (int64_t c = 0; c < columns; c++)
            out[c] = (float)(in[c] * scale + b[c]);
    }
    return OPDB_OK;
}
