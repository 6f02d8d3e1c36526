#include "elements.h"
#include "places.h"
#include "rotary.h"

/* Rotates pairs of numbers of each head by the angle of their position: adjacent numbers if interleaved, else
 * numbers `half` apart. The numbers after the rotary part stay.  x [N, heads, positions, size]; the caches
 * are [N, positions, half], or [positions, half] with position_ids [N, positions]. */
opdb_status opdb_rotary_embedding(const opdb_tensor *x, const opdb_tensor *cos_cache,
                                  const opdb_tensor *sin_cache, const opdb_tensor *position_ids,
                                  bool interleaved, int64_t half, const opdb_tensor *y) {
    if (!is_f32(x) || !is_f32(cos_cache) || !is_f32(sin_cache) || !is_f32(y) ||
        (position_ids != NULL && opdb_kind_of(position_ids) != OPDB_WHOLE))
        return OPDB_UNSUPPORTED;
    int64_t heads = x->dims[1], positions = x->dims[2], size = x->dims[3];
    int64_t rows = x->dims[0] * heads * positions;
    for (int64_t row = 0; row < rows; row++) {
        int64_t cached = row / positions / heads * positions + row % positions;
        if (position_ids != NULL)
            cached = opdb_place(position_ids, cached);
        if (cached < 0 || cached >= size_of(cos_cache) / (half > 0 ? half : 1))
            return OPDB_OUTSIDE;
        rotary_turn((const float *)x->data + row * size, (float *)y->data + row * size, size, half,
                    interleaved, (const float *)cos_cache->data + cached * half,
                    (const float *)sin_cache->data + cached * half);
    }
    return OPDB_OK;
}
