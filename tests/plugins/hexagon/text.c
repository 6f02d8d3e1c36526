/* Doubles come in, lines with what snprintf makes of each go out. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    double v;
    while (read(0, &v, sizeof v) == (ssize_t)sizeof v) {
        char line[256];
        int64_t whole;
        memcpy(&whole, &v, sizeof whole);
        const int n = snprintf(line, sizeof line,
                               "%.9g %.17g %g %" PRId64 " %" PRIx64 " %d %u %.3s %s%c %08x %5d %012d\n", v, v,
                               v, whole, (uint64_t)whole, (int)whole, (unsigned)whole, "abcdef", "xyz", '!',
                               (unsigned)whole % 4096, (int)(whole % 100), (int)(whole % 1000));
        write(1, line, (size_t)n);
    }
    char cut[8];
    const int n = snprintf(cut, sizeof cut, "%s", "0123456789");
    write(1, cut, strlen(cut));
    return n != 10;
}
