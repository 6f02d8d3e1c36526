/* Runs kernels written for f32 on every real type: reads, computes in f32, rounds into the result. */
#ifndef OPDB_IN_FLOATS_H
#define OPDB_IN_FLOATS_H

#include "elements.h"

/* The bytes of scratch for the tensors that are real and not f32; at most OPDB_TOO_MANY. */
size_t opdb_size_in_floats(const opdb_op *op);

/* Calls `compute` with an op whose real tensors are all f32 and whose scratch is the rest of op's.
 * OPDB_TOO_SMALL: op's scratch cannot hold the copies. */
opdb_status opdb_run_in_floats(const opdb_op *op, opdb_status (*compute)(const opdb_op *op));

#endif
