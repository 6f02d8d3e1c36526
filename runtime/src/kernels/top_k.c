#include "better.h"
#include "elements.h"

/* A number and its position; `value` is not used for integers. */
typedef struct {
    double value;
    int64_t whole, place;
} candidate;

/* True if a comes before b: the better number, or the first of equal ones; NaN beats all. */
static bool before(const candidate *a, const candidate *b, bool largest) {
    bool a_none = a->value != a->value, b_none = b->value != b->value;
    if (a_none || b_none)
        return a_none && (!b_none || a->place < b->place);
    if (a->value != b->value)
        return largest ? a->value > b->value : a->value < b->value;
    if (a->whole != b->whole)
        return largest ? a->whole > b->whole : a->whole < b->whole;
    return a->place < b->place;
}

/* heap[0] is the worst of n; moves heap[i] down to its place. */
static void sift(candidate *heap, int64_t n, int64_t i, bool largest) {
    for (;;) {
        int64_t worst = i;
        for (int64_t child = 2 * i + 1; child <= 2 * i + 2 && child < n; child++)
            if (before(&heap[worst], &heap[child], largest))
                worst = child;
        if (worst == i)
            return;
        candidate t = heap[i];
        heap[i] = heap[worst];
        heap[worst] = t;
        i = worst;
    }
}

/* The best k of a row, best first. */
static void best_of_row(const opdb_tensor *x, int64_t at, int64_t size, int64_t k, bool largest,
                        candidate *heap) {
    opdb_kind kind = opdb_kind_of(x);
    bool real = kind == OPDB_REAL;
    opdb_numbers tile;
    for (int64_t i = 0; i < size; i++) {
        if (i % OPDB_TILE == 0)
            opdb_read(x, at + i, 1, size - i < OPDB_TILE ? size - i : OPDB_TILE, kind, &tile);
        if (real && i >= k) { /* most are skipped, OPDB_PASSED at a time if possible */
            const float *v = &tile.real[i % OPDB_TILE], worst = (float)heap[0].value;
            bool many = i % OPDB_PASSED == 0 && size - i >= OPDB_PASSED && none_better(v, worst, largest);
            i += many ? OPDB_PASSED - 1 : 0;
            if (many || (largest ? *v <= worst : *v >= worst))
                continue;
        }
        candidate c = {real ? (double)tile.real[i % OPDB_TILE] : 0, real ? 0 : tile.whole[i % OPDB_TILE], i};
        if (i < k) {
            heap[i] = c;
            for (int64_t root = i == k - 1 ? k / 2 : -1; root >= 0; root--)
                sift(heap, k, root, largest);
        } else if (before(&c, &heap[0], largest)) {
            heap[0] = c;
            sift(heap, k, 0, largest);
        }
    }
    for (int64_t n = k - 1; n > 0; n--) { /* the worst goes to the end */
        candidate t = heap[0];
        heap[0] = heap[n];
        heap[n] = t;
        sift(heap, n, 0, largest);
    }
}

/* The k largest or smallest numbers of each row and their positions, best first. */
opdb_status opdb_top_k(const opdb_tensor *x, int64_t k, bool largest, const opdb_tensor *values,
                       const opdb_tensor *indices, void *scratch) {
    opdb_kind kind = opdb_kind_of(x);
    candidate *heap = scratch;
    if (kind < OPDB_WHOLE || opdb_kind_of(values) != kind || opdb_kind_of(indices) != OPDB_WHOLE)
        return OPDB_UNSUPPORTED;
    int64_t size = x->dims[x->rank - 1], rows = size_between(x, 0, (int64_t)x->rank - 1);
    for (int64_t row = 0; row < rows && k > 0; row++) {
        best_of_row(x, row * size, size, k, largest, heap);
        for (int64_t i = 0; i < k; i++) {
            float real = (float)heap[i].value;
            opdb_write(values, row * k + i, 1, kind, kind == OPDB_REAL ? (void *)&real : &heap[i].whole);
            opdb_write(indices, row * k + i, 1, OPDB_WHOLE, &heap[i].place);
        }
    }
    return OPDB_OK;
}
