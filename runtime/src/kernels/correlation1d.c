#include "kernel.h"

/* y[.., x, d] = the mean over channels of a[x] * b[x + d - displacement + shift]; 0 outside the row. */
opdb_status opdb_correlation1d(const opdb_tensor *a, const opdb_tensor *b, int64_t displacement,
                               int64_t shift, const opdb_tensor *y) {
    if (!is_f32(a) || !is_f32(b) || !is_f32(y))
        return OPDB_UNSUPPORTED;
    int64_t width = a->dims[2], depth = a->dims[3], shifts = 2 * displacement + 1;
    const float *from_a = a->data, *from_b = b->data;
    float *to = y->data;
    for (int64_t i = 0; i < size_of(y); i++) {
        int64_t pixel = i / shifts, other = pixel % width + i % shifts - displacement + shift;
        double sum = 0;
        if (other >= 0 && other < width)
            for (int64_t c = 0; c < depth; c++)
                sum +=
                    (double)from_a[pixel * depth + c] * from_b[(pixel / width * width + other) * depth + c];
        to[i] = (float)(sum / (double)depth);
    }
    return OPDB_OK;
}
