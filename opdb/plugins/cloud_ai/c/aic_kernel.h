/* Runs the kernel of one op, whole or divided among the threads of a core.
 *
 * Before it is included: the tables of the op, and the generated code between an op and its kernel:
 * kernel_scratch and kernel_run.  Scratch buffer 0 has the node, which thread 0 reads for all; buffer 1 is
 * the kernel's own memory, of which each thread gets its share.  Every thread calls syncThread once. */
#ifndef OPDB_AIC_KERNEL_H
#define OPDB_AIC_KERNEL_H

#include "CustomOpLog.h"
#include "aic_node.h"
#include "kernel.h"

/* Division of an output: one piece for every position along the axes before `axis` and every part of `length`
 * along it; each piece is one run of memory. */
typedef struct {
    uint32_t axis;
    int64_t length, parts, pieces;
} opdb_aic_plan;

/* A piece of the output, and the inputs that it reads. */
typedef struct {
    opdb_op op;
    opdb_tensor tensors[OPDB_AIC_TENSORS];
    const opdb_tensor *slots[OPDB_AIC_TENSORS];
    int64_t dims[OPDB_AIC_TENSORS][OPDB_AIC_RANK];
} opdb_aic_piece;

enum opdb_aic_state { OPDB_AIC_NOTHING, OPDB_AIC_WHOLE, OPDB_AIC_PIECES };

typedef struct {
    opdb_aic_node node;
    enum opdb_aic_state state;
    opdb_aic_plan plan;
    opdb_aic_piece pieces[OPDB_AIC_DIVIDED ? OPDB_AIC_THREADS : 1];
} opdb_aic_shared;

static bool opdb_aic_divided(const opdb_tiling *tiling, const opdb_tensor *y, opdb_aic_plan *plan) {
    int64_t outer = 1;
    plan->pieces = 1;
    for (uint32_t d = 0; d < y->rank && outer < OPDB_AIC_THREADS; outer *= y->dims[d], d++) {
        const int64_t multiple = opdb_tile_multiple(tiling, y->rank - 1 - d), size = y->dims[d];
        if (size == 0)
            return false;
        if (multiple > 0) {
            const int64_t units = (size + multiple - 1) / multiple;
            const int64_t wanted = (OPDB_AIC_THREADS + outer - 1) / outer;
            const int64_t each = (units + wanted - 1) / wanted, parts = (units + each - 1) / each;
            if (outer * parts > plan->pieces)
                *plan = (opdb_aic_plan){d, each * multiple, parts, outer * parts};
        }
        if (multiple != 1 && size > 1)
            break; /* this axis cannot be taken one position at a time */
    }
    return plan->pieces > 1;
}

/* True if a part of a tensor is one run of memory; `*first` is its start. */
static bool opdb_aic_run_of(const opdb_tensor *t, const int64_t *from, const int64_t *size, int64_t *first) {
    bool whole = true; /* all axes behind this one */
    *first = 0;
    for (uint32_t d = t->rank; d-- > 0;) {
        *first += from[d] * size_between(t, d + 1, t->rank);
        if (!whole && size[d] > 1)
            return false;
        whole = whole && size[d] == t->dims[d];
    }
    return true;
}

static bool opdb_aic_part(opdb_aic_piece *piece, size_t i, const opdb_tensor *of, const int64_t *from,
                          const int64_t *size) {
    int64_t first;
    if (!opdb_aic_run_of(of, from, size, &first))
        return false;
    piece->tensors[i] = *of;
    memcpy(piece->dims[i], size, of->rank * sizeof *size);
    piece->tensors[i].dims = piece->dims[i];
    piece->tensors[i].data = (char *)of->data + (size_t)first * element_size(of->dtype);
    piece->slots[i] = &piece->tensors[i];
    return true;
}

/* Piece number `j` as an op of its own; false if an input cannot be cut that way. */
static bool opdb_aic_cut(const opdb_aic_op *aic, const opdb_op *op, const opdb_aic_plan *plan, int64_t j,
                         opdb_aic_piece *piece) {
    const opdb_tensor *y = op->outputs[0];
    int64_t from[OPDB_AIC_RANK], size[OPDB_AIC_RANK], in_from[OPDB_AIC_RANK], in_size[OPDB_AIC_RANK];
    int64_t outer = j / plan->parts;
    for (uint32_t d = y->rank; d-- > 0;) {
        from[d] = 0;
        size[d] = y->dims[d];
        if (d == plan->axis) {
            from[d] = j % plan->parts * plan->length;
            size[d] = y->dims[d] - from[d] < plan->length ? y->dims[d] - from[d] : plan->length;
        } else if (d < plan->axis) {
            from[d] = outer % y->dims[d];
            outer /= y->dims[d];
            size[d] = 1;
        }
    }
    for (size_t i = 0; i < op->num_inputs; i++)
        if (!opdb_tile_input_range(aic->tiling, i, op->inputs[i], y, from, size, in_from, in_size) ||
            !opdb_aic_part(piece, i, op->inputs[i], in_from, in_size))
            return false;
    piece->op = *op;
    piece->op.inputs = piece->slots;
    piece->op.outputs = piece->slots + op->num_inputs;
    return opdb_aic_part(piece, op->num_inputs, y, from, size);
}

