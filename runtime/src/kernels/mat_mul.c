#include "gemm.h"
#include "nest.h"

static gemm_matrix matrix(const opdb_tensor *t, bool transposed) {
    int64_t columns = t->dims[t->rank - 1];
    gemm_matrix m = {t->data, transposed ? 1 : columns, transposed ? columns : 1};
    return m;
}

/* y = op(a) op(b) + bias: [.., M, K] by [.., K, N] after the transpositions of the last two dims; the
 * dims before them broadcast.  bias has N values. */
opdb_status opdb_mat_mul(const opdb_tensor *a, const opdb_tensor *b, const opdb_tensor *bias,
                         bool transpose_in0, bool transpose_in1, const opdb_tensor *y) {
    if (!is_f32(a) || !is_f32(b) || !is_f32(bias) || !is_f32(y))
        return OPDB_UNSUPPORTED;
    if (size_of(y) == 0)
        return OPDB_OK;
    int64_t m = y->dims[y->rank - 2], n = y->dims[y->rank - 1],
            k = a->dims[a->rank - (transpose_in0 ? 2 : 1)];
    gemm_matrix ma = matrix(a, transpose_in0), mb = matrix(b, transpose_in1);
    opdb_nest batch = {0};
    for (int64_t d = 0; d < (int64_t)y->rank - 2; d++)
        nest_add(&batch, y->dims[d], broadcast_step(a, y, d), broadcast_step(b, y, d),
                 size_between(y, d + 1, y->rank));
    if (batch.rank > 0 && !transpose_in0) { /* one b for many a: more rows of a */
        const opdb_loop *inner = &batch.loop[batch.rank - 1];
        if (inner->step[0] == m * k && inner->step[1] == 0)
            m *= nest_pop(&batch).n;
    }
    do {
        gemm_matrix ai = ma;
        ai.v += batch.at[0];
        gemm_job job = {
            .m = m,
            .n = n,
            .taps = 1,
            .depth = k,
            .rows = opdb_gemm_rows,
            .a = &ai,
            .a_along = ai.along,
            .b = mb.v + batch.at[1],
            .b_down = mb.down,
            .b_along = mb.along,
            .bias = bias == NULL ? NULL : bias->data,
            .y = (float *)y->data + batch.at[2],
            .y_down = n,
        };
        opdb_gemm(&job);
    } while (nest_next(&batch));
    return OPDB_OK;
}

/* y = x weight' + bias: x as [batch, n], weight [m, n], bias [m]. */
opdb_status opdb_fully_connected(const opdb_tensor *x, const opdb_tensor *weight, const opdb_tensor *bias,
                                 const opdb_tensor *y) {
    if (!is_f32(x) || !is_f32(weight) || !is_f32(bias) || !is_f32(y))
        return OPDB_UNSUPPORTED;
    int64_t m = weight->dims[0], n = weight->dims[1];
    if (size_of(y) == 0)
        return OPDB_OK;
    gemm_matrix a = {x->data, n, 1};
    gemm_job job = {
        .m = size_of(y) / m,
        .n = m,
        .taps = 1,
        .depth = n,
        .rows = opdb_gemm_rows,
        .a = &a,
        .a_along = 1,
        .b = weight->data,
        .b_down = 1,
        .b_along = n,
        .bias = bias == NULL ? NULL : bias->data,
        .y = y->data,
        .y_down = m,
    };
    opdb_gemm(&job);
    return OPDB_OK;
}
