#include <string.h>

#include "kernel.h"

/* The same elements under another shape, that of y; `shape` matters to dynamic graphs only. */
opdb_status opdb_reshape(const opdb_tensor *x, const opdb_tensor *shape, const opdb_tensor *y) {
    (void)shape;
    size_t size = element_size(x->dtype), n = (size_t)size_of(x);
    if (size == 0 || x->dtype != y->dtype)
        return OPDB_UNSUPPORTED;
    if (n > 0)
        memcpy(y->data, x->data, n * size);
    return OPDB_OK;
}
