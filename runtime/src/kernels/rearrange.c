/* Turns pixels into channels or images, and back; reorders channels. */
#include "move.h"

/* The loops over a view of y with the steps that x has there; both in elements, y is dense. */
static void view(opdb_nest *nest, int n, const int64_t *dims, const int64_t *x_steps) {
    int64_t step = 1;
    for (int d = 0; d < n; d++)
        step *= dims[d];
    for (int d = 0; d < n; d++) {
        step = dims[d] > 0 ? step / dims[d] : 0;
        nest_add(nest, dims[d], x_steps[d], step, 0);
    }
}

/* y[n, h * bh + i, w * bw + j, c] = x[n, h, w, channel]: channel (i * bw + j) * C + c, or with `crd`
 * (c * bh + i) * bw + j. */
static opdb_status depth_to_space(const opdb_tensor *x, int64_t bh, int64_t bw, bool crd,
                                  const opdb_tensor *y) {
    if (!opdb_moves(x, y))
        return OPDB_UNSUPPORTED;
    int64_t h = x->dims[1], w = x->dims[2], depth = x->dims[3], c = y->dims[3];
    const int64_t dims[] = {x->dims[0], h, bh, w, bw, c};
    const int64_t steps[] = {h * w * depth, w * depth,   crd ? bw : bw * c,
                             depth,         crd ? 1 : c, crd ? bh * bw : 1};
    opdb_nest nest = {0};
    view(&nest, 6, dims, steps);
    opdb_move(x, 0, y, 0, &nest);
    return OPDB_OK;
}

opdb_status opdb_depth_to_space(const opdb_tensor *x, opdb_ints block_size, int64_t mode,
                                const opdb_tensor *y) {
    return depth_to_space(x, block_size.v[0], block_size.v[1], mode == OPDB_DEPTH_TO_SPACE_CRD, y);
}

/* The inverse. */
opdb_status opdb_space_to_depth(const opdb_tensor *x, opdb_ints block_size, int64_t mode,
                                const opdb_tensor *y) {
    if (!opdb_moves(x, y))
        return OPDB_UNSUPPORTED;
    int64_t bh = block_size.v[0], bw = block_size.v[1], c = x->dims[3], row = x->dims[2] * c;
    int64_t n = y->dims[0], h = y->dims[1], w = y->dims[2], image = x->dims[1] * row;
    const int64_t dcr[] = {n, h, w, bh, bw, c}, dcr_steps[] = {image, bh * row, bw * c, row, c, 1};
    const int64_t crd[] = {n, h, w, c, bh, bw}, crd_steps[] = {image, bh * row, bw * c, 1, row, c};
    bool is_crd = mode == OPDB_SPACE_TO_DEPTH_CRD;
    opdb_nest nest = {0};
    view(&nest, 6, is_crd ? crd : dcr, is_crd ? crd_steps : dcr_steps);
    opdb_move(x, 0, y, 0, &nest);
    return OPDB_OK;
}

/* The number of steps of `block` from `phase` that fall into [margin, margin + size), and the first of
 * them. */
typedef struct {
    int64_t first, count; /* of the coarse index */
} phase_range;

static phase_range within(int64_t phase, int64_t block, int64_t margin, int64_t size) {
    int64_t first = margin > phase ? (margin - phase + block - 1) / block : 0;
    int64_t end = margin + size > phase ? (margin + size - phase + block - 1) / block : 0;
    phase_range r = {first, end > first ? end - first : 0};
    return r;
}

/* Calls opdb_move for each position (i, j) of a block: image (i * bw + j) * N + n of `coarse` has the pixels
 * (h * bh + i - top, w * bw + j - left) of image n of `fine`. */
static void blocks(const opdb_tensor *coarse, const opdb_tensor *fine, opdb_ints block, opdb_rows margin,
                   bool to_fine) {
    int64_t bh = block.v[0], bw = block.v[1], top = margin.v[0], left = margin.v[margin.width];
    int64_t n = fine->dims[0], h = fine->dims[1], w = fine->dims[2], c = fine->dims[3];
    int64_t row = coarse->dims[2] * c, image = coarse->dims[1] * row;
    for (int64_t i = 0; i < bh; i++)
        for (int64_t j = 0; j < bw; j++) {
            phase_range rows = within(i, bh, top, h), columns = within(j, bw, left, w);
            int64_t at = (i * bw + j) * n * image + rows.first * row + columns.first * c;
            int64_t fine_at = ((rows.first * bh + i - top) * w + columns.first * bw + j - left) * c;
            opdb_nest nest = {0};
            int64_t counts[] = {n, rows.count, columns.count, c}, coarse_steps[] = {image, row, c, 1};
            int64_t fine_steps[] = {h * w * c, bh * w * c, bw * c, 1};
            for (int d = 0; d < 4; d++)
                if (to_fine)
                    nest_add(&nest, counts[d], coarse_steps[d], fine_steps[d], 0);
                else
                    nest_add(&nest, counts[d], fine_steps[d], coarse_steps[d], 0);
            if (to_fine)
                opdb_move(coarse, at, fine, fine_at, &nest);
            else
                opdb_move(fine, fine_at, coarse, at, &nest);
        }
}

/* Images become the positions of blocks, and `crops` are cut off. */
opdb_status opdb_batch_to_space(const opdb_tensor *x, opdb_ints block_size, opdb_rows crops,
                                const opdb_tensor *y) {
    if (!opdb_moves(x, y))
        return OPDB_UNSUPPORTED;
    blocks(x, y, block_size, crops, true);
    return OPDB_OK;
}

/* Each position of the blocks of the padded x becomes an image; padding is zero. */
opdb_status opdb_space_to_batch(const opdb_tensor *x, opdb_ints block_size, opdb_rows pad_amount,
                                const opdb_tensor *y) {
    if (!opdb_moves(x, y) || opdb_kind_of(y) == OPDB_NO_KIND)
        return OPDB_UNSUPPORTED;
    opdb_fill(y, 0, size_of(y), 0);
    blocks(y, x, block_size, pad_amount, false);
    return OPDB_OK;
}

/* Channel g * (C / groups) + k of x is channel k * groups + g of y. */
opdb_status opdb_channel_shuffle(const opdb_tensor *x, int64_t num_groups, int64_t axis,
                                 const opdb_tensor *y) {
    if (!opdb_moves(x, y))
        return OPDB_UNSUPPORTED;
    int64_t inner = size_between(x, axis + 1, x->rank), each = x->dims[axis] / num_groups;
    const int64_t dims[] = {size_between(x, 0, axis), each, num_groups, inner};
    const int64_t steps[] = {x->dims[axis] * inner, inner, each * inner, 1};
    opdb_nest nest = {0};
    view(&nest, 4, dims, steps);
    opdb_move(x, 0, y, 0, &nest);
    return OPDB_OK;
}
