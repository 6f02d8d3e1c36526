#include "elements.h"

#include <math.h>
#include <string.h>

#include "clones.h"

enum { HALF_INFINITY = 0x7c00, FLOAT_INFINITY = 0x7f800000 };

static inline uint32_t bits_of(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static inline float of_bits(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* The exponent is moved by a product, which makes normal numbers of subnormal ones as well. */
static inline float of_half(uint16_t half) {
    uint32_t magnitude = half & 0x7fffu, sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t finite = bits_of(of_bits(magnitude << 13) * 0x1p112f);
    uint32_t other = FLOAT_INFINITY | magnitude << 13;
    return of_bits(sign | (magnitude >= HALF_INFINITY ? other : finite));
}

/* Adding 0.5 to what is below 2^-14 rounds it to a multiple of 2^-24, which the low bits then hold. */
static inline uint16_t to_half(float v) {
    uint32_t bits = bits_of(v), magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1)) >> 13;
    uint32_t small = bits_of(of_bits(magnitude) + 0.5f) - bits_of(0.5f);
    uint32_t large = magnitude > FLOAT_INFINITY ? 0x7e00u : HALF_INFINITY;
    uint32_t half = magnitude < 113u << 23 ? small : magnitude < 143u << 23 ? normal : large;
    return (uint16_t)(half | (bits >> 16 & 0x8000u));
}

static inline float of_brain(uint16_t brain) { return of_bits((uint32_t)brain << 16); }

static inline uint16_t to_brain(float v) {
    uint32_t bits = bits_of(v), rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffffu) > FLOAT_INFINITY ? bits >> 16 | 0x40u : rounded);
}

/* One encoding of a run. */
typedef struct {
    double scale, offset, lowest, highest;
} affine;

/* v / scale - offset, to the nearest; what is no number becomes the lowest. */
static inline double to_steps(float v, affine of) {
    double steps = rint(v / of.scale) - of.offset;
    steps = steps >= of.lowest ? steps : of.lowest;
    return steps <= of.highest ? steps : of.highest;
}

#define READ(NAME, STORED, COMPUTED, VALUE)                                                                  \
    OPDB_CLONES static void NAME(const void *stored, int64_t step, int64_t n, affine of, void *to) {         \
        const STORED *restrict from = stored;                                                                \
        COMPUTED *restrict out = to;                                                                         \
        (void)of;                                                                                            \
        if (step == 1)                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                                \
                const STORED v = from[i];                                                                    \
                out[i] = (COMPUTED)(VALUE);                                                                  \
            }                                                                                                \
        else                                                                                                 \
            for (int64_t i = 0; i < n; i++) {                                                                \
                const STORED v = from[i * step];                                                             \
                out[i] = (COMPUTED)(VALUE);                                                                  \
            }                                                                                                \
    }

#define WRITE(NAME, STORED, COMPUTED, VALUE)                                                                 \
    OPDB_CLONES static void NAME(const void *computed, int64_t n, affine of, void *to) {                     \
        const COMPUTED *restrict from = computed;                                                            \
        STORED *restrict out = to;                                                                           \
        (void)of;                                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const COMPUTED v = from[i];                                                                      \
            out[i] = (STORED)(VALUE);                                                                        \
        }                                                                                                    \
    }

