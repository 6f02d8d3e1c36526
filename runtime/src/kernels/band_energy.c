#include <math.h>

#include "elements.h"

/* Row by row: energy[i] = weights[i] * (x[edges[i]] + ... + x[edges[i + 1] - 1]), peak[i] the largest of
 * them. Sums are of double, from the first to the last, and rounded once. */
opdb_status opdb_band_energy(const opdb_tensor *x, opdb_ints edges, opdb_reals weights,
                             const opdb_tensor *energy, const opdb_tensor *peak) {
    if (opdb_kind_of(x) != OPDB_REAL || opdb_kind_of(energy) != OPDB_REAL || opdb_kind_of(peak) != OPDB_REAL)
        return OPDB_UNSUPPORTED;
    int64_t columns = x->dims[x->rank - 1], rows = size_between(x, 0, (int64_t)x->rank - 1);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t band = 0; band + 1 < edges.n; band++) {
            double sum = 0;
            float largest = -INFINITY;
            for (int64_t i = edges.v[band], n; i < edges.v[band + 1]; i += n) {
                opdb_numbers run;
                n = edges.v[band + 1] - i < OPDB_TILE ? edges.v[band + 1] - i : OPDB_TILE;
                opdb_read(x, r * columns + i, 1, n, OPDB_REAL, &run);
                for (int64_t k = 0; k < n; k++) {
                    sum += run.real[k];
                    largest = run.real[k] > largest ? run.real[k] : largest;
                }
            }
            float total = (float)(sum * weights.v[band]);
            opdb_write(energy, r * (edges.n - 1) + band, 1, OPDB_REAL, &total);
            opdb_write(peak, r * (edges.n - 1) + band, 1, OPDB_REAL, &largest);
        }
    return OPDB_OK;
}
