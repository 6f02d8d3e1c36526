/* See functions.h. */
#include "functions.h"

#include <stdlib.h>

#include "CustomOpLog.h"
#include "aic_node.h"
#include "aic_op.h"
#include "opdb/report.h"

enum { TEXT = 1024 };
static const CustomOpContext *const NOWHERE = NULL; /* functions have no context */

static opdb_aic_node *node_of(const opdb_aic_given *in, int32_t num_outputs) {
    opdb_aic_node *node = calloc(1, sizeof *node);
    const char *why = node == NULL ? "out of memory"
                                   : opdb_aic_read(node, opdb_this_op.op, in->inputs, in->num_inputs,
                                                   in->outputs, num_outputs, in->params, in->num_params);
    if (why == NULL)
        return node;
    AIC_PRINT_ERROR(NOWHERE, "%s: %s", opdb_this_op.op->name, why);
    free(node);
    return NULL;
}

static void print_broken(const opdb_report *report) {
    char text[TEXT];
    for (size_t i = 0; i < report->n; i++)
        if (report->v[i].strength == OPDB_REQUIRE) {
            opdb_violation_text(&report->v[i], text, sizeof text);
            AIC_PRINT_ERROR(NOWHERE, "%s", text);
        }
}

bool opdb_aic_verify(const opdb_aic_given *in) {
    static const opdb_target ANY = {.backend = OPDB_BACKEND_NONE};
    opdb_report report;
    report.n = report.dropped = 0;
    opdb_aic_node *node = node_of(in, in->num_outputs);
    if (node == NULL)
        return false;
    opdb_this_op.validate(&node->op, &ANY, &report);
    print_broken(&report);
    bool good = !opdb_is_broken(&report);
    const size_t needed = good ? opdb_this_op.scratch(&node->op) : 0;
    if (needed > opdb_this_op.scratch_size) {
        AIC_PRINT_ERROR(
            NOWHERE, "%s: it needs %llu bytes of scratch and has %llu; make the package with --scratch %llu",
            opdb_this_op.op->name, (unsigned long long)needed, (unsigned long long)opdb_this_op.scratch_size,
            (unsigned long long)needed);
        good = false;
    }
    free(node);
    return good;
}

/* Stores the inferred shapes, as far as the outputs have room. */
static bool set_outputs(const opdb_aic_node *node, const opdb_shapes *shapes, const opdb_aic_given *in,
                        CustomOpIOTensor *outputs) {
    const enum opdb_dtype *row = opdb_aic_row(opdb_this_op.op, in->inputs, in->num_inputs, NULL, 0);
    if (row == NULL || shapes->n != (size_t)in->num_outputs) {
        AIC_PRINT_ERROR(NOWHERE, "%s: it has %d output%s here, not %d", node->op.op, (int)shapes->n,
                        shapes->n == 1 ? "" : "s", (int)in->num_outputs);
        return false;
    }
    for (int32_t i = 0; i < in->num_outputs; i++) {
        CustomOpIOTensor *out = &outputs[i];
        const opdb_shape_value *shape = &shapes->v[i];
        if ((int64_t)shape->rank > out->rank) {
            AIC_PRINT_ERROR(NOWHERE, "%s: output %d has %d dimensions, its maxDims is %d", node->op.op,
                            (int)i, (int)shape->rank, (int)out->rank);
            return false;
        }
        out->rank = (int32_t)shape->rank;
        out->dtype = (CustomOpDataType)opdb_aic_type(
            opdb_aic_slot(row, opdb_this_op.op->num_inputs, opdb_this_op.op->num_outputs, i));
        for (uint32_t d = 0; d < shape->rank; d++) {
            if (shape->dims[d] > INT32_MAX) {
                AIC_PRINT_ERROR(NOWHERE, "%s: output %d is too large", node->op.op, (int)i);
                return false;
            }
            AIC_SIZES(out)[d] = (int32_t)shape->dims[d];
        }
    }
    return true;
}

