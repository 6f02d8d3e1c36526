#include "threads.h"

#include <stdbool.h>
#include <string.h>

enum { STACK = 1 << 18, PAINT = 0x5c, SAVED = 64 };

typedef enum { READY, WAITING, ENDED } state;

static unsigned char stacks[OPDB_THREADS][STACK] __attribute__((aligned(128)));
static struct {
    void *stack; /* its saved registers, while another one runs */
    state is;
} threads[OPDB_THREADS];
static void *caller; /* as threads[].stack */
static int32_t current;
static void (*work_of_all)(int32_t thread);
static opdb_threads_ran ran;

/* Saves the callee-saved registers on this stack and continues where `to` was left. */
void opdb_switch(void **from, void *to);
__asm__(".globl opdb_switch\n"
        ".type opdb_switch,@function\n"
        "opdb_switch:\n"
        "{ r29 = add(r29, #-64) }\n"
        "{ memd(r29+#0) = r17:16 }\n"
        "{ memd(r29+#8) = r19:18 }\n"
        "{ memd(r29+#16) = r21:20 }\n"
        "{ memd(r29+#24) = r23:22 }\n"
        "{ memd(r29+#32) = r25:24 }\n"
        "{ memd(r29+#40) = r27:26 }\n"
        "{ memd(r29+#48) = r31:30 }\n"
        "{ memw(r0+#0) = r29 }\n"
        "{ r29 = r1 }\n"
        "{ r17:16 = memd(r29+#0) }\n"
        "{ r19:18 = memd(r29+#8) }\n"
        "{ r21:20 = memd(r29+#16) }\n"
        "{ r23:22 = memd(r29+#24) }\n"
        "{ r25:24 = memd(r29+#32) }\n"
        "{ r27:26 = memd(r29+#40) }\n"
        "{ r31:30 = memd(r29+#48) }\n"
        "{ r29 = add(r29, #64) }\n"
        "{ jumpr r31 }\n");

static void leave(state as) {
    threads[current].is = as;
    opdb_switch(&threads[current].stack, caller);
}

static void begin(void) {
    work_of_all(current);
    leave(ENDED);
}

void opdb_wait(int32_t thread) {
    ran.waits[thread]++;
    leave(WAITING);
}

static void prepare(int32_t thread) {
    memset(stacks[thread], PAINT, STACK);
    unsigned char *top = stacks[thread] + STACK - SAVED;
    void (*const entry)(void) = begin;
    memcpy(top + 52, &entry, sizeof entry); /* r31, the return address of opdb_switch */
    threads[thread].stack = top;
    threads[thread].is = READY;
}

static uint32_t used_of(int32_t thread) {
    uint32_t free = 0;
    while (free < STACK && stacks[thread][free] == PAINT)
        free++;
    return STACK - free;
}

/* True if any thread is in that state. */
static bool any(state is) {
    for (int32_t i = 0; i < OPDB_THREADS; i++)
        if (threads[i].is == is)
            return true;
    return false;
}

opdb_threads_ran opdb_run_threads(void (*work)(int32_t thread), const int32_t order[OPDB_THREADS]) {
    memset(&ran, 0, sizeof ran);
    work_of_all = work;
    for (int32_t i = 0; i < OPDB_THREADS; i++)
        prepare(i);
    while (any(READY)) {
        for (int32_t i = 0; i < OPDB_THREADS; i++) {
            current = order[i];
            if (threads[current].is == READY)
                opdb_switch(&caller, threads[current].stack);
        }
        if (any(ENDED))
            break;
        for (int32_t i = 0; i < OPDB_THREADS; i++)
            threads[i].is = READY; /* all of them wait */
    }
    ran.stuck = any(WAITING);
    for (int32_t i = 0; i < OPDB_THREADS; i++)
        ran.stack = used_of(i) > ran.stack ? used_of(i) : ran.stack;
    return ran;
}
