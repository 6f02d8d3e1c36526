#include "move.h"

/* Takes count elements of x from begin on, stride apart, along each of the n axes; an inserted axis exists
 * only in y. */
opdb_status opdb_strided_slice(const opdb_tensor *x, opdb_ints begin, opdb_ints stride, opdb_ints count,
                               opdb_ints inserted, opdb_ints dropped, const opdb_tensor *y) {
    if (!opdb_moves(x, y))
        return OPDB_UNSUPPORTED;
    int64_t y_step = size_of(y), at = 0, axis = 0;
    opdb_nest nest = {0};
    for (int64_t i = 0; i < begin.n && y_step > 0; i++) {
        if (inserted.v[i])
            continue;
        int64_t step = size_between(x, axis + 1, x->rank), n = dropped.v[i] ? 1 : count.v[i];
        axis++;
        at += begin.v[i] * step;
        y_step /= n;
        nest_add(&nest, n, stride.v[i] * step, y_step, 0);
    }
    if (size_of(y) > 0)
        opdb_move(x, at, y, 0, &nest);
    return OPDB_OK;
}
