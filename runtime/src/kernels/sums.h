/* Sums of float32 in double, in lanes if the elements are contiguous. */
#ifndef OPDB_SUMS_H
#define OPDB_SUMS_H

#include "nest.h"

enum { LANES = 32 };

/* The sum of (v - center) ** power, power 1 or 2, over one run of operand 0. */
static inline double sum_run(const float *p, opdb_loop run, double center, int power) {
    double lane[LANES] = {0};
    int64_t i = 0;
    if (run.step[0] == 1)
        for (; i + LANES <= run.n; i += LANES)
            for (int j = 0; j < LANES; j++) {
                double d = p[i + j] - center;
                lane[j] += power == 2 ? d * d : d;
            }
    for (; i < run.n; i++) {
        double d = p[i * run.step[0]] - center;
        lane[0] += power == 2 ? d * d : d;
    }
    double sum = 0;
    for (int j = 0; j < LANES; j++)
        sum += lane[j];
    return sum;
}

/* Splits the loops over x: those over `axes` go to `over`, the others to `kept`.  Step 0 is that of x;
 * in `over`, step 1 is that of a tensor whose dims are those of `axes` in their order. */
static inline void split_axes(const opdb_tensor *x, opdb_ints axes, opdb_nest *kept, opdb_nest *over) {
    for (int64_t d = 0; d < (int64_t)x->rank; d++) {
        int64_t step = size_between(x, d + 1, x->rank), place = 0, own_step = 1;
        while (place < axes.n && axes.v[place] != d)
            place++;
        for (int64_t i = place + 1; i < axes.n; i++)
            own_step *= x->dims[axes.v[i]];
        if (place < axes.n)
            nest_add(over, x->dims[d], step, own_step, 0);
        else
            nest_add(kept, x->dims[d], step, 0, 0);
    }
}

#endif
