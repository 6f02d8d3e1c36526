/* Skips numbers of a row that cannot be better than the best so far: most of a long row. */
#ifndef OPDB_BETTER_H
#define OPDB_BETTER_H

#include <stdbool.h>

enum { OPDB_PASSED = 16 };

/* True if none of OPDB_PASSED numbers is beyond `worst` or NaN. */
static inline bool none_better(const float *v, float worst, bool largest) {
    int better = 0;
    for (int i = 0; i < OPDB_PASSED; i++)
        better |= largest ? !(v[i] <= worst) : !(v[i] >= worst);
    return better == 0;
}

#endif
