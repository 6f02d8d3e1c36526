#include <string.h>

#include "nest.h"

enum { TILE = 16 };

/* Copies a plane in tiles: element (i, j) is at i + j * in_step of the input, i * out_step + j of the output.
 */
static inline void copy_plane(const char *in, char *out, int64_t rows, int64_t columns, int64_t in_step,
                              int64_t out_step, size_t size) {
    for (int64_t i0 = 0; i0 < rows; i0 += TILE)
        for (int64_t j0 = 0; j0 < columns; j0 += TILE) {
            int64_t i1 = rows - i0 < TILE ? rows : i0 + TILE, j1 = columns - j0 < TILE ? columns : j0 + TILE;
            for (int64_t i = i0; i < i1; i++)
                for (int64_t j = j0; j < j1; j++)
                    memcpy(out + (i * out_step + j) * (int64_t)size, in + (i + j * in_step) * (int64_t)size,
                           size);
        }
}

/* The sizes are constants, so that each copy of an element is one move. */
static void copy_plane_of(const char *in, char *out, opdb_loop row, opdb_loop column, size_t size) {
    int64_t rows = row.n, columns = column.n, in_step = column.step[0], out_step = row.step[1];
    switch (size) {
    case 1:
        copy_plane(in, out, rows, columns, in_step, out_step, 1);
        break;
    case 2:
        copy_plane(in, out, rows, columns, in_step, out_step, 2);
        break;
    case 4:
        copy_plane(in, out, rows, columns, in_step, out_step, 4);
        break;
    default:
        copy_plane(in, out, rows, columns, in_step, out_step, 8);
        break;
    }
}

/* Takes the loop along which the input is contiguous out of the nest. */
static opdb_loop take_contiguous(opdb_nest *nest) {
    int d = 0;
    while (nest->loop[d].step[0] != 1)
        d++;
    opdb_loop found = nest->loop[d];
    for (nest->rank--; d < nest->rank; d++)
        nest->loop[d] = nest->loop[d + 1];
    return found;
}

/* Dim i of y is dim perm[i] of x; any element type of whole bytes. */
opdb_status opdb_transpose(const opdb_tensor *x, opdb_ints perm, const opdb_tensor *y) {
    size_t size = element_size(x->dtype);
    if (size == 0 || x->dtype != y->dtype)
        return OPDB_UNSUPPORTED;
    if (size_of(x) == 0)
        return OPDB_OK;
    opdb_nest nest = {0};
    for (int64_t d = 0; d < perm.n; d++)
        nest_add(&nest, y->dims[d], size_between(x, perm.v[d] + 1, x->rank), size_between(y, d + 1, y->rank),
                 0);
    opdb_loop column = nest_pop(&nest), row = {1, {1, 1, 0}};
    bool runs = column.n == 1 || column.step[0] == 1; /* the last dim stays where it is */
    if (!runs)
        row = take_contiguous(&nest);
    do {
        const char *in = (const char *)x->data + nest.at[0] * (int64_t)size;
        char *out = (char *)y->data + nest.at[1] * (int64_t)size;
        if (runs)
            memcpy(out, in, (size_t)column.n * size);
        else
            copy_plane_of(in, out, row, column, size);
    } while (nest_next(&nest));
    return OPDB_OK;
}
