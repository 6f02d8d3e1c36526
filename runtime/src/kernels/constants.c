/* Tensors whose values depend on shapes and parameters, or on few inputs. */
#include "move.h"
#include "places.h"

/* The value everywhere; the shape is that of y. */
opdb_status opdb_constant_of_shape(double value, const opdb_tensor *y) {
    if (opdb_kind_of(y) == OPDB_NO_KIND)
        return OPDB_UNSUPPORTED;
    opdb_fill(y, 0, size_of(y), value);
    return OPDB_OK;
}

/* The sizes of x from dim `start` on. */
opdb_status opdb_sizes(const opdb_tensor *x, int64_t start, int64_t end, const opdb_tensor *y) {
    if (opdb_kind_of(y) != OPDB_WHOLE)
        return OPDB_UNSUPPORTED;
    opdb_write(y, 0, end - start, OPDB_WHOLE, x->dims + start);
    return OPDB_OK;
}

/* on_value at the index along the new `axis`, off_value elsewhere; an index outside gives only off_value. */
opdb_status opdb_one_hot(const opdb_tensor *indices, int64_t depth, int64_t axis, double on_value,
                         double off_value, const opdb_tensor *y) {
    if (opdb_kind_of(indices) != OPDB_WHOLE || opdb_kind_of(y) == OPDB_NO_KIND)
        return OPDB_UNSUPPORTED;
    int64_t inner = size_between(indices, axis, indices->rank);
    opdb_fill(y, 0, size_of(y), off_value);
    for (int64_t i = 0; i < size_of(indices); i++) {
        int64_t place = opdb_place(indices, i);
        if (place >= 0 && place < depth)
            opdb_fill(y, (i / inner * depth + place) * inner + i % inner, 1, on_value);
    }
    return OPDB_OK;
}

/* The indices of the elements that are not 0, in order, then rows of 0. */
opdb_status opdb_non_zero(const opdb_tensor *x, const opdb_tensor *y) {
    opdb_kind kind = opdb_kind_of(x);
    int64_t rank = (int64_t)x->rank, found = 0;
    if (kind == OPDB_NO_KIND || opdb_kind_of(y) != OPDB_WHOLE)
        return OPDB_UNSUPPORTED;
    for (int64_t i = 0; i < size_of(x); i++) {
        int64_t row[OPDB_MAX_RANK];
        union {
            float real;
            int64_t whole;
            uint8_t truth;
        } value;
        opdb_read(x, i, 1, 1, kind, &value);
        bool is_zero = kind == OPDB_REAL    ? value.real == 0
                       : kind == OPDB_WHOLE ? value.whole == 0
                                            : value.truth == 0;
        if (is_zero)
            continue;
        for (int64_t d = rank - 1, rest = i; d >= 0; rest /= x->dims[d], d--)
            row[d] = rest % x->dims[d];
        opdb_write(y, found++ * rank, rank, OPDB_WHOLE, row);
    }
    opdb_fill(y, found * rank, (size_of(x) - found) * rank, 0);
    return OPDB_OK;
}
