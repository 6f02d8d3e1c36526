#include "move.h"
#include "places.h"

/* Sets n contiguous elements of y, each from a or from b. */
static void select_run(const uint8_t *chosen, const opdb_tensor *a, int64_t a_at, int64_t a_step,
                       const opdb_tensor *b, int64_t b_at, int64_t b_step, const opdb_tensor *y, int64_t at,
                       int64_t n) {
    for (int64_t i = 0, run; i < n; i += run) { /* runs of one choice */
        run = 1;
        while (i + run < n && chosen[i + run] == chosen[i])
            run++;
        int64_t step = chosen[i] ? a_step : b_step;
        opdb_nest nest = {0};
        nest_add(&nest, run, step, 1, 0);
        opdb_move(chosen[i] ? a : b, (chosen[i] ? a_at : b_at) + i * step, y, at + i, &nest);
    }
}

/* if_true where the condition is true (or a nonzero number), else if_false; all three are broadcast. */
opdb_status opdb_element_wise_select(const opdb_tensor *condition, const opdb_tensor *if_true,
                                     const opdb_tensor *if_false, const opdb_tensor *y) {
    opdb_kind kind = opdb_kind_of(condition);
    if (!opdb_moves(if_true, y) || !opdb_moves(if_false, y) || kind == OPDB_NO_KIND ||
        !broadcasts(condition, y) || !broadcasts(if_true, y) || !broadcasts(if_false, y))
        return OPDB_UNSUPPORTED;
    if (size_of(y) == 0)
        return OPDB_OK;
    opdb_nest nest = {0};
    for (int64_t d = 0; d < (int64_t)y->rank; d++)
        nest_add(&nest, y->dims[d], broadcast_step(condition, y, d), broadcast_step(if_true, y, d),
                 broadcast_step(if_false, y, d));
    opdb_loop run = nest_pop(&nest);
    int64_t at = 0;
    do {
        for (int64_t i = 0; i < run.n; i += OPDB_TILE) {
            int64_t n = run.n - i < OPDB_TILE ? run.n - i : OPDB_TILE;
            uint8_t chosen[OPDB_TILE];
            opdb_numbers tile;
            opdb_read(condition, nest.at[0] + i * run.step[0], run.step[0], n, kind, &tile);
            for (int64_t j = 0; j < n; j++)
                chosen[j] = kind == OPDB_REAL    ? tile.real[j] != 0
                            : kind == OPDB_WHOLE ? tile.whole[j] != 0
                                                 : tile.truth[j];
            select_run(chosen, if_true, nest.at[1] + i * run.step[1], run.step[1], if_false,
                       nest.at[2] + i * run.step[2], run.step[2], y, at, n);
            at += n;
        }
    } while (nest_next(&nest));
    return OPDB_OK;
}

/* The candidate chosen by the number at each position; 0 if there is none. All are broadcast. */
opdb_status opdb_element_wise_mux(const opdb_tensor *condition, opdb_tensors candidates,
                                  const opdb_tensor *y) {
    bool takes =
        opdb_kind_of(condition) == OPDB_WHOLE && opdb_kind_of(y) != OPDB_NO_KIND && broadcasts(condition, y);
    for (int64_t k = 0; k < candidates.n; k++)
        takes = takes && opdb_moves(candidates.v[k], y) && broadcasts(candidates.v[k], y);
    if (!takes)
        return OPDB_UNSUPPORTED;
    opdb_fill(y, 0, size_of(y), 0);
    for (int64_t k = 0; k < candidates.n && size_of(y) > 0; k++) {
        opdb_nest nest = {0};
        for (int64_t d = 0; d < (int64_t)y->rank; d++)
            nest_add(&nest, y->dims[d], broadcast_step(condition, y, d),
                     broadcast_step(candidates.v[k], y, d), 0);
        int64_t at = 0;
        do {
            if (opdb_place(condition, nest.at[0]) == k)
                opdb_move_run(candidates.v[k], nest.at[1], y, at, 1);
            at++;
        } while (nest_next(&nest));
    }
    return OPDB_OK;
}
