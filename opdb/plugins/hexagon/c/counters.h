/* QEMU's counters in user mode: packets, instructions, and HVX instructions. They are QEMU's own control
 * registers 20 to 22, which clang's assembler has no names for; they have 32 bits and wrap.  Zero on other
 * machines. */
#ifndef OPDB_HEXAGON_COUNTERS_H
#define OPDB_HEXAGON_COUNTERS_H

#include <stdint.h>

typedef struct {
    uint32_t packets, instructions, vector;
} opdb_counters;

#ifdef __hexagon__
#define OPDB_COUNTER(word) /* r0 = c20 is 0x6a14c000; the number is in bits 16 to 20 */                      \
    ({                                                                                                       \
        register uint32_t r0 __asm__("r0");                                                                  \
        __asm__ volatile(".word " word : "=r"(r0)::"memory");                                                \
        r0;                                                                                                  \
    })
#else
#define OPDB_COUNTER(word) 0
#endif

static inline opdb_counters opdb_count(void) {
    opdb_counters c;
    c.packets = OPDB_COUNTER("0x6a14c000");
    c.instructions = OPDB_COUNTER("0x6a15c000");
    c.vector = OPDB_COUNTER("0x6a16c000");
    return c;
}

/* The counts between two points in time. */
static inline opdb_counters opdb_counted(opdb_counters from, opdb_counters to) {
    to.packets -= from.packets;
    to.instructions -= from.instructions;
    to.vector -= from.vector;
    return to;
}

#endif
