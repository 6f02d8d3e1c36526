/* The functions library of one op, in all generations of Cloud AI's interface; functions_<generation> has the
 * exported functions. */
#ifndef OPDB_AIC_FUNCTIONS_H
#define OPDB_AIC_FUNCTIONS_H

#include "CustomOpTypes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The tensors and parameters of a node. */
typedef struct {
    const CustomOpIOTensor *inputs;
    int32_t num_inputs;
    const CustomOpIOTensor *outputs;
    int32_t num_outputs;
    const CustomOpParam *params;
    int32_t num_params;
} opdb_aic_given;

/* True if the rules of the spec hold, there is a kernel for the types, and its scratch suffices; else prints
 * why not. */
bool opdb_aic_verify(const opdb_aic_given *node);

/* Sets type, rank and sizes of `outputs`, the node's outputs; prints why it cannot. */
bool opdb_aic_infer(const opdb_aic_given *node, CustomOpIOTensor *outputs);

/* The name of a kernel; NULL, and printed, for other backends and types. */
const char *opdb_aic_select(const opdb_aic_given *node, const char *backend);

/* The axes along which the output may be cut, at most 8, and the alignment of its parts; returns their
 * number. */
int32_t opdb_aic_tile_axes(const opdb_aic_given *node, int32_t *axes, int32_t *alignment);

/* The part of an input that an output tile from `start` up to `end` reads; false if it is not all inside the
 * input. */
bool opdb_aic_map_tile(const opdb_aic_given *node, int32_t input, const int32_t *start, const int32_t *end,
                       int32_t *input_start, int32_t *input_end);

/* The name of the output that can be divided. */
const char *opdb_aic_output(void);

#ifdef __cplusplus
}
#endif
#endif
