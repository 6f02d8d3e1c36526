/* See opdb/tiling.h. */
#include "opdb/tiling.h"

/* 0: whole, 1: any part, n: parts of n elements; `last` counts axes from the last. */
static int64_t multiple_of(const opdb_tiling *tiling, size_t last) {
    return last < tiling->num_axes ? tiling->multiples[last] : tiling->rest;
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

bool opdb_tile_input_range(const opdb_tiling *tiling, size_t slot, const opdb_tensor *input,
                           const opdb_tensor *output, const int64_t *from, const int64_t *size,
                           int64_t *input_from, int64_t *input_size) {
    static const opdb_tile_input whole_input = {0, NULL, true};
    const opdb_tile_input *in = slot < tiling->num_inputs ? &tiling->inputs[slot] : &whole_input;
    for (uint32_t d = 0; d < input->rank; d++) {
        const uint32_t last = input->rank - 1 - d;
        opdb_tile_part part = {in->rest_whole, last, 1, 0, 0};
        if (last < in->num_parts)
            part = in->parts[last];
        input_from[d] = 0;
        input_size[d] = input->dims[d];
        if (part.whole || part.of >= output->rank)
            continue;
        const uint32_t axis = output->rank - 1 - part.of;
        const int64_t first = part.scale * from[axis] - part.before;
        const int64_t end = part.scale * (from[axis] + size[axis] - 1) + part.after + 1;
        input_from[d] = first;
        input_size[d] = end - first;
        if (first < 0 || end > input->dims[d])
            return false;
    }
    return true;
}

/* The bytes of a tile at the start of the output, with what it reads. */
static int64_t bytes_of(const opdb_tiling *tiling, size_t num_inputs, const opdb_tensor *const *inputs,
                        const opdb_tensor *output, const uint32_t *bytes, const int64_t *size) {
    const int64_t start[OPDB_MAX_RANK] = {0};
    int64_t in_from[OPDB_MAX_RANK], in_size[OPDB_MAX_RANK];
    int64_t total = bytes[num_inputs];
    for (uint32_t d = 0; d < output->rank; d++)
        total *= size[d];
    for (size_t i = 0; i < num_inputs; i++) {
        if (inputs[i] == NULL)
            continue;
        int64_t n = bytes[i];
        (void)opdb_tile_input_range(tiling, i, inputs[i], output, start, size, in_from, in_size);
        for (uint32_t d = 0; d < inputs[i]->rank; d++)
            n *= in_size[d];
        total += n;
    }
    return total;
}

void opdb_tile_legal(const opdb_tiling *tiling, const opdb_tensor *output, int64_t *size) {
    for (uint32_t d = 0; d < output->rank; d++) {
        const int64_t multiple = multiple_of(tiling, output->rank - 1 - d), whole = output->dims[d];
        if (multiple == 0 || size[d] >= whole)
            size[d] = whole;
        else
            size[d] = smaller(whole, size[d] < multiple ? multiple : size[d] / multiple * multiple);
    }
}

void opdb_tile_size(const opdb_tiling *tiling, size_t num_inputs, const opdb_tensor *const *inputs,
                    const opdb_tensor *output, const uint32_t *bytes, int64_t budget, int64_t *size) {
    for (uint32_t d = 0; d < output->rank; d++)
        size[d] = 1;
    opdb_tile_legal(tiling, output, size);
    /* As much as fits of the last axis, then of the one before it, and so on. */
    for (uint32_t d = output->rank; d-- > 0;) {
        const int64_t multiple = multiple_of(tiling, output->rank - 1 - d);
        if (multiple == 0)
            continue;
        int64_t low = 1, high = (output->dims[d] + multiple - 1) / multiple; /* in multiples */
        while (low < high) {
            const int64_t middle = low + (high - low + 1) / 2;
            size[d] = smaller(middle * multiple, output->dims[d]);
            if (bytes_of(tiling, num_inputs, inputs, output, bytes, size) <= budget)
                low = middle;
            else
                high = middle - 1;
        }
        size[d] = smaller(low * multiple, output->dims[d]);
        if (size[d] < output->dims[d])
            return;
    }
}
