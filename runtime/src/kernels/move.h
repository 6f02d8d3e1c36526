/* Copies of elements from places to places: the engine of ops that compute nothing. */
#ifndef OPDB_MOVE_H
#define OPDB_MOVE_H

#include "elements.h"
#include "nest.h"

/* Whether elements of x can become elements of y: both are of one data type of whole bytes, or real;
 * then real values stay what they are, in whatever type and encoding. */
bool opdb_moves(const opdb_tensor *x, const opdb_tensor *y);

/* y[y_at + ...] = x[x_at + ...] over the loops, which are in the order of y; step 0 is that of x, step 1
 * that of y.  The nest is used up. */
void opdb_move(const opdb_tensor *x, int64_t x_at, const opdb_tensor *y, int64_t y_at, opdb_nest *nest);

/* n neighbors. */
void opdb_move_run(const opdb_tensor *x, int64_t x_at, const opdb_tensor *y, int64_t y_at, int64_t n);

/* n neighbors of y become the number (a truth value: whether it is not 0). */
void opdb_fill(const opdb_tensor *y, int64_t y_at, int64_t n, double value);

#endif
