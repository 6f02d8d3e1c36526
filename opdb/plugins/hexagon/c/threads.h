/* The threads of a core, one after the other: each runs until it waits for the others.  What they compute
 * depends on their order only where they do not wait as they must, and the order is the caller's.
 *
 * Each has a stack of its own, painted before it runs, so that it can be said how much was used. */
#ifndef OPDB_HEXAGON_THREADS_H
#define OPDB_HEXAGON_THREADS_H

#include <stdint.h>

enum { OPDB_THREADS = 4 };

/* What became of the threads. */
typedef struct {
    int32_t waits[OPDB_THREADS]; /* how often each waited */
    uint32_t stack;              /* bytes that the deepest used */
    int32_t stuck;               /* 1: one ended, and others waited for it; they were left there */
} opdb_threads_ran;

/* Runs work(thread) in OPDB_THREADS threads, which begin in this order. */
opdb_threads_ran opdb_run_threads(void (*work)(int32_t thread), const int32_t order[OPDB_THREADS]);

/* Waits until all threads wait. */
void opdb_wait(int32_t thread);

#endif
