/* Causal attention with a cache, in which several query heads share one key and value head. */
#include <math.h>

#include "gemm.h"
#include "places.h"
#include "rotary.h"
#include "softmax.h"

enum { ROWS = 64 }; /* queries multiplied at once; the spec's scratch has room for this many */

/* The sizes of an op, and the current batch. */
typedef struct {
    const opdb_tensor *cos_cache, *sin_cache; /* NULL without rotation */
    const opdb_tensor *position_ids, *bias;   /* or NULL */
    int64_t seq, size, heads, kv_heads, group;
    float scale;
    int64_t batch, past; /* past: rows of the cache before those of this call */
} attention;

/* The position of row s of the batch, which sets its rotation. */
static int64_t position_of(const attention *a, int64_t s) {
    return a->position_ids != NULL ? opdb_place(a->position_ids, a->batch * a->seq + s) : a->past + s;
}

/* Row s of one head, rotated if `turns`. */
static void put_row(const attention *a, int64_t s, bool turns, const float *from, float *to) {
    if (!turns || a->cos_cache == NULL) {
        memcpy(to, from, (size_t)a->size * sizeof *to);
        return;
    }
    int64_t half = a->size / 2, at = position_of(a, s) * half;
    rotary_turn(from, to, a->size, half, false, (const float *)a->cos_cache->data + at,
                (const float *)a->sin_cache->data + at);
}

/* The past rows of a head, then the rows of this call, `step` apart, then zeros up to `room`. */
static void put_head(const attention *a, int64_t head, bool turns, const opdb_tensor *past, const float *now,
                     int64_t step, float *to, int64_t room) {
    if (a->past > 0) {
        int64_t at = (a->batch * a->kv_heads + head) * past->dims[2] * a->size;
        memcpy(to, (const float *)past->data + at, (size_t)(a->past * a->size) * sizeof *to);
    }
    for (int64_t s = 0; s < a->seq; s++)
        put_row(a, s, turns, now + s * step, to + (a->past + s) * a->size);
    int64_t end = a->past + a->seq;
    memset(to + end * a->size, 0, (size_t)((room - end) * a->size) * sizeof *to);
}

/* y = op(b) times consecutive rows of x. */
static void multiply(const float *x, int64_t m, int64_t depth, const float *b, bool transposed, int64_t n,
                     float *y) {
    gemm_matrix rows = {x, depth, 1};
    gemm_job job = {
        .m = m,
        .n = n,
        .taps = 1,
        .depth = depth,
        .rows = opdb_gemm_rows,
        .a = &rows,
        .a_along = 1,
        .b = b,
        .b_down = transposed ? 1 : n,
        .b_along = transposed ? depth : 1,
        .y = y,
        .y_down = n,
    };
    opdb_gemm(&job);
}

/* Softmax of the `length` scores of row s of a query head: over the keys up to its own position, 0 for later
 * ones. */
static void weigh(const attention *a, int64_t head, int64_t s, float *scores, int64_t length, float *scaled) {
    const opdb_tensor *bias = a->bias;
    int64_t seen = a->past + s + 1;
    const float *more = NULL;
    if (bias != NULL) {
        int64_t batch = bias->dims[0] > 1 ? a->batch : 0, of_head = bias->dims[1] > 1 ? head : 0;
        more = (const float *)bias->data + ((batch * bias->dims[1] + of_head) * a->seq + s) * bias->dims[3];
    }
    for (int64_t j = 0; j < seen; j++)
        scaled[j] = scores[j] * a->scale + (more != NULL ? more[j] : 0);
    opdb_softmax_row(scaled, scores, seen, 1, false);
    memset(scores + seen, 0, (size_t)(length - seen) * sizeof *scores);
}

/* The query heads that share `kv_head`.  Rows of query are `step` apart; scratch: ROWS rows of a head, as
 * many rows of scores, and one more row of scores. */
static void attend(const attention *a, int64_t kv_head, const float *query, int64_t step, const float *keys,
                   const float *values, float *y, float *scratch) {
    int64_t rows = a->seq * a->group, size = a->size, first = kv_head * a->group;
    float *part = scratch, *scaled = part + ROWS * size, *scores = scaled + a->past + a->seq;
    for (int64_t r = 0; r < rows; r += ROWS) {
        int64_t m = rows - r < ROWS ? rows - r : ROWS, length = a->past + (r + m - 1) / a->group + 1;
        for (int64_t i = 0; i < m; i++) {
            int64_t s = (r + i) / a->group, head = first + (r + i) % a->group;
            put_row(a, s, true, query + s * step + head * size, part + i * size);
        }
        multiply(part, m, size, keys, true, length, scores);
        for (int64_t i = 0; i < m; i++)
            weigh(a, first + (r + i) % a->group, (r + i) / a->group, scores + i * length, length, scaled);
        multiply(scores, m, length, values, false, size, part);
        for (int64_t i = 0; i < m; i++) {
            int64_t s = (r + i) / a->group, head = first + (r + i) % a->group;
            memcpy(y + (s * a->heads + head) * size, part + i * size, (size_t)size * sizeof *y);
        }
    }
}

