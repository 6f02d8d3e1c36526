/* An op whose scratch has 4 GiB: 2^32 bytes, which are 0 in a size_t of 32 bits.  Its data are not there, so
 * that a kernel that takes too little scratch for enough ends in a crash. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "opdb/ops.h"

static opdb_report report;
static char scratch[1 << 20] __attribute__((aligned(16)));

static void run_with(int64_t rows, size_t size) {
    static char data[16];
    char text[100];
    const int64_t dims[] = {rows, 32768};
    const opdb_tensor x = {.rank = 2,
                           .dims = dims,
                           .dtype = OPDB_F16,
                           .encoding = OPDB_ENCODING_NONE,
                           .symmetric = true,
                           .axis = -1,
                           .data = data};
    const opdb_tensor *const tensors[] = {&x};
    const opdb_op op = {.op = "Softmax",
                        .num_inputs = 1,
                        .inputs = tensors,
                        .num_outputs = 1,
                        .outputs = tensors,
                        .scratch = scratch,
                        .scratch_size = size};
    report.n = report.dropped = 0;
    const unsigned needed = (unsigned)opdb_find("Softmax")->scratch(&op);
    const int n = snprintf(text, sizeof text, "%u %d\n", needed, opdb_find("Softmax")->run(&op, &report));
    write(1, text, (size_t)n);
}

int main(void) {
    run_with(16384, sizeof scratch); /* 2^32 */
    run_with(16384, 0);
    run_with(16385, sizeof scratch); /* 2^32 + 2^18: less than there is, modulo 2^32 */
    run_with(INT32_MAX, sizeof scratch);
    return 0;
}
