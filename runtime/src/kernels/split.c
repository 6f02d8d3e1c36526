#include <string.h>

#include "kernel.h"

/* x cut along `axis` before each of `split_index`, into split_index.n + 1 tensors; any element type of
 * whole bytes. */
opdb_status opdb_split(const opdb_tensor *x, int64_t axis, opdb_ints split_index, opdb_tensors ys) {
    int64_t size = (int64_t)element_size(x->dtype), inner = size * size_between(x, axis + 1, x->rank);
    if (size == 0)
        return OPDB_UNSUPPORTED;
    for (int64_t k = 0; k < ys.n; k++)
        if (ys.v[k]->dtype != x->dtype)
            return OPDB_UNSUPPORTED;
    const char *in = x->data;
    int64_t outer = size_between(x, 0, axis), stride = x->dims[axis] * inner, from = 0;
    for (int64_t k = 0; k < ys.n; k++) {
        char *out = ys.v[k]->data;
        int64_t to = (k < split_index.n ? split_index.v[k] : x->dims[axis]) * inner, run = to - from;
        for (int64_t i = 0; i < outer && run > 0; i++)
            memcpy(out + i * run, in + i * stride + from, (size_t)run);
        from = to;
    }
    return OPDB_OK;
}
