/* What generated C code and the kernels include: tensor view, op view, report, checked arithmetic.
 * C99, no allocation.  Sizes in elements, strides implied (dense, row-major). */
#ifndef OPDB_RUNTIME_H
#define OPDB_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "opdb/dtypes.h" /* generated: enum opdb_dtype */

#ifdef __cplusplus
extern "C" {
#endif

enum { OPDB_MAX_RANK = 16, OPDB_MAX_LIST = 64, OPDB_MAX_VIOLATIONS = 64, OPDB_MAX_GOT = 384 };

/* Qnn_QuantizationEncoding_t, and NONE for a tensor without encoding. */
typedef enum {
    OPDB_ENCODING_SCALE_OFFSET = 0,
    OPDB_ENCODING_AXIS_SCALE_OFFSET = 1,
    OPDB_ENCODING_BW_SCALE_OFFSET = 2,
    OPDB_ENCODING_BW_AXIS_SCALE_OFFSET = 3,
    OPDB_ENCODING_BLOCK = 4,
    OPDB_ENCODING_BLOCKWISE_EXPANSION = 5,
    OPDB_ENCODING_VECTOR = 6,
    OPDB_ENCODING_NONE = 0x7fffffff
} opdb_encoding;

/* The numbers of an encoding: real = (stored + offset) * scale. */
typedef struct {
    int64_t n; /* scales, and as many offsets */
    const float *scales;
    const int32_t *offsets;
    uint32_t bits; /* of a BW encoding, else 0 */
} opdb_quant;

/* Qnn_TensorType_t. */
enum opdb_tensor_type {
    OPDB_TENSOR_APP_WRITE = 0,
    OPDB_TENSOR_APP_READ = 1,
    OPDB_TENSOR_APP_READWRITE = 2,
    OPDB_TENSOR_NATIVE = 3,
    OPDB_TENSOR_STATIC = 4
};

/* A list in somebody's memory. */
typedef struct {
    int64_t n;
    const int64_t *v;
} opdb_ints;

/* A list of real numbers. */
typedef struct {
    int64_t n;
    const double *v;
} opdb_reals;

/* A tensor, dense where it has data.  An omitted optional tensor is a NULL pointer, never a struct. */
typedef struct {
    uint32_t rank;
    const int64_t *dims;
    enum opdb_dtype dtype;
    opdb_encoding encoding;
    bool symmetric; /* zero is in the middle of the stored values; true without encoding */
    enum opdb_tensor_type type;
    bool is_sparse;
    int32_t axis;            /* of an axis encoding, else -1 */
    void *data;              /* NULL where only the configuration is judged */
    const opdb_quant *quant; /* NULL without encoding, and where its numbers are not known */
    const opdb_ints *values; /* of a STATIC tensor of integers, row-major; NULL where they are not known */
} opdb_tensor;

/* A computed list, by value. */
typedef struct {
    int64_t n;
    int64_t v[OPDB_MAX_LIST];
} opdb_list;
typedef struct {
    int64_t n;
    const opdb_tensor *const *v;
} opdb_tensors;

/* A tensor parameter of rank 2, row-major: n rows of width values. */
typedef struct {
    int64_t n;
    int64_t width;
    const int64_t *v;
} opdb_rows;

/* One parameter: a scalar (rank 0, count 1) or a tensor of integers (row-major). */
typedef struct {
    const char *name;
    enum opdb_dtype dtype;
    uint32_t rank;       /* 0: a scalar */
    const int64_t *dims; /* of a tensor parameter */
    int64_t count;       /* number of values */
    const int64_t *ints; /* integer, enum and bool values */
    double real;         /* the value of a floating-point scalar */
    const double *reals; /* the values of a floating-point tensor */
} opdb_param;

/* One op as a backend is asked about it. */
typedef struct {
    const char *op;
    size_t num_inputs;
    const opdb_tensor *const *inputs; /* NULL entry: omitted */
    size_t num_outputs;
    const opdb_tensor *const *outputs;
    size_t num_params;
    const opdb_param *params;
    void *scratch; /* memory of the caller's for one run, aligned to 16 bytes; NULL where none is needed */
    size_t scratch_size;
} opdb_op;

/* How much a broken rule matters. */
typedef enum {
    OPDB_REQUIRE = 0, /* the op is rejected */
    OPDB_EXPECT = 1,  /* a warning: the backend prefers it otherwise, or does not check the rule */
    OPDB_ERRATUM = 2  /* a warning: no rule is broken, but the library is known to have a fault here */
} opdb_strength;

typedef struct {
    const char *rule;     /* e.g. "LayerNorm.C3" */
    const char *sentence; /* e.g. "every a in axes must be in [0, rank of x)" */
    const char *why;      /* the effect or the reason in words; "" where the spec gives none */
    bool undecidable;
    opdb_strength strength;
    const char *erratum; /* the fault of a vendor library that the op meets, e.g. "HTP-0042"; "" for a rule */
    const char *effect;  /* of the erratum, e.g. "wrong-result"; "" for a rule */
    char got[OPDB_MAX_GOT];
} opdb_violation;

typedef struct {
    size_t n;
    size_t dropped; /* violations beyond OPDB_MAX_VIOLATIONS */
    opdb_violation v[OPDB_MAX_VIOLATIONS];
} opdb_report;

/* Inferred shapes of the outputs, in order; a variadic output adds several. */
enum { OPDB_MAX_OUTPUTS = 64 };
typedef struct {
    uint32_t rank;
    int64_t dims[OPDB_MAX_RANK];
} opdb_shape_value;
typedef struct {
    size_t n;
    opdb_shape_value v[OPDB_MAX_OUTPUTS];
} opdb_shapes;

typedef enum {
    OPDB_OK = 0,
    OPDB_INVALID = 1,     /* the report says why */
    OPDB_UNSUPPORTED = 2, /* no kernel for these dtypes */
    OPDB_UNKNOWN_OP = 3,
    OPDB_TOO_SMALL = 4,   /* scratch or output buffer; scratch that no memory of this machine holds */
    OPDB_UNDECIDABLE = 5, /* the shapes do not follow from inputs and parameters */
    OPDB_OUTSIDE = 6      /* an index in the data lies outside of its tensor; outputs may be half written */
} opdb_status;

#ifdef __cplusplus
}
#endif
#endif
