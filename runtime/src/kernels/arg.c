/* The position of the greatest or the least number along an axis. */
#include "better.h"
#include "elements.h"

typedef union {
    float real[OPDB_TILE];
    int64_t whole[OPDB_TILE];
} best;

/* Updates the best of n columns with number k of the axis; of equal ones the first stays, and NaN beats
 * all. */
#define TAKE(MEMBER)                                                                                         \
    for (int64_t i = 0; i < n; i++)                                                                          \
        if (k == 0 || (greatest ? row->MEMBER[i] > found->MEMBER[i] : row->MEMBER[i] < found->MEMBER[i]) ||  \
            (row->MEMBER[i] != row->MEMBER[i] && found->MEMBER[i] == found->MEMBER[i])) {                    \
            found->MEMBER[i] = row->MEMBER[i];                                                               \
            place[i] = k;                                                                                    \
        }

static void take(const opdb_numbers *row, int64_t n, int64_t k, opdb_kind kind, bool greatest, best *found,
                 int64_t *place) {
    if (kind == OPDB_REAL) {
        TAKE(real)
    } else {
        TAKE(whole)
    }
}

/* One number of the row at a time. */
static int64_t place_in_row(const opdb_tensor *x, int64_t at, int64_t size, opdb_kind kind, bool greatest) {
    opdb_numbers tile, one;
    best found;
    int64_t place = 0;
    for (int64_t k = 0; k < size; k++) {
        if (k % OPDB_TILE == 0)
            opdb_read(x, at + k, 1, size - k < OPDB_TILE ? size - k : OPDB_TILE, kind, &tile);
        if (kind == OPDB_REAL && k > 0 && k % OPDB_PASSED == 0 && size - k >= OPDB_PASSED &&
            none_better(&tile.real[k % OPDB_TILE], found.real[0], greatest)) {
            k += OPDB_PASSED - 1;
            continue;
        }
        if (kind == OPDB_REAL)
            one.real[0] = tile.real[k % OPDB_TILE];
        else
            one.whole[0] = tile.whole[k % OPDB_TILE];
        take(&one, 1, k, kind, greatest, &found, &place);
    }
    return place;
}

static opdb_status arg(const opdb_tensor *x, int64_t axis, bool greatest, const opdb_tensor *y) {
    opdb_kind kind = opdb_kind_of(x);
    if (kind < OPDB_WHOLE || opdb_kind_of(y) != OPDB_WHOLE)
        return OPDB_UNSUPPORTED;
    int64_t outer = size_between(x, 0, axis), size = x->dims[axis],
            inner = size_between(x, axis + 1, x->rank);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0, n; i < inner; i += n) {
            opdb_numbers row;
            best found;
            int64_t place[OPDB_TILE] = {0};
            n = inner - i < OPDB_TILE ? inner - i : OPDB_TILE;
            if (inner == 1)
                place[0] = place_in_row(x, o * size, size, kind, greatest);
            for (int64_t k = 0; k < size && inner > 1; k++) {
                opdb_read(x, (o * size + k) * inner + i, 1, n, kind, &row);
                take(&row, n, k, kind, greatest, &found, place);
            }
            opdb_write(y, o * inner + i, n, OPDB_WHOLE, place);
        }
    return OPDB_OK;
}

opdb_status opdb_argmax(const opdb_tensor *x, int64_t axis, const opdb_tensor *y) {
    return arg(x, axis, true, y);
}

opdb_status opdb_argmin(const opdb_tensor *x, int64_t axis, const opdb_tensor *y) {
    return arg(x, axis, false, y);
}
