/* A nest of loops over up to three operands, each with its own steps (in elements). */
#ifndef OPDB_NEST_H
#define OPDB_NEST_H

#include "kernel.h"

enum { OPERANDS = 3, LOOPS = 2 * OPDB_MAX_RANK };

typedef struct {
    int64_t n;
    int64_t step[OPERANDS];
} opdb_loop;

typedef struct {
    int rank;
    opdb_loop loop[LOOPS]; /* outermost first */
    int64_t index[LOOPS];
    int64_t at[OPERANDS]; /* where each operand stands */
} opdb_nest;

/* Adds a loop inside the others.  Loops over one element vanish; a loop that goes on where the one
 * inside it ends, for all operands, is merged with it. */
static inline void nest_add(opdb_nest *nest, int64_t n, int64_t step0, int64_t step1, int64_t step2) {
    opdb_loop new_loop = {n, {step0, step1, step2}};
    if (n == 1)
        return;
    opdb_loop *outer = nest->rank > 0 ? &nest->loop[nest->rank - 1] : NULL;
    bool merges = outer != NULL;
    for (int i = 0; merges && i < OPERANDS; i++)
        merges = outer->step[i] == n * new_loop.step[i];
    if (merges) {
        new_loop.n *= outer->n;
        *outer = new_loop;
    } else {
        nest->loop[nest->rank++] = new_loop;
    }
}

/* Takes the innermost loop off the nest, for the caller to run; one of one step if there is none. */
static inline opdb_loop nest_pop(opdb_nest *nest) {
    opdb_loop one = {1, {0, 0, 0}};
    return nest->rank > 0 ? nest->loop[--nest->rank] : one;
}

/* How often the body runs. */
static inline int64_t nest_size(const opdb_nest *nest) {
    int64_t n = 1;
    for (int d = 0; d < nest->rank; d++)
        n *= nest->loop[d].n;
    return n;
}

/* Goes to the next place; after the last one back to the first, with false. */
static inline bool nest_next(opdb_nest *nest) {
    for (int d = nest->rank - 1; d >= 0; d--) {
        const opdb_loop *loop = &nest->loop[d];
        bool within = ++nest->index[d] < loop->n;
        int64_t move = within ? 1 : 1 - loop->n;
        for (int i = 0; i < OPERANDS; i++)
            nest->at[i] += move * loop->step[i];
        if (within)
            return true;
        nest->index[d] = 0;
    }
    return false;
}

/* The step of t along dim d of the output y, aligned at the last dim: 0 where t is broadcast. */
static inline int64_t broadcast_step(const opdb_tensor *t, const opdb_tensor *y, int64_t d) {
    int64_t own = d - ((int64_t)y->rank - t->rank);
    return own < 0 || t->dims[own] == 1 ? 0 : size_between(t, own + 1, t->rank);
}

#endif
