/* Calls that come on descriptor 0 and answers that go to descriptor 1, and the memory of a call.
 *
 * Everything is words of 8 bytes, the lowest byte first; a block is its bytes, padded to a multiple of 8, and
 * starts at a multiple of 128 if it is data.  A call is its length in bytes, then words and blocks; so is an
 * answer, without the length. */
#ifndef OPDB_HEXAGON_FRAMES_H
#define OPDB_HEXAGON_FRAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { END_OF_INPUT = 65, TOO_LARGE = 71, BROKEN_PIPE = 74 }; /* exit codes */
enum { ALIGNMENT = 128, MEMORY = 512 << 20 };

/* One call's memory: its frame, the structures, outputs and scratch. */
static unsigned char memory[MEMORY] __attribute__((aligned(ALIGNMENT)));
static size_t used;

/* NULL if there is no room. */
static void *room(size_t bytes) {
    if (bytes > MEMORY - ALIGNMENT - used)
        return NULL;
    void *at = memory + used;
    used = (used + bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

static void *taken(size_t bytes) {
    void *at = room(bytes);
    if (at == NULL)
        _exit(TOO_LARGE);
    return at;
}

/* False if the input ends before the first byte. */
static bool received(void *to, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = read(0, (char *)to + done, bytes - done);
        if (n <= 0) {
            if (n == 0 && done == 0)
                return false;
            _exit(END_OF_INPUT);
        }
        done += (size_t)n;
    }
    return true;
}

static void sent(const void *from, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = write(1, (const char *)from + done, bytes - done);
        if (n <= 0)
            _exit(BROKEN_PIPE);
        done += (size_t)n;
    }
}

/* Words that are sent with the next block of data, or at the end of an answer. */
static unsigned char waiting[1 << 16];
static size_t num_waiting;

static void flush(void) {
    sent(waiting, num_waiting);
    num_waiting = 0;
}

static void put(const void *from, size_t bytes) {
    static const unsigned char zeros[8];
    const size_t filling = -bytes % 8;
    if (bytes + filling > sizeof waiting - num_waiting)
        flush();
    if (bytes + filling > sizeof waiting) {
        sent(from, bytes);
        sent(zeros, filling);
        return;
    }
    memcpy(waiting + num_waiting, from, bytes);
    memset(waiting + num_waiting + bytes, 0, filling);
    num_waiting += bytes + filling;
}

static void put_word(int64_t value) { put(&value, sizeof value); }

static inline void put_text(const char *s) {
    put_word((int64_t)strlen(s));
    put(s, strlen(s));
}

/* The current call. */
static const unsigned char *at;

static int64_t word(void) {
    int64_t value;
    memcpy(&value, at, sizeof value);
    at += sizeof value;
    return value;
}

static const void *block(size_t bytes) {
    const void *found = at;
    at += (bytes + 7) / 8 * 8;
    return found;
}

static inline const void *data_block(size_t bytes) {
    at = memory + ((size_t)(at - memory) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return block(bytes);
}

/* Receives the next call; false at the end of the input. */
static bool next_call(void) {
    int64_t bytes;
    if (!received(&bytes, sizeof bytes))
        return false;
    used = 0;
    at = taken((size_t)bytes);
    if (!received(memory, (size_t)bytes))
        _exit(END_OF_INPUT);
    return true;
}

#endif
