/* Copies elements between positions: the engine of ops that compute nothing. */
#ifndef OPDB_MOVE_H
#define OPDB_MOVE_H

#include "elements.h"
#include "nest.h"

/* True if elements of x can become elements of y: both have the same data type of whole bytes, or both are
 * real; real values are kept across types and encodings. */
bool opdb_moves(const opdb_tensor *x, const opdb_tensor *y);

/* y[y_at + ...] = x[x_at + ...] over the loops, which are in the order of y; step 0 is that of x, step 1 that
 * of y.  The nest is consumed. */
void opdb_move(const opdb_tensor *x, int64_t x_at, const opdb_tensor *y, int64_t y_at, opdb_nest *nest);

/* Copies n contiguous elements. */
void opdb_move_run(const opdb_tensor *x, int64_t x_at, const opdb_tensor *y, int64_t y_at, int64_t n);

/* Sets n contiguous elements of y to the number (a truth value becomes true unless it is 0). */
void opdb_fill(const opdb_tensor *y, int64_t y_at, int64_t n, double value);

#endif
