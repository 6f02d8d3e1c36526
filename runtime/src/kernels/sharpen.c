#include "elements.h"

enum { SIZE = 3, WEIGHTS = 16 }; /* of the window, and the sum of its weights 1 2 1, 2 4 2, 1 2 1 */

/* Images [batch, height, width, channels]: y = x + strength * (x - mean), where x is the middle of the window
 * and the mean is weighted.  Computed in double and rounded once; quantized images have encodings of their
 * own.  A row of y is one run of elements, and so are the elements that it reads for each row and column of
 * the window. */
opdb_status opdb_sharpen(const opdb_tensor *x, double strength, const opdb_tensor *y) {
    if (opdb_kind_of(x) != OPDB_REAL || opdb_kind_of(y) != OPDB_REAL)
        return OPDB_UNSUPPORTED;
    const int64_t channels = x->dims[3], row = x->dims[2] * channels, made = y->dims[2] * channels;
    for (int64_t r = 0; r < y->dims[0] * y->dims[1]; r++) {
        const int64_t from = (r / y->dims[1] * x->dims[1] + r % y->dims[1]) * row;
        for (int64_t i = 0, n; i < made; i += n) {
            opdb_numbers run;
            double mean[OPDB_TILE] = {0};
            n = made - i < OPDB_TILE ? made - i : OPDB_TILE;
            for (int64_t k = 0; k < SIZE * SIZE; k++) {
                const int64_t down = k / SIZE, along = k % SIZE;
                const double weight = (double)((down == 1 ? 2 : 1) * (along == 1 ? 2 : 1)) / WEIGHTS;
                opdb_read(x, from + down * row + along * channels + i, 1, n, OPDB_REAL, &run);
                for (int64_t j = 0; j < n; j++)
                    mean[j] += weight * run.real[j];
            }
            opdb_read(x, from + row + channels + i, 1, n, OPDB_REAL, &run);
            for (int64_t j = 0; j < n; j++)
                run.real[j] = (float)(run.real[j] + strength * (run.real[j] - mean[j]));
            opdb_write(y, r * made + i, n, OPDB_REAL, &run);
        }
    }
    return OPDB_OK;
}
