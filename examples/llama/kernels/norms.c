#include <math.h>

#include "elements.h"

static const double EPSILON_OF_LAYERS = 1e-5, EPSILON_OF_SQUARES = 1e-6;

/* One row of x, less `mean`, times `factor` and the weights, plus the bias where there is one. */
static void write_row(const opdb_tensor *x, const opdb_tensor *weights, const opdb_tensor *bias,
                      const opdb_tensor *y, int64_t from, double mean, double factor) {
    const int64_t size = weights->dims[0];
    for (int64_t i = 0, n; i < size; i += n) {
        opdb_numbers v, w, b = {{0}};
        n = size - i < OPDB_TILE ? size - i : OPDB_TILE;
        opdb_read(x, from + i, 1, n, OPDB_REAL, &v);
        opdb_read(weights, i, 1, n, OPDB_REAL, &w);
        if (bias != NULL)
            opdb_read(bias, i, 1, n, OPDB_REAL, &b);
        for (int64_t j = 0; j < n; j++)
            v.real[j] = (float)((v.real[j] - mean) * factor * w.real[j] + b.real[j]);
        opdb_write(y, from + i, n, OPDB_REAL, &v);
    }
}

/* The mean of the row's numbers less `mean`, to the power of 1 or 2. */
static double mean_of(const opdb_tensor *x, int64_t from, int64_t size, double mean, bool squares) {
    double sum = 0;
    for (int64_t i = 0, n; i < size; i += n) {
        opdb_numbers v;
        n = size - i < OPDB_TILE ? size - i : OPDB_TILE;
        opdb_read(x, from + i, 1, n, OPDB_REAL, &v);
        for (int64_t j = 0; j < n; j++)
            sum += squares ? (v.real[j] - mean) * (v.real[j] - mean) : v.real[j];
    }
    return sum / (double)size;
}

opdb_status opdb_llama_layer_norm(const opdb_tensor *x, const opdb_tensor *weights, const opdb_tensor *bias,
                                  const opdb_tensor *y) {
    const int64_t size = weights->dims[0];
    if (opdb_kind_of(x) != OPDB_REAL || opdb_kind_of(y) != OPDB_REAL)
        return OPDB_UNSUPPORTED;
    for (int64_t from = 0; from < size_of(x); from += size) {
        const double mean = mean_of(x, from, size, 0, false), variance = mean_of(x, from, size, mean, true);
        write_row(x, weights, bias, y, from, mean, 1 / sqrt(variance + EPSILON_OF_LAYERS));
    }
    return OPDB_OK;
}

opdb_status opdb_llama_rms_norm(const opdb_tensor *x, const opdb_tensor *weights, const opdb_tensor *y) {
    const int64_t size = weights->dims[0];
    if (opdb_kind_of(x) != OPDB_REAL || opdb_kind_of(y) != OPDB_REAL)
        return OPDB_UNSUPPORTED;
    for (int64_t from = 0; from < size_of(x); from += size)
        write_row(x, weights, NULL, y, from, 0,
                  1 / sqrt(mean_of(x, from, size, 0, true) + EPSILON_OF_SQUARES));
    return OPDB_OK;
}
