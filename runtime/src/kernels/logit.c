#include "clones.h"
#include "kernel.h"
#include "real_math.h"

OPDB_CLONES static void logit_row(const float *restrict x, float *restrict y, int64_t n, double low) {
    for (int64_t i = 0; i < n; i++) {
        double v = real_clamped(x[i], low, 1 - low);
        y[i] = (float)(real_log(v) - real_log(1 - v));
    }
}

/* log(x / (1 - x)); with epsilon, x is first clamped to [epsilon, 1 - epsilon]. */
opdb_status opdb_logit(const opdb_tensor *x, const opdb_tensor *epsilon, const opdb_tensor *y) {
    if (!is_f32(x) || !is_f32(epsilon) || !is_f32(y))
        return OPDB_UNSUPPORTED;
    logit_row(x->data, y->data, size_of(x), epsilon == NULL ? -INFINITY : ((const float *)epsilon->data)[0]);
    return OPDB_OK;
}
