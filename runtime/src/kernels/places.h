/* Indices in the data of a tensor. */
#ifndef OPDB_PLACES_H
#define OPDB_PLACES_H

#include "elements.h"

static inline int64_t opdb_place(const opdb_tensor *indices, int64_t at) {
    int64_t place;
    opdb_read(indices, at, 1, 1, OPDB_WHOLE, &place);
    return place;
}

/* The offset of the slice at a tuple of indices into dims[first ...] of t; -1 if an index lies outside. */
static inline int64_t opdb_offset_of(const opdb_tensor *indices, int64_t at, int64_t length,
                                     const opdb_tensor *t, int64_t first) {
    int64_t offset = 0;
    for (int64_t k = 0; k < length; k++) {
        int64_t place = opdb_place(indices, at + k), size = t->dims[first + k];
        if (place < 0 || place >= size)
            return -1;
        offset = offset * size + place;
    }
    return offset;
}

#endif