bool opdb_aic_infer(const opdb_aic_given *in, CustomOpIOTensor *outputs) {
    opdb_report report;
    opdb_shapes shapes;
    report.n = report.dropped = 0;
    opdb_aic_node *node = node_of(in, 0);
    if (node == NULL)
        return false;
    const opdb_status status = opdb_this_op.infer(&node->op, &shapes, &report);
    print_broken(&report);
    if (status == OPDB_UNDECIDABLE)
        AIC_PRINT_ERROR(NOWHERE, "%s: the shapes of its outputs do not follow from inputs and parameters",
                        node->op.op);
    const bool good = status == OPDB_OK && set_outputs(node, &shapes, in, outputs);
    free(node);
    return good;
}

const char *opdb_aic_select(const opdb_aic_given *in, const char *backend) {
    if (opdb_aic_row(opdb_this_op.op, in->inputs, in->num_inputs, in->outputs, in->num_outputs) == NULL) {
        AIC_PRINT_ERROR(NOWHERE, "%s: there is no kernel for these data types", opdb_this_op.op->name);
        return NULL;
    }
    if (backend != NULL && strcmp(backend, "AIC") == 0)
        return opdb_this_op.aic;
    if (backend != NULL && strcmp(backend, "Interpreter") == 0)
        return opdb_this_op.interpreter;
    AIC_PRINT_ERROR(NOWHERE, "%s: no kernel for the backend %s", opdb_this_op.op->name,
                    backend != NULL ? backend : "(none)");
    return NULL;
}

const char *opdb_aic_output(void) { return opdb_this_op.output; }

/* The part of input `i` that a part of the output reads. */
static bool range_of(const opdb_aic_node *node, int32_t i, const int64_t *from, const int64_t *size,
                     int64_t *input_from, int64_t *input_size) {
    return opdb_tile_input_range(opdb_this_op.op->tiling, (size_t)i, node->op.inputs[i], node->op.outputs[0],
                                 from, size, input_from, input_size);
}

int32_t opdb_aic_tile_axes(const opdb_aic_given *in, int32_t *axes, int32_t *alignment) {
    const opdb_tiling *tiling = opdb_this_op.op->tiling;
    int64_t from[OPDB_AIC_RANK] = {0}, start[OPDB_AIC_RANK], size[OPDB_AIC_RANK];
    int32_t n = 0;
    if (tiling == NULL || in->num_outputs != 1)
        return 0;
    opdb_aic_node *node = node_of(in, 1);
    if (node == NULL)
        return 0;
    const opdb_tensor *y = node->op.outputs[0];
    bool all = true; /* an input with a broadcast dimension of 1 is not cut with the output */
    for (int32_t i = 0; i < in->num_inputs; i++)
        all = all && range_of(node, i, from, y->dims, start, size);
    for (uint32_t d = 0; all && d < y->rank; d++) {
        const int64_t multiple = opdb_tile_multiple(tiling, y->rank - 1 - d);
        if (multiple > 0 && multiple < y->dims[d]) {
            axes[n] = (int32_t)d;
            alignment[n++] = (int32_t)multiple;
        }
    }
    free(node);
    return n;
}

bool opdb_aic_map_tile(const opdb_aic_given *in, int32_t input, const int32_t *start, const int32_t *end,
                       int32_t *input_start, int32_t *input_end) {
    int64_t from[OPDB_AIC_RANK], size[OPDB_AIC_RANK], in_from[OPDB_AIC_RANK], in_size[OPDB_AIC_RANK];
    if (opdb_this_op.op->tiling == NULL || in->num_outputs != 1)
        return false;
    opdb_aic_node *node = node_of(in, 1);
    if (node == NULL)
        return false;
    for (uint32_t d = 0; d < node->op.outputs[0]->rank; d++) {
        from[d] = start[d];
        size[d] = end[d] - start[d];
    }
    const bool good = range_of(node, input, from, size, in_from, in_size);
    for (uint32_t d = 0; good && d < node->op.inputs[input]->rank; d++) {
        input_start[d] = (int32_t)in_from[d];
        input_end[d] = (int32_t)(in_from[d] + in_size[d]);
    }
    free(node);
    return good;
}
