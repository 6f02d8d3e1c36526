/* The threads of a core, one after the other: each runs until it waits for the others.  Results depend on
 * their order only if threads fail to wait as they must; the caller chooses the order.
 *
 * Each has a stack of its own, filled with a pattern before it runs, to measure how much was used. */
#ifndef OPDB_HEXAGON_THREADS_H
#define OPDB_HEXAGON_THREADS_H

#include <stdint.h>

enum { OPDB_THREADS = 4 };

/* The result of running the threads. */
typedef struct {
    int32_t waits[OPDB_THREADS]; /* number of waits of each */
    uint32_t stack;              /* bytes of stack that the deepest used */
    int32_t stuck;               /* 1: one ended, and others waited for it; they were left there */
} opdb_threads_ran;

/* Runs work(thread) in OPDB_THREADS threads, which begin in this order. */
opdb_threads_ran opdb_run_threads(void (*work)(int32_t thread), const int32_t order[OPDB_THREADS]);

/* Waits until all threads wait. */
void opdb_wait(int32_t thread);

#endif
