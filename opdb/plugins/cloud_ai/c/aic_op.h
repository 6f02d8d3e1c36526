/* The part generated for the functions library of an op. */
#ifndef OPDB_AIC_OP_H
#define OPDB_AIC_OP_H

#include "aic.h"
#include "opdb/backends.h" /* generated: opdb_target */

typedef struct {
    const opdb_aic_op *op;
    void (*validate)(const opdb_op *op, const opdb_target *target, opdb_report *report);
    opdb_status (*infer)(const opdb_op *op, opdb_shapes *shapes, opdb_report *report);
    size_t (*scratch)(const opdb_op *op);
    size_t scratch_size;           /* bytes of the buffer for it */
    const char *interpreter, *aic; /* the `type` of each implementation */
    const char *output;            /* the name of the first output */
} opdb_aic_functions;

/* This library's op. */
extern const opdb_aic_functions opdb_this_op;

#endif
