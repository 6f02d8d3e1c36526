#include <string.h>

#include "elements.h"
#include "places.h"

/* Pairs of numbers of each head turn by the angle of their position: neighbours where interleaved, else
 * numbers `half` apart.  What is behind the rotary part stays.  x [N, heads, positions, size]; the caches are
 * [N, positions, half], or [positions, half] with position_ids [N, positions]. */
opdb_status opdb_rotary_embedding(const opdb_tensor *x, const opdb_tensor *cos_cache,
                                  const opdb_tensor *sin_cache, const opdb_tensor *position_ids,
                                  bool interleaved, int64_t half, const opdb_tensor *y) {
    if (!is_f32(x) || !is_f32(cos_cache) || !is_f32(sin_cache) || !is_f32(y) ||
        (position_ids != NULL && opdb_kind_of(position_ids) != OPDB_WHOLE))
        return OPDB_UNSUPPORTED;
    int64_t heads = x->dims[1], positions = x->dims[2], size = x->dims[3];
    int64_t rows = x->dims[0] * heads * positions, apart = interleaved ? 1 : half, step = interleaved ? 2 : 1;
    for (int64_t row = 0; row < rows; row++) {
        int64_t cached = row / positions / heads * positions + row % positions;
        if (position_ids != NULL)
            cached = opdb_place(position_ids, cached);
        if (cached < 0 || cached >= size_of(cos_cache) / (half > 0 ? half : 1))
            return OPDB_OUTSIDE;
        const float *in = (const float *)x->data + row * size,
                    *c = (const float *)cos_cache->data + cached * half,
                    *s = (const float *)sin_cache->data + cached * half;
        float *out = (float *)y->data + row * size;
        memcpy(out, in, (size_t)size * sizeof *out);
        for (int64_t i = 0; i < half; i++) {
            double a = in[i * step], b = in[i * step + apart];
            out[i * step] = (float)(a * c[i] - b * s[i]);
            out[i * step + apart] = (float)(b * c[i] + a * s[i]);
        }
    }
    return OPDB_OK;
}
