/* Custom ops for Qualcomm Cloud AI: the part generated for an op, in all generations of the interface.
 *
 * Nothing here needs an operating system: kernels for the card include it. */
#ifndef OPDB_AIC_H
#define OPDB_AIC_H

#include "opdb/runtime.h"
#include "opdb/tiling.h"

enum { OPDB_AIC_RANK = 8, OPDB_AIC_THREADS = 4 };

typedef struct {
    const char *name;
    enum opdb_dtype dtype;
    uint32_t rank; /* 0: a scalar; 2: rows of `width` values */
    int64_t width;
} opdb_aic_param;

/* `rows`: the types that the op takes; each row has those of all inputs, then all outputs. Tensors after the
 * last slot belong to it. */
typedef struct {
    const char *name;
    size_t num_inputs;
    size_t num_outputs;
    size_t num_rows;
    const enum opdb_dtype *rows;
    size_t num_params;
    const opdb_aic_param *params;
    const opdb_tiling *tiling; /* NULL: the output is computed whole */
} opdb_aic_op;

#endif
