#include "move.h"

/* x repeated multiples[d] times along each dim d. */
opdb_status opdb_tile(const opdb_tensor *x, opdb_ints multiples, const opdb_tensor *y) {
    if (!opdb_moves(x, y))
        return OPDB_UNSUPPORTED;
    opdb_nest nest = {0};
    for (int64_t d = 0; d < multiples.n; d++) {
        int64_t step = size_between(x, d + 1, x->rank), y_step = size_between(y, d + 1, y->rank);
        nest_add(&nest, multiples.v[d], 0, x->dims[d] * y_step, 0);
        nest_add(&nest, x->dims[d], step, y_step, 0);
    }
    opdb_move(x, 0, y, 0, &nest);
    return OPDB_OK;
}
