/* How a run of a kernel is divided: tables that are generated from the `tiling` of specs, and what follows
 * from them.  Axes are counted from the last: 0 is the last axis. */
#ifndef OPDB_TILING_H
#define OPDB_TILING_H

#include "opdb/runtime.h"

/* What a tile reads of one axis of an input: of a part, places scale * first - before to scale * last + after
 * for places first to last of axis `of` of the output. */
typedef struct {
    bool whole;
    uint32_t of;
    int64_t scale, before, after;
} opdb_tile_part;

/* An input, axis by axis; `rest` is for the axes in front of those. */
typedef struct {
    size_t num_parts;
    const opdb_tile_part *parts;
    bool rest_whole;
} opdb_tile_input;

typedef struct {
    size_t num_axes;
    const int64_t *multiples; /* 0: whole, 1: any part, n: parts of n elements */
    int64_t rest;             /* of the axes in front of those */
    size_t num_inputs;        /* slots; an input behind them is read whole */
    const opdb_tile_input *inputs;
} opdb_tiling;

/* The sizes of a tile along each axis of an output, in order of the axes, such that tile and inputs have at
 * most `budget` bytes if any tile has; the smallest one otherwise.  `bytes` are those of an element of each
 * input, then of the output; `inputs` may have NULL for an omitted one. */
void opdb_tile_size(const opdb_tiling *tiling, size_t num_inputs, const opdb_tensor *const *inputs,
                    const opdb_tensor *output, const uint32_t *bytes, int64_t budget, int64_t *size);

/* A size that is proposed, made one that the tiling allows. */
void opdb_tile_legal(const opdb_tiling *tiling, const opdb_tensor *output, int64_t *size);

/* Where the tile of the output that starts at `from` and has `size` reads input number `slot`: the start and
 * the size along each of its axes.  False where that lies outside of the input. */
bool opdb_tile_input_range(const opdb_tiling *tiling, size_t slot, const opdb_tensor *input,
                           const opdb_tensor *output, const int64_t *from, const int64_t *size,
                           int64_t *input_from, int64_t *input_size);

#endif
