#include <math.h>

#include "nest.h"

enum {
    ADD,
    AND,
    DIVIDE,
    EQUAL,
    FLOOR_DIV,
    FMOD,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    MAXIMUM,
    MINIMUM,
    MOD,
    MULTIPLY,
    NOT_EQUAL,
    OR,
    POWER,
    SQUARED_DIFFERENCE,
    SUBTRACT,
    XOR
};

/* Python's a % b: the sign of b. */
static inline float mod(float a, float b) {
    float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* Python's a // b, exact where a / b is not: 1 // 0.1 is 9. */
static inline float floor_div(float a, float b) {
    if (b == 0)
        return a / b;
    float r = fmodf(a, b);
    float q = (a - r) / b - (r != 0 && (r < 0) != (b < 0)); /* an integer, but for rounding */
    float whole = floorf(q);
    if (q == 0)
        return copysignf(0, a / b);
    return q - whole > 0.5f ? whole + 1 : whole;
}

/* NaN wins over any number. */
static inline float maximum(float a, float b) { return a > b || a != a ? a : b; }
static inline float minimum(float a, float b) { return a < b || a != a ? a : b; }

/* One row: n elements, a and b each with step 1 or 0.  Separate loops, so that each vectorises. */
#define ROW(NAME, IN, OUT, EXPRESSION)                                                                       \
    static void NAME(const void *in0, const void *in1, void *out, opdb_loop row) {                           \
        const IN *p = in0, *q = in1;                                                                         \
        OUT *r = out;                                                                                        \
        if (row.step[0] == 0) {                                                                              \
            const IN a = *p;                                                                                 \
            for (int64_t i = 0; i < row.n; i++) {                                                            \
                const IN b = q[i * row.step[1]];                                                             \
                r[i] = EXPRESSION;                                                                           \
            }                                                                                                \
        } else if (row.step[1] == 0) {                                                                       \
            const IN b = *q;                                                                                 \
            for (int64_t i = 0; i < row.n; i++) {                                                            \
                const IN a = p[i];                                                                           \
                r[i] = EXPRESSION;                                                                           \
            }                                                                                                \
        } else {                                                                                             \
            for (int64_t i = 0; i < row.n; i++) {                                                            \
                const IN a = p[i], b = q[i];                                                                 \
                r[i] = EXPRESSION;                                                                           \
            }                                                                                                \
        }                                                                                                    \
    }

ROW(row_add, float, float, a + b)
ROW(row_and, uint8_t, uint8_t, (a != 0) & (b != 0))
ROW(row_divide, float, float, a / b)
ROW(row_equal, float, uint8_t, a == b)
ROW(row_floor_div, float, float, floor_div(a, b))
ROW(row_fmod, float, float, fmodf(a, b))
ROW(row_greater, float, uint8_t, a > b)
ROW(row_greater_equal, float, uint8_t, a >= b)
ROW(row_less, float, uint8_t, a < b)
ROW(row_less_equal, float, uint8_t, a <= b)
ROW(row_maximum, float, float, maximum(a, b))
ROW(row_minimum, float, float, minimum(a, b))
ROW(row_mod, float, float, mod(a, b))
ROW(row_multiply, float, float, a *b)
ROW(row_not_equal, float, uint8_t, a != b)
ROW(row_or, uint8_t, uint8_t, (a != 0) | (b != 0))
ROW(row_power, float, float, powf(a, b))
ROW(row_squared_difference, float, float, (a - b) * (a - b))
ROW(row_subtract, float, float, a - b)
ROW(row_xor, uint8_t, uint8_t, (a != 0) ^ (b != 0))

typedef struct {
    void (*row)(const void *, const void *, void *, opdb_loop);
    enum opdb_dtype in, out;
} operation_def;

/* By QNN's number of the operation. */
static const operation_def OPERATIONS[] = {
    [ADD] = {row_add, OPDB_F32, OPDB_F32},
    [AND] = {row_and, OPDB_BOOL8, OPDB_BOOL8},
    [DIVIDE] = {row_divide, OPDB_F32, OPDB_F32},
    [EQUAL] = {row_equal, OPDB_F32, OPDB_BOOL8},
    [FLOOR_DIV] = {row_floor_div, OPDB_F32, OPDB_F32},
    [FMOD] = {row_fmod, OPDB_F32, OPDB_F32},
    [GREATER] = {row_greater, OPDB_F32, OPDB_BOOL8},
    [GREATER_EQUAL] = {row_greater_equal, OPDB_F32, OPDB_BOOL8},
    [LESS] = {row_less, OPDB_F32, OPDB_BOOL8},
    [LESS_EQUAL] = {row_less_equal, OPDB_F32, OPDB_BOOL8},
    [MAXIMUM] = {row_maximum, OPDB_F32, OPDB_F32},
    [MINIMUM] = {row_minimum, OPDB_F32, OPDB_F32},
    [MOD] = {row_mod, OPDB_F32, OPDB_F32},
    [MULTIPLY] = {row_multiply, OPDB_F32, OPDB_F32},
    [NOT_EQUAL] = {row_not_equal, OPDB_F32, OPDB_BOOL8},
    [OR] = {row_or, OPDB_BOOL8, OPDB_BOOL8},
    [POWER] = {row_power, OPDB_F32, OPDB_F32},
    [SQUARED_DIFFERENCE] = {row_squared_difference, OPDB_F32, OPDB_F32},
    [SUBTRACT] = {row_subtract, OPDB_F32, OPDB_F32},
    [XOR] = {row_xor, OPDB_BOOL8, OPDB_BOOL8},
};

/* y = operation(a, b) with numpy's broadcasting: float32 for arithmetic, float32 to bool8 for
 * comparisons, bool8 for AND, OR, XOR. */
opdb_status opdb_element_wise_binary(const opdb_tensor *a, const opdb_tensor *b, int64_t operation,
                                     const opdb_tensor *y) {
    if (operation < ADD || operation > XOR)
        return OPDB_UNSUPPORTED;
    const operation_def *def = &OPERATIONS[operation];
    if (a->dtype != def->in || b->dtype != def->in || y->dtype != def->out)
        return OPDB_UNSUPPORTED;
    if (size_of(y) == 0)
        return OPDB_OK;

    opdb_nest nest = {0};
    for (int64_t d = 0; d < (int64_t)y->rank; d++)
        nest_add(&nest, y->dims[d], broadcast_step(a, y, d), broadcast_step(b, y, d),
                 size_between(y, d + 1, y->rank));
    opdb_loop row = nest_pop(&nest);
    const char *in0 = a->data, *in1 = b->data;
    char *out = y->data;
    int64_t in_size = (int64_t)element_size(def->in), out_size = (int64_t)element_size(def->out);
    do {
        def->row(in0 + nest.at[0] * in_size, in1 + nest.at[1] * in_size, out + nest.at[2] * out_size, row);
    } while (nest_next(&nest));
    return OPDB_OK;
}

opdb_status opdb_element_wise_add(const opdb_tensor *a, const opdb_tensor *b, const opdb_tensor *y) {
    return opdb_element_wise_binary(a, b, ADD, y);
}