static void *opdb_aic_scratch(const CustomOpContext *ctx) {
    return OPDB_AIC_SCRATCH > 0 ? ctx->scratchBuffers[1].buf : NULL;
}
static size_t opdb_aic_scratch_size(const CustomOpContext *ctx) {
    return OPDB_AIC_SCRATCH > 0 ? (size_t)ctx->scratchBuffers[1].size : 0;
}
/* A thread's share of the kernel's memory, aligned to 16 bytes as kernels require. */
static size_t opdb_aic_share(const CustomOpContext *ctx) {
    return opdb_aic_scratch_size(ctx) / OPDB_AIC_THREADS / 16 * 16;
}

static bool opdb_aic_plan_of(const opdb_aic_op *aic, opdb_aic_shared *shared, const CustomOpContext *ctx) {
    if (aic->tiling == NULL || shared->node.op.num_outputs != 1 ||
        !opdb_aic_divided(aic->tiling, shared->node.op.outputs[0], &shared->plan))
        return false;
    for (int64_t j = 0; j < shared->plan.pieces; j++)
        if (!opdb_aic_cut(aic, &shared->node.op, &shared->plan, j, &shared->pieces[0]) ||
            kernel_scratch(&shared->pieces[0].op) > opdb_aic_share(ctx))
            return false;
    return true;
}

/* The part that thread 0 does for all. */
static void opdb_aic_prepare(const opdb_aic_op *aic, const CustomOpIOTensor *inputs, int32_t num_inputs,
                             const CustomOpIOTensor *outputs, int32_t num_outputs,
                             const CustomOpParam *params, int32_t num_params, const CustomOpContext *ctx,
                             int32_t threads) {
    opdb_aic_shared *shared = ctx->scratchBuffers[0].buf;
    opdb_aic_node *node = &shared->node;
    shared->state = OPDB_AIC_NOTHING;
    const char *why = opdb_aic_read(node, aic, inputs, num_inputs, outputs, num_outputs, params, num_params);
    if (why != NULL) {
        AIC_PRINT_ERROR(ctx, "%s: %s", aic->name, why);
        return;
    }
    for (int32_t i = 0; i < num_inputs; i++)
        opdb_aic_encode(node, (size_t)i, getInputScale(ctx, i), getInputOffset(ctx, i));
    for (int32_t i = 0; i < num_outputs; i++)
        opdb_aic_encode(node, (size_t)(num_inputs + i), getOutputScale(ctx, i), getOutputOffset(ctx, i));
    shared->state = threads > 1 && opdb_aic_plan_of(aic, shared, ctx) ? OPDB_AIC_PIECES : OPDB_AIC_WHOLE;
}

static void opdb_aic_compute(const opdb_aic_op *aic, opdb_op *op, void *scratch, size_t size,
                             const CustomOpContext *ctx) {
    op->scratch = scratch;
    op->scratch_size = size;
    const opdb_status status = kernel_run(op);
    if (status != OPDB_OK)
        AIC_PRINT_ERROR(ctx, "%s: the kernel answers %d", aic->name, (int)status);
}

static void opdb_aic_run(const opdb_aic_op *aic, const CustomOpIOTensor *inputs, int32_t num_inputs,
                         const CustomOpIOTensor *outputs, int32_t num_outputs, const CustomOpParam *params,
                         int32_t num_params, const CustomOpContext *ctx, int32_t thread, int32_t threads) {
    opdb_aic_shared *shared = ctx->scratchBuffers[0].buf;
    if (thread == 0)
        opdb_aic_prepare(aic, inputs, num_inputs, outputs, num_outputs, params, num_params, ctx, threads);
    if (threads > 1)
        ctx->syncThread(thread);
    if (shared->state == OPDB_AIC_WHOLE && thread == 0)
        opdb_aic_compute(aic, &shared->node.op, opdb_aic_scratch(ctx), opdb_aic_scratch_size(ctx), ctx);
    if (shared->state != OPDB_AIC_PIECES || !OPDB_AIC_DIVIDED)
        return;
    opdb_aic_piece *piece = &shared->pieces[OPDB_AIC_DIVIDED ? thread : 0];
    char *mine = opdb_aic_scratch(ctx);
    if (mine != NULL)
        mine += (size_t)thread * opdb_aic_share(ctx);
    for (int64_t j = thread; j < shared->plan.pieces; j += threads)
        if (opdb_aic_cut(aic, &shared->node.op, &shared->plan, j, piece))
            opdb_aic_compute(aic, &piece->op, mine, opdb_aic_share(ctx), ctx);
}

#endif
