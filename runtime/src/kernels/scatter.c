#include "move.h"
#include "places.h"

typedef enum { NONE, ADD, MUL, MAX } reduction;

#define COMBINE(TYPE, INTERNAL)                                                                              \
    for (int64_t i = 0; i < n; i++) {                                                                        \
        TYPE a = old[i], b = new[i];                                                                         \
        old[i] = by == ADD   ? (TYPE)((INTERNAL)a + (INTERNAL)b)                                             \
                 : by == MUL ? (TYPE)((INTERNAL)a * (INTERNAL)b)                                             \
                             : (b > a || b != b ? b : a);                                                    \
    }

static void combine_reals(float *old, const float *new, int64_t n, reduction by) { COMBINE(float, float) }
static void combine_whole(int64_t *old, const int64_t *new, int64_t n, reduction by) {
    COMBINE(int64_t, uint64_t)
}

/* Writes n contiguous elements of `updates` to y[at ...], or reduces them into it. */
static void update(const opdb_tensor *updates, int64_t from, const opdb_tensor *y, int64_t at, int64_t n,
                   reduction by) {
    if (by == NONE) {
        opdb_move_run(updates, from, y, at, n);
        return;
    }
    opdb_kind kind = opdb_kind_of(y);
    for (int64_t i = 0, part; i < n; i += part) {
        opdb_numbers old, new;
        part = n - i < OPDB_TILE ? n - i : OPDB_TILE;
        opdb_read(y, at + i, 1, part, kind, &old);
        opdb_read(updates, from + i, 1, part, kind, &new);
        if (kind == OPDB_REAL)
            combine_reals(old.real, new.real, part, by);
        else
            combine_whole(old.whole, new.whole, part, by);
        opdb_write(y, at + i, part, kind, &old);
    }
}

static bool takes(const opdb_tensor *x, const opdb_tensor *indices, const opdb_tensor *updates,
                  const opdb_tensor *y, reduction by) {
    bool counts = opdb_kind_of(y) >= OPDB_WHOLE && opdb_kind_of(updates) == opdb_kind_of(y);
    return opdb_moves(x, y) && opdb_moves(updates, y) && opdb_kind_of(indices) == OPDB_WHOLE &&
           (by == NONE || counts);
}

static opdb_status elements(const opdb_tensor *x, const opdb_tensor *indices, const opdb_tensor *updates,
                            int64_t axis, reduction by, const opdb_tensor *y) {
    int64_t step = size_between(x, axis + 1, x->rank), size = x->dims[axis], i = 0;
    if (!takes(x, indices, updates, y, by) || size_of(updates) != size_of(indices))
        return OPDB_UNSUPPORTED;
    for (int64_t d = 0; d < (int64_t)x->rank; d++)
        if (d != axis && indices->dims[d] > x->dims[d])
            return OPDB_OUTSIDE;
    opdb_move_run(x, 0, y, 0, size_of(y));
    opdb_nest nest = {0};
    for (int64_t d = 0; d < (int64_t)x->rank; d++)
        nest_add(&nest, indices->dims[d], d == axis ? 0 : size_between(x, d + 1, x->rank), 0, 0);
    if (nest_size(&nest) == 0)
        return OPDB_OK;
    do {
        int64_t place = opdb_place(indices, i);
        if (place < 0 || place >= size)
            return OPDB_OUTSIDE;
        update(updates, i++, y, nest.at[0] + place * step, 1, by);
    } while (nest_next(&nest));
    return OPDB_OK;
}

/* x with each element of `updates` at its own position, except along `axis`, where the index gives it. */
opdb_status opdb_scatter_elements(const opdb_tensor *x, const opdb_tensor *indices,
                                  const opdb_tensor *updates, int64_t axis, int64_t how,
                                  const opdb_tensor *y) {
    switch (how) {
    case OPDB_SCATTER_ELEMENTS_NONE:
        return elements(x, indices, updates, axis, NONE, y);
    case OPDB_SCATTER_ELEMENTS_ADD:
        return elements(x, indices, updates, axis, ADD, y);
    case OPDB_SCATTER_ELEMENTS_MUL:
        return elements(x, indices, updates, axis, MUL, y);
    default:
        return elements(x, indices, updates, axis, MAX, y);
    }
}

/* x with each slice of `updates` at its tuple of indices. */
opdb_status opdb_scatter_nd(const opdb_tensor *x, const opdb_tensor *indices, const opdb_tensor *updates,
                            int64_t how, const opdb_tensor *y) {
    reduction by = how == OPDB_SCATTER_ND_ADD ? ADD : how == OPDB_SCATTER_ND_MUL ? MUL : NONE;
    int64_t length = indices->dims[indices->rank - 1], run = size_between(x, length, x->rank);
    int64_t tuples = size_between(indices, 0, (int64_t)indices->rank - 1);
    if (!takes(x, indices, updates, y, by) || size_of(updates) != tuples * run)
        return OPDB_UNSUPPORTED;
    opdb_move_run(x, 0, y, 0, size_of(y));
    for (int64_t i = 0; i < tuples; i++) {
        int64_t offset = opdb_offset_of(indices, i * length, length, x, 0);
        if (offset < 0)
            return OPDB_OUTSIDE;
        update(updates, i * run, y, offset * run, run, by);
    }
    return OPDB_OK;
}
