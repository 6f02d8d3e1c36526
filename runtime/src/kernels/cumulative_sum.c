#include "elements.h"

typedef union {
    double real[OPDB_TILE];
    uint64_t whole[OPDB_TILE]; /* integers wrap */
} sums;

/* Adds n numbers to their sums, and replaces them by the sums before or after the addition. */
static void add(opdb_numbers *row, int64_t n, opdb_kind kind, bool exclusive, sums *s) {
    for (int64_t i = 0; i < n; i++)
        if (kind == OPDB_REAL) {
            double before = s->real[i];
            s->real[i] = before + row->real[i];
            row->real[i] = (float)(exclusive ? before : s->real[i]);
        } else {
            uint64_t before = s->whole[i];
            s->whole[i] = before + (uint64_t)row->whole[i];
            row->whole[i] = (int64_t)(exclusive ? before : s->whole[i]);
        }
}

/* Sums along neighbors, which are read and written in runs. */
static void along_row(const opdb_tensor *x, const opdb_tensor *y, int64_t at, int64_t size, opdb_kind kind,
                      bool exclusive, bool reverse) {
    double real = 0;
    uint64_t whole = 0;
    for (int64_t i = 0, n; i < size; i += n) {
        opdb_numbers row;
        n = size - i < OPDB_TILE ? size - i : OPDB_TILE;
        int64_t from = at + (reverse ? size - i - n : i);
        opdb_read(x, from, 1, n, kind, &row);
        for (int64_t k = 0; k < n; k++) {
            int64_t j = reverse ? n - 1 - k : k;
            if (kind == OPDB_REAL) {
                double before = real;
                real += row.real[j];
                row.real[j] = (float)(exclusive ? before : real);
            } else {
                uint64_t before = whole;
                whole += (uint64_t)row.whole[j];
                row.whole[j] = (int64_t)(exclusive ? before : whole);
            }
        }
        opdb_write(y, from, n, kind, &row);
    }
}

/* The sum of x up to each element of `axis`, itself included or not, from the start or from the end. */
opdb_status opdb_cumulative_sum(const opdb_tensor *x, int64_t axis, bool exclusive, bool reverse,
                                const opdb_tensor *y) {
    opdb_kind kind = opdb_kind_of(x);
    if (kind < OPDB_WHOLE || opdb_kind_of(y) != kind)
        return OPDB_UNSUPPORTED;
    int64_t outer = size_between(x, 0, axis), size = x->dims[axis],
            inner = size_between(x, axis + 1, x->rank);
    for (int64_t o = 0; o < outer && inner == 1; o++)
        along_row(x, y, o * size, size, kind, exclusive, reverse);
    for (int64_t o = 0; o < outer && inner > 1; o++)
        for (int64_t i = 0, n; i < inner; i += n) {
            sums s;
            n = inner - i < OPDB_TILE ? inner - i : OPDB_TILE;
            for (int64_t j = 0; j < n; j++)
                if (kind == OPDB_REAL)
                    s.real[j] = 0;
                else
                    s.whole[j] = 0;
            for (int64_t k = 0; k < size; k++) {
                int64_t at = (o * size + (reverse ? size - 1 - k : k)) * inner + i;
                opdb_numbers row;
                opdb_read(x, at, 1, n, kind, &row);
                add(&row, n, kind, exclusive, &s);
                opdb_write(y, at, n, kind, &row);
            }
        }
    return OPDB_OK;
}
