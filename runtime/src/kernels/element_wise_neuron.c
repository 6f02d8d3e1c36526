#include <math.h>

#include "kernel.h"

enum { ELU, GELU, HARD_SIGMOID, HARD_SWISH, RELU, RELU_MIN_MAX, SIGMOID, SOFTPLUS, TANH };

/* NaN goes through. */
static inline double clamp(double v, double lo, double hi) { return v < lo ? lo : v > hi ? hi : v; }

/* x Phi(x), by erfc so that the left tail keeps its digits. */
static inline double gelu(double v) { return 0.5 * v * erfc(-v * 0.70710678118654752440); }

static inline double sigmoid(double v) { return 1.0 / (1.0 + exp(-v)); }

/* log(1 + exp(beta x)) / beta; x itself above the threshold, which a negative value turns off. */
static inline double softplus(double v, double beta, double threshold) {
    double s = beta * v;
    if (threshold >= 0 && s > threshold)
        return v;
    return (s > 0 ? s + log1p(exp(-s)) : log1p(exp(s))) / beta;
}

#define MAP(EXPRESSION)                                                                                      \
    for (int64_t i = 0; i < n; i++) {                                                                        \
        const double v = in[i];                                                                              \
        out[i] = (float)(EXPRESSION);                                                                        \
    }                                                                                                        \
    return OPDB_OK

/* The functions of QNN's `operation`, each computed in double and rounded once. */
opdb_status opdb_element_wise_neuron(const opdb_tensor *x, int64_t operation, double alpha, double beta,
                                     double min_value, double max_value, double threshold,
                                     const opdb_tensor *y) {
    if (!is_f32(x) || !is_f32(y))
        return OPDB_UNSUPPORTED;
    const float *in = x->data;
    float *out = y->data;
    int64_t n = size_of(y);
    switch (operation) {
    case ELU:
        MAP(v > 0 ? v : alpha * expm1(v));
    case GELU:
        MAP(gelu(v));
    case HARD_SIGMOID:
        MAP(clamp(alpha * v + beta, 0, 1));
    case HARD_SWISH:
        MAP(v * (clamp(v + 3, 0, 6) / 6));
    case RELU:
        return opdb_relu(x, y);
    case RELU_MIN_MAX:
        MAP(clamp(v, min_value, max_value));
    case SIGMOID:
        MAP(sigmoid(v));
    case SOFTPLUS:
        MAP(softplus(v, beta, threshold));
    case TANH:
        MAP(tanh(v));
    default:
        return OPDB_UNSUPPORTED;
    }
}
