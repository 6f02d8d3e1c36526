#include <math.h>

#include "kernel.h"

/* Rows of x times the matrix `weights` [1, 1, inputs, outputs], plus the bias; stored integers times scales.
 */
opdb_status opdb_llama_linear(const opdb_tensor *x, const opdb_tensor *weights, const opdb_tensor *bias,
                              double in_scale, double weight_scale, double bias_scale, double output_scale,
                              const opdb_tensor *y) {
    if (x->dtype != OPDB_SQ8 || weights->dtype != OPDB_SQ8 || bias->dtype != OPDB_SQ8 || y->dtype != OPDB_SQ8)
        return OPDB_UNSUPPORTED;
    const int64_t inputs = x->dims[3], outputs = y->dims[3], rows = size_between(x, 0, 3);
    const int8_t *w = weights->data, *b = bias->data;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < outputs; o++) {
            int64_t sum = 0;
            for (int64_t i = 0; i < inputs; i++)
                sum += (int64_t)((const int8_t *)x->data)[r * inputs + i] * w[i * outputs + o];
            const double real = (double)sum * (in_scale * weight_scale) + b[o] * bias_scale;
            ((int8_t *)y->data)[r * outputs + o] = (int8_t)held_between(rint(real / output_scale), -128, 127);
        }
    return OPDB_OK;
}