/* An integer type as integers, as real numbers and as quantised ones; and back. */
#define INTEGERS(NAME, STORED)                                                                               \
    READ(read_##NAME, STORED, int64_t, v)                                                                    \
    READ(read_##NAME##_as_real, STORED, float, v)                                                            \
    READ(read_##NAME##_quantised, STORED, float, (v + of.offset) * of.scale)                                 \
    WRITE(write_##NAME, STORED, int64_t, v)                                                                  \
    WRITE(write_##NAME##_of_truth, STORED, uint8_t, v)                                                       \
    WRITE(write_##NAME##_quantised, STORED, float, to_steps(v, of))                                          \
    WRITE(write_##NAME##_quantised_of_truth, STORED, uint8_t, to_steps(v, of))

INTEGERS(i8, int8_t)
INTEGERS(u8, uint8_t)
INTEGERS(i16, int16_t)
INTEGERS(u16, uint16_t)
INTEGERS(i32, int32_t)
INTEGERS(u32, uint32_t)
READ(read_i64, int64_t, int64_t, v)
READ(read_i64_as_real, int64_t, float, v)
WRITE(write_i64, int64_t, int64_t, v)
WRITE(write_i64_of_truth, int64_t, uint8_t, v)
READ(read_truth, uint8_t, uint8_t, v != 0)
READ(read_truth_as_whole, uint8_t, int64_t, v != 0)
READ(read_truth_as_real, uint8_t, float, v != 0)
WRITE(write_truth, uint8_t, uint8_t, v)
READ(read_f32, float, float, v)
WRITE(write_f32, float, float, v)
WRITE(write_f32_of_truth, float, uint8_t, v)
READ(read_f16, uint16_t, float, of_half(v))
WRITE(write_f16, uint16_t, float, to_half(v))
WRITE(write_f16_of_truth, uint16_t, uint8_t, to_half(v))
READ(read_bf16, uint16_t, float, of_brain(v))
WRITE(write_bf16, uint16_t, float, to_brain(v))
WRITE(write_bf16_of_truth, uint16_t, uint8_t, to_brain(v))

typedef void reader(const void *stored, int64_t step, int64_t n, affine of, void *to);
typedef void writer(const void *computed, int64_t n, affine of, void *to);

typedef struct {
    opdb_kind kind;
    reader *read[OPDB_REAL + 1]; /* by the kind to read as */
    writer *write[OPDB_REAL + 1];
    double lowest, highest; /* of a quantised type */
} element_type;

#define WHOLE_TYPE(NAME)                                                                                     \
    {OPDB_WHOLE,                                                                                             \
     {[OPDB_WHOLE] = read_##NAME, [OPDB_REAL] = read_##NAME##_as_real},                                      \
     {[OPDB_TRUTH] = write_##NAME##_of_truth, [OPDB_WHOLE] = write_##NAME},                                  \
     0,                                                                                                      \
     0}
#define REAL_TYPE(NAME)                                                                                      \
    {OPDB_REAL,                                                                                              \
     {[OPDB_REAL] = read_##NAME},                                                                            \
     {[OPDB_TRUTH] = write_##NAME##_of_truth, [OPDB_REAL] = write_##NAME},                                   \
     0,                                                                                                      \
     0}
#define QUANTISED_TYPE(NAME, LOWEST, HIGHEST)                                                                \
    {OPDB_REAL,                                                                                              \
     {[OPDB_REAL] = read_##NAME##_quantised},                                                                \
     {[OPDB_TRUTH] = write_##NAME##_quantised_of_truth, [OPDB_REAL] = write_##NAME##_quantised},             \
     LOWEST,                                                                                                 \
     HIGHEST}

static const element_type I8 = WHOLE_TYPE(i8), U8 = WHOLE_TYPE(u8), I16 = WHOLE_TYPE(i16),
                          U16 = WHOLE_TYPE(u16), I32 = WHOLE_TYPE(i32), U32 = WHOLE_TYPE(u32),
                          I64 = WHOLE_TYPE(i64);
static const element_type F32 = REAL_TYPE(f32), F16 = REAL_TYPE(f16), BF16 = REAL_TYPE(bf16);
static const element_type SQ8 = QUANTISED_TYPE(i8, INT8_MIN, INT8_MAX),
                          UQ8 = QUANTISED_TYPE(u8, 0, UINT8_MAX),
                          SQ16 = QUANTISED_TYPE(i16, INT16_MIN, INT16_MAX),
                          UQ16 = QUANTISED_TYPE(u16, 0, UINT16_MAX),
                          SQ32 = QUANTISED_TYPE(i32, INT32_MIN, INT32_MAX),
                          UQ32 = QUANTISED_TYPE(u32, 0, UINT32_MAX);
static const element_type BOOL8 = {
    OPDB_TRUTH,
    {[OPDB_TRUTH] = read_truth, [OPDB_WHOLE] = read_truth_as_whole, [OPDB_REAL] = read_truth_as_real},
    {[OPDB_TRUTH] = write_truth},
    0,
    0,
};

static const element_type *type_of(enum opdb_dtype dtype) {
    switch (dtype) {
    case OPDB_I8:
        return &I8;
    case OPDB_U8:
        return &U8;
    case OPDB_I16:
        return &I16;
    case OPDB_U16:
        return &U16;
    case OPDB_I32:
        return &I32;
    case OPDB_U32:
        return &U32;
    case OPDB_I64:
    case OPDB_U64:
        return &I64;
    case OPDB_F32:
        return &F32;
    case OPDB_F16:
        return &F16;
    case OPDB_BF16:
        return &BF16;
    case OPDB_SQ8:
        return &SQ8;
    case OPDB_UQ8:
        return &UQ8;
    case OPDB_SQ16:
        return &SQ16;
    case OPDB_UQ16:
        return &UQ16;
    case OPDB_SQ32:
        return &SQ32;
    case OPDB_UQ32:
        return &UQ32;
    case OPDB_BOOL8:
        return &BOOL8;
    default:
        return NULL;
    }
}

static bool along_axis(const opdb_tensor *t) {
    return t->encoding == OPDB_ENCODING_AXIS_SCALE_OFFSET ||
           t->encoding == OPDB_ENCODING_BW_AXIS_SCALE_OFFSET;
}

opdb_kind opdb_kind_of(const opdb_tensor *t) {
    const element_type *type = type_of(t->dtype);
    if (type == NULL)
        return OPDB_NO_KIND;
    bool quantised = type->lowest < type->highest;
    bool known = t->quant != NULL && t->quant->n > 0 && t->encoding <= OPDB_ENCODING_BW_AXIS_SCALE_OFFSET;
    if (known && along_axis(t))
        known = t->axis >= 0 && t->axis < (int64_t)t->rank && t->quant->n == t->dims[t->axis];
    return quantised && !known ? OPDB_NO_KIND : type->kind;
}

size_t opdb_computed_size(opdb_kind kind) {
    return kind == OPDB_REAL ? sizeof(float) : kind == OPDB_WHOLE ? sizeof(int64_t) : sizeof(uint8_t);
}

bool opdb_is_plain(const opdb_tensor *t) {
    return t->dtype == OPDB_F32 || t->dtype == OPDB_I64 || t->dtype == OPDB_U64;
}

static affine encoding_of(const opdb_tensor *t, const element_type *type, int64_t channel) {
    affine of = {1, 0, type->lowest, type->highest};
    if (type->lowest == type->highest)
        return of;
    of.scale = t->quant->scales[channel];
    of.offset = t->quant->offsets[channel];
    if (t->quant->bits != 0) {
        of.lowest = of.lowest < 0 ? -ldexp(1, (int)t->quant->bits - 1) : 0;
        of.highest = of.lowest + ldexp(1, (int)t->quant->bits) - 1;
    }
    return of;
}

/* Where a run of a tensor with an encoding along an axis stands: its channel, and how far that goes. */
typedef struct {
    int64_t inner, channels;
} axis_of;

static axis_of axis_view(const opdb_tensor *t) {
    axis_of a = {size_between(t, t->axis + 1, t->rank), t->dims[t->axis]};
    return a;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

void opdb_read(const opdb_tensor *t, int64_t at, int64_t step, int64_t n, opdb_kind as, void *to) {
    const element_type *type = type_of(t->dtype);
    const char *stored = t->data;
    char *out = to;
    int64_t size = (int64_t)element_size(t->dtype), made = (int64_t)opdb_computed_size(as);
    if (!along_axis(t)) {
        type->read[as](stored + at * size, step, n, encoding_of(t, type, 0), out);
        return;
    }
    axis_of axis = axis_view(t);
    for (int64_t i = 0, run; i < n; i += run) {
        int64_t place = at + i * step, left = axis.inner - place % axis.inner;
        run = step == 0 ? n : least(n - i, (left + step - 1) / step);
        affine of = encoding_of(t, type, place / axis.inner % axis.channels);
        type->read[as](stored + place * size, step, run, of, out + i * made);
    }
}

void opdb_write(const opdb_tensor *t, int64_t at, int64_t n, opdb_kind from_kind, const void *from) {
    const element_type *type = type_of(t->dtype);
    char *stored = t->data;
    const char *computed = from;
    int64_t size = (int64_t)element_size(t->dtype), made = (int64_t)opdb_computed_size(from_kind);
    if (!along_axis(t)) {
        type->write[from_kind](computed, n, encoding_of(t, type, 0), stored + at * size);
        return;
    }
    axis_of axis = axis_view(t);
    for (int64_t i = 0, run; i < n; i += run) {
        run = least(n - i, axis.inner - (at + i) % axis.inner);
        affine of = encoding_of(t, type, (at + i) / axis.inner % axis.channels);
        type->write[from_kind](computed + i * made, run, of, stored + (at + i) * size);
    }
}
