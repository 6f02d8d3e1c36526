#include "move.h"
#include "places.h"

static bool takes(const opdb_tensor *x, const opdb_tensor *indices, const opdb_tensor *y) {
    return opdb_moves(x, y) && opdb_kind_of(indices) == OPDB_WHOLE;
}

/* The slice of `table` along `axis` for each index; a negative index counts from the end. */
opdb_status opdb_gather_slices(const opdb_tensor *table, const opdb_tensor *indices, int64_t axis,
                               const opdb_tensor *y) {
    int64_t size = table->dims[axis], inner = size_between(table, axis + 1, table->rank);
    int64_t outer = size_between(table, 0, axis), n = size_of(indices);
    if (!takes(table, indices, y))
        return OPDB_UNSUPPORTED;
    for (int64_t i = 0; i < n; i++) {
        int64_t place = opdb_place(indices, i);
        place += place < 0 ? size : 0;
        if (place < 0 || place >= size)
            return OPDB_OUTSIDE;
        opdb_nest nest = {0};
        nest_add(&nest, outer, size * inner, n * inner, 0);
        nest_add(&nest, inner, 1, 1, 0);
        opdb_move(table, place * inner, y, i * inner, &nest);
    }
    return OPDB_OK;
}

/* Each element of y is that of x at the same position, except along `axis`, where the index gives it. */
opdb_status opdb_gather_elements(const opdb_tensor *x, const opdb_tensor *indices, int64_t axis,
                                 const opdb_tensor *y) {
    int64_t step = size_between(x, axis + 1, x->rank), size = x->dims[axis], i = 0;
    if (!takes(x, indices, y))
        return OPDB_UNSUPPORTED;
    for (int64_t d = 0; d < (int64_t)x->rank; d++)
        if (d != axis && indices->dims[d] > x->dims[d])
            return OPDB_OUTSIDE;
    opdb_nest nest = {0};
    for (int64_t d = 0; d < (int64_t)x->rank; d++)
        nest_add(&nest, indices->dims[d], d == axis ? 0 : size_between(x, d + 1, x->rank), 0, 0);
    if (nest_size(&nest) == 0)
        return OPDB_OK;
    do {
        int64_t place = opdb_place(indices, i);
        if (place < 0 || place >= size)
            return OPDB_OUTSIDE;
        opdb_move_run(x, nest.at[0] + place * step, y, i++, 1);
    } while (nest_next(&nest));
    return OPDB_OK;
}

/* The slice of `table` at each tuple of indices, after the batch dims that both share. */
opdb_status opdb_gather_nd(const opdb_tensor *table, const opdb_tensor *indices, int64_t batch_dims,
                           const opdb_tensor *y) {
    int64_t length = indices->dims[indices->rank - 1], batches = size_between(table, 0, batch_dims);
    int64_t tuples = size_between(indices, batch_dims, (int64_t)indices->rank - 1);
    int64_t run = size_between(table, batch_dims + length, table->rank);
    int64_t batch = size_between(table, batch_dims, table->rank);
    if (!takes(table, indices, y))
        return OPDB_UNSUPPORTED;
    for (int64_t i = 0; i < batches * tuples; i++) {
        int64_t offset = opdb_offset_of(indices, i * length, length, table, batch_dims);
        if (offset < 0)
            return OPDB_OUTSIDE;
        opdb_move_run(table, i / tuples * batch + offset * run, y, i * run, run);
    }
    return OPDB_OK;
}

/* The batches chosen by the indices. */
opdb_status opdb_batch_permutation(const opdb_tensor *x, const opdb_tensor *indices, const opdb_tensor *y) {
    return opdb_gather_slices(x, indices, 0, y);
}
