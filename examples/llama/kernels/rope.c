#include "elements.h"

/* x [batch, positions, heads, size]: the pair of elements i and i + size / 2 is turned by an angle whose sine
 * and cosine are in column i of the position's row. */
opdb_status opdb_llama_rope_simple(const opdb_tensor *x, const opdb_tensor *sines, const opdb_tensor *cosines,
                                   const opdb_tensor *y) {
    const int64_t size = x->dims[3], half = size / 2, columns = sines->dims[1];
    if (opdb_kind_of(x) != OPDB_REAL || opdb_kind_of(y) != OPDB_REAL)
        return OPDB_UNSUPPORTED;
    for (int64_t r = 0; r < size_between(x, 0, 3); r++) {
        const int64_t position = r / x->dims[2] % x->dims[1];
        for (int64_t i = 0; i < half; i++) {
            float first, second, sine, cosine;
            opdb_read(x, r * size + i, 1, 1, OPDB_REAL, &first);
            opdb_read(x, r * size + half + i, 1, 1, OPDB_REAL, &second);
            opdb_read(sines, position * columns + i, 1, 1, OPDB_REAL, &sine);
            opdb_read(cosines, position * columns + i, 1, 1, OPDB_REAL, &cosine);
            const float a = (float)((double)first * cosine - (double)second * sine);
            const float b = (float)((double)first * sine + (double)second * cosine);
            opdb_write(y, r * size + i, 1, OPDB_REAL, &a);
            opdb_write(y, r * size + half + i, 1, OPDB_REAL, &b);
        }
    }
    return OPDB_OK;
}
