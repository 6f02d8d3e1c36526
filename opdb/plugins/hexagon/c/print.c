/* printf, to the standard error: a kernel's output must not be taken for an answer.  A program may have its
 * own. */
#include <stdio.h>
#include <unistd.h>

int printf(const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    write(2, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
    return n;
}
