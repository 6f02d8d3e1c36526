#include "move.h"

/* Dim i of y is dim perm[i] of x. */
opdb_status opdb_transpose(const opdb_tensor *x, opdb_ints perm, const opdb_tensor *y) {
    if (!opdb_moves(x, y))
        return OPDB_UNSUPPORTED;
    opdb_nest nest = {0};
    for (int64_t d = 0; d < perm.n; d++)
        nest_add(&nest, y->dims[d], size_between(x, perm.v[d] + 1, x->rank), size_between(y, d + 1, y->rank),
                 0);
    opdb_move(x, 0, y, 0, &nest);
    return OPDB_OK;
}
