#include <string.h>

#include "kernel.h"

/* The tensors xs joined along `axis`; any element type of whole bytes. */
opdb_status opdb_concat(opdb_tensors xs, int64_t axis, const opdb_tensor *y) {
    int64_t size = (int64_t)element_size(y->dtype), inner = size * size_between(y, axis + 1, y->rank);
    if (size == 0)
        return OPDB_UNSUPPORTED;
    for (int64_t k = 0; k < xs.n; k++)
        if (xs.v[k]->dtype != y->dtype)
            return OPDB_UNSUPPORTED;
    char *out = y->data;
    int64_t outer = size_between(y, 0, axis), stride = y->dims[axis] * inner, at = 0;
    for (int64_t k = 0; k < xs.n; k++) {
        const char *in = xs.v[k]->data;
        int64_t run = xs.v[k]->dims[axis] * inner;
        if (run == 0)
            continue;
        for (int64_t i = 0; i < outer; i++)
            memcpy(out + i * stride + at, in + i * run, (size_t)run);
        at += run;
    }
    return OPDB_OK;
}
