#include "sums.h"

enum { COLUMNS = 256 };

/* Sums `columns` neighbours at once: the innermost dim is kept. */
static void mean_columns(const float *x, float *y, int64_t columns, opdb_nest *over, double count) {
    double sum[COLUMNS] = {0};
    if (count > 0)
        do {
            const float *row = x + over->at[0];
            for (int64_t j = 0; j < columns; j++)
                sum[j] += row[j];
        } while (nest_next(over));
    for (int64_t j = 0; j < columns; j++)
        y[j] = (float)(sum[j] / count);
}

static float mean_one(const float *x, opdb_nest *over, opdb_loop run, double count) {
    double sum = 0;
    if (count > 0)
        do {
            sum += sum_run(x + over->at[0], run, 0, 1);
        } while (nest_next(over));
    return (float)(sum / count);
}

/* The mean over `axes`; NaN over no elements, as numpy.  keep_dims changes the shape of y only. */
opdb_status opdb_reduce_mean(const opdb_tensor *x, opdb_ints axes, bool keep_dims, const opdb_tensor *y) {
    (void)keep_dims;
    if (!is_f32(x) || !is_f32(y))
        return OPDB_UNSUPPORTED;
    if (size_of(y) == 0)
        return OPDB_OK;
    opdb_nest kept = {0}, over = {0};
    split_axes(x, axes, &kept, &over);
    double count = (double)nest_size(&over);
    bool columns = kept.rank > 0 && kept.loop[kept.rank - 1].step[0] == 1;
    opdb_loop run = nest_pop(columns ? &kept : &over);
    float *out = y->data;
    do {
        const float *in = (const float *)x->data + kept.at[0];
        if (!columns) {
            *out++ = mean_one(in, &over, run, count);
            continue;
        }
        for (int64_t j = 0; j < run.n; j += COLUMNS)
            mean_columns(in + j, out + j, run.n - j < COLUMNS ? run.n - j : COLUMNS, &over, count);
        out += run.n;
    } while (nest_next(&kept));
    return OPDB_OK;
}
