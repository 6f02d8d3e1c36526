#include "move.h"

#include <string.h>

enum { TILE = 16 };

static bool same_encoding(const opdb_tensor *x, const opdb_tensor *y) {
    const opdb_quant *a = x->quant, *b = y->quant;
    if (x->encoding != y->encoding || a == NULL || b == NULL || x->axis != -1)
        return x->encoding == OPDB_ENCODING_NONE || y->encoding == OPDB_ENCODING_NONE || a == NULL ||
               b == NULL;
    return a->bits == b->bits && a->n > 0 && b->n > 0 && a->scales[0] == b->scales[0] &&
           a->offsets[0] == b->offsets[0];
}

/* True if stored values can be copied: an unknown encoding counts as that of the other tensor. */
static bool copies(const opdb_tensor *x, const opdb_tensor *y) {
    return x->dtype == y->dtype && same_encoding(x, y);
}

bool opdb_moves(const opdb_tensor *x, const opdb_tensor *y) {
    if (element_size(x->dtype) == 0 || element_size(y->dtype) == 0)
        return false;
    return copies(x, y) || (opdb_kind_of(x) == OPDB_REAL && opdb_kind_of(y) == OPDB_REAL);
}

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

#define COPY(SIZE)                                                                                           \
    case SIZE:                                                                                               \
        for (int64_t i = 0; i < run.n; i++)                                                                  \
            memcpy(out + i * run.step[1] * SIZE, in + i * run.step[0] * SIZE, SIZE);                         \
        break;

static void copy_run(const char *in, char *out, opdb_loop run, size_t size) {
    switch (size) {
        COPY(1)
        COPY(2)
        COPY(4)
        COPY(8)
    default:
        break;
    }
}

enum { BLOCK = 32, SHORT = 16 * BLOCK };

/* Copies contiguous elements, `bytes` in each row. Calling memcpy takes longer than a short row. */
static void copy_rows(const char *in, char *out, opdb_loop row, int64_t size, int64_t bytes) {
    int64_t in_step = row.step[0] * size, out_step = row.step[1] * size;
    bool blocks = bytes % BLOCK == 0 && bytes <= SHORT;
    for (int64_t i = 0; i < row.n; i++, in += in_step, out += out_step)
        if (blocks)
            for (int64_t at = 0; at < bytes; at += BLOCK)
                memcpy(out + at, in + at, BLOCK);
        else
            memcpy(out, in, (size_t)bytes);
}

/* Reads and writes values if stored values cannot be copied. */
static void convert_run(const opdb_tensor *x, int64_t x_at, const opdb_tensor *y, int64_t y_at,
                        opdb_loop run) {
    float tile[OPDB_TILE];
    int64_t part = run.step[1] == 1 ? OPDB_TILE : 1;
    for (int64_t i = 0; i < run.n; i += part) {
        int64_t n = run.n - i < part ? run.n - i : part, at = x_at + i * run.step[0];
        if (run.step[0] >= 0)
            opdb_read(x, at, run.step[0], n, OPDB_REAL, tile);
        else
            for (int64_t j = 0; j < n; j++)
                opdb_read(x, at + j * run.step[0], 1, 1, OPDB_REAL, tile + j);
        opdb_write(y, y_at + i * run.step[1], n, OPDB_REAL, tile);
    }
}

/* The number of the loop along which x is contiguous, -1 if there is none. */
static int contiguous(const opdb_nest *nest) {
    int d = nest->rank - 1;
    while (d >= 0 && nest->loop[d].step[0] != 1)
        d--;
    return d;
}

static opdb_loop take(opdb_nest *nest, int d) {
    opdb_loop found = nest->loop[d];
    for (nest->rank--; d < nest->rank; d++)
        nest->loop[d] = nest->loop[d + 1];
    return found;
}

void opdb_move(const opdb_tensor *x, int64_t x_at, const opdb_tensor *y, int64_t y_at, opdb_nest *nest) {
    int64_t size = (int64_t)element_size(y->dtype);
    if (nest_size(nest) == 0)
        return;
    opdb_loop run = nest_pop(nest), row = {1, {0, 0, 0}};
    bool same = copies(x, y), neighbors = same && run.step[0] == 1 && run.step[1] == 1;
    int along = same && run.n > 1 && run.step[0] != 1 && run.step[1] == 1 ? contiguous(nest) : -1;
    if (neighbors && nest->rank > 0)
        row = nest_pop(nest);
    else if (along >= 0)
        row = take(nest, along);
    do {
        int64_t from = x_at + nest->at[0], to = y_at + nest->at[1];
        if (!same) {
            convert_run(x, from, y, to, run);
            continue;
        }
        const char *in = (const char *)x->data + from * size;
        char *out = (char *)y->data + to * size;
        if (neighbors)
            copy_rows(in, out, row, size, run.n * size);
        else if (along >= 0)
            copy_plane_of(in, out, row, run, (size_t)size);
        else
            copy_run(in, out, run, (size_t)size);
    } while (nest_next(nest));
}

void opdb_move_run(const opdb_tensor *x, int64_t x_at, const opdb_tensor *y, int64_t y_at, int64_t n) {
    opdb_nest nest = {0};
    nest_add(&nest, n, 1, 1, 0);
    opdb_move(x, x_at, y, y_at, &nest);
}

void opdb_fill(const opdb_tensor *y, int64_t y_at, int64_t n, double value) {
    opdb_numbers tile;
    opdb_kind kind = opdb_kind_of(y);
    for (int64_t i = 0; i < OPDB_TILE && i < n; i++) {
        if (kind == OPDB_REAL)
            tile.real[i] = (float)value;
        else if (kind == OPDB_WHOLE)
            tile.whole[i] = (int64_t)value;
        else
            tile.truth[i] = value != 0;
    }
    for (int64_t i = 0; i < n; i += OPDB_TILE)
        opdb_write(y, y_at + i, n - i < OPDB_TILE ? n - i : OPDB_TILE, kind, &tile);
}
