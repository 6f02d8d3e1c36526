#include "move.h"

/* The tensors xs one after the other along `axis`; Pack's inputs lack this axis and count as 1 along it. */
opdb_status opdb_concat(opdb_tensors xs, int64_t axis, const opdb_tensor *y) {
    int64_t outer = size_between(y, 0, axis), stride = size_between(y, axis, y->rank), at = 0;
    for (int64_t k = 0; k < xs.n; k++)
        if (!opdb_moves(xs.v[k], y))
            return OPDB_UNSUPPORTED;
    for (int64_t k = 0; k < xs.n; k++) {
        int64_t run = size_between(xs.v[k], axis, xs.v[k]->rank);
        opdb_nest nest = {0};
        nest_add(&nest, outer, run, stride, 0);
        nest_add(&nest, run, 1, 1, 0);
        opdb_move(xs.v[k], 0, y, at, &nest);
        at += run;
    }
    return OPDB_OK;
}

/* x cut along `axis` into as many parts as there are outputs, each as long as its output; UnPack's outputs
 * have 1 along it and lose the axis. */
opdb_status opdb_split(const opdb_tensor *x, int64_t axis, opdb_tensors ys) {
    int64_t outer = size_between(x, 0, axis), stride = size_between(x, axis, x->rank), at = 0;
    for (int64_t k = 0; k < ys.n; k++)
        if (!opdb_moves(x, ys.v[k]))
            return OPDB_UNSUPPORTED;
    for (int64_t k = 0; k < ys.n; k++) {
        int64_t run = size_between(ys.v[k], axis, ys.v[k]->rank);
        opdb_nest nest = {0};
        nest_add(&nest, outer, stride, run, 0);
        nest_add(&nest, run, 1, 1, 0);
        opdb_move(x, at, ys.v[k], 0, &nest);
        at += run;
    }
    return OPDB_OK;
}