/* True if the past and everything else that the batch reads is given. */
static bool is_inside(const attention *a, const opdb_tensor *past_key) {
    if (a->past < 0 || a->past > (past_key != NULL ? past_key->dims[2] : 0))
        return false;
    for (int64_t s = 0; a->cos_cache != NULL && s < a->seq; s++)
        if (position_of(a, s) < 0 || position_of(a, s) >= a->cos_cache->dims[0])
            return false;
    return a->bias == NULL || a->past + a->seq <= a->bias->dims[3];
}

/* The batch's first rows of query, key and value; rows are `step` and `kv_step` apart. */
typedef struct {
    const float *query, *key, *value;
    int64_t step, kv_step;
} projections;

static projections projections_of(const attention *a, const opdb_tensor *query, const opdb_tensor *key,
                                  const opdb_tensor *value) {
    int64_t step = query->dims[2], kv_step = key != NULL ? key->dims[2] : step;
    const float *q = (const float *)query->data + a->batch * a->seq * step;
    projections p = {q, q + a->heads * a->size, q + (a->heads + a->kv_heads) * a->size, step, kv_step};
    if (key != NULL) {
        p.key = (const float *)key->data + a->batch * a->seq * kv_step;
        p.value = (const float *)value->data + a->batch * a->seq * kv_step;
    }
    return p;
}

/* The current batch: its keys and values are assembled in the results, or in the scratch. */
static opdb_status of_batch(const attention *a, const projections *p, const opdb_tensor *past_key,
                            const opdb_tensor *past_value, const opdb_tensor *y,
                            const opdb_tensor *present_key, const opdb_tensor *present_value,
                            float *scratch) {
    int64_t room = present_key != NULL ? present_key->dims[2] : a->past + a->seq, length = room * a->size;
    if (!is_inside(a, past_key))
        return OPDB_OUTSIDE;
    if (room < a->past + a->seq)
        return OPDB_TOO_SMALL;
    float *rest = present_key != NULL ? scratch : scratch + 2 * length;
    for (int64_t h = 0; h < a->kv_heads; h++) {
        int64_t at = (a->batch * a->kv_heads + h) * length;
        float *keys = present_key != NULL ? (float *)present_key->data + at : scratch;
        float *values = present_value != NULL ? (float *)present_value->data + at : scratch + length;
        put_head(a, h, true, past_key, p->key + h * a->size, p->kv_step, keys, room);
        put_head(a, h, false, past_value, p->value + h * a->size, p->kv_step, values, room);
        attend(a, h, p->query, p->step, keys, values,
               (float *)y->data + a->batch * a->seq * a->heads * a->size, rest);
    }
    return OPDB_OK;
}

/* Like GroupQueryAttention of ONNX Runtime: seqlens_k is one less than all rows of a batch; if all of them
 * are in this call (total_sequence_length), the past is not read. scale 0: one over the root of the head
 * size. Without key and value, the query holds them behind its heads. */
opdb_status opdb_group_query_attention(const opdb_tensor *query, const opdb_tensor *seqlens_k,
                                       const opdb_tensor *total_sequence_length, const opdb_tensor *key,
                                       const opdb_tensor *value, const opdb_tensor *past_key,
                                       const opdb_tensor *past_value, const opdb_tensor *cos_cache,
                                       const opdb_tensor *sin_cache, const opdb_tensor *position_ids,
                                       const opdb_tensor *attention_bias, int64_t num_heads,
                                       int64_t kv_num_heads, int64_t do_rotary, double factor,
                                       const opdb_tensor *y, const opdb_tensor *present_key,
                                       const opdb_tensor *present_value, void *scratch) {
    const opdb_tensor *real[] = {query,      key,         value,        past_key,
                                 past_value, cos_cache,   sin_cache,    attention_bias,
                                 y,          present_key, present_value};
    for (size_t i = 0; i < sizeof real / sizeof real[0]; i++)
        if (!is_f32(real[i]))
            return OPDB_UNSUPPORTED;
    attention a = {.position_ids = position_ids,
                   .bias = attention_bias,
                   .seq = query->dims[1],
                   .size = y->dims[2] / num_heads,
                   .heads = num_heads,
                   .kv_heads = kv_num_heads,
                   .group = num_heads / kv_num_heads};
    if (num_heads % kv_num_heads != 0 || (key != NULL && key->dims[1] != a.seq) || do_rotary > 1)
        return OPDB_UNSUPPORTED;
    if (do_rotary == 1) {
        a.cos_cache = cos_cache;
        a.sin_cache = sin_cache;
    }
    a.scale = (float)(factor != 0 ? factor : 1 / sqrt((double)a.size));
    bool prompt = opdb_place(total_sequence_length, 0) == a.seq;
    opdb_status status = OPDB_OK;
    for (; a.batch < query->dims[0] && a.size > 0 && status == OPDB_OK; a.batch++) {
        a.past = prompt ? 0 : opdb_place(seqlens_k, a.batch) + 1 - a.seq;
        projections p = projections_of(&a, query, key, value);
        status = of_batch(&a, &p, past_key, past_value, y, present_key, present_value, scratch);
    }
    return status;
}
