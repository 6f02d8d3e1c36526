/* A library of custom ops for ONNX Runtime: see opdb/ort.h.  An op is checked against its definition; the
 * status text says why it is refused. */
#include "opdb/ort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ort_values.h"

enum { TEXT = 1024 };

typedef struct {
    opdb_ort_custom_op base; /* first: ONNX Runtime hands its address back */
    const opdb_ort_op *op;
} custom_op;

static const opdb_ort_op *op_of(const opdb_ort_custom_op *custom) { return ((const custom_op *)custom)->op; }

static void *status_of(int code, const char *text) {
    return CALL(ORT_CREATE_STATUS, void *, int, const char *)(code, text);
}

static void *refusal(const opdb_report *report, const opdb_ort_op *op, opdb_status status) {
    char text[TEXT];
    if (status == OPDB_UNDECIDABLE)
        snprintf(text, sizeof text, "%s: the shapes of its outputs do not follow from inputs and parameters",
                 op->name);
    else
        snprintf(text, sizeof text, "%s: the kernel answers %d", op->name, (int)status);
    for (size_t i = 0; i < report->n; i++)
        if (report->v[i].strength == OPDB_REQUIRE) {
            opdb_violation_text(&report->v[i], text, sizeof text);
            break;
        }
    return status_of(status == OPDB_INVALID ? ORT_INVALID_ARGUMENT : ORT_FAIL, text);
}

/* The type of tensor `i` by the slots; a variadic last slot has all the remaining ones. */
static enum opdb_dtype slot_type(const enum opdb_dtype *types, size_t slots, size_t i) {
    return types[i < slots ? i : slots - 1];
}

static void drop_absent(opdb_op_view *view) {
    while (view->op.num_inputs > 0 && view->slots[view->op.num_inputs - 1] == NULL)
        view->op.num_inputs--;
}

/* -- shape inference */

/* The row of the op for inputs of these types: ONNX Runtime infers by the first row of each name.  NULL:
 * none. */
static const opdb_ort_op *row_of(const opdb_ort_op *op, size_t inputs, const int *types) {
    for (size_t i = 0; i < opdb_this_package.num_ops; i++) {
        const opdb_ort_op *row = &opdb_this_package.ops[i];
        bool fits = strcmp(row->name, op->name) == 0;
        for (size_t k = 0; fits && k < inputs; k++)
            fits =
                types[k] == 0 || opdb_ort_type(slot_type(row->input_types, row->num_inputs, k)) == types[k];
        if (fits)
            return row;
    }
    return NULL;
}

static void *infer_with(const opdb_ort_op *op, void *context, opdb_op_view *view, size_t inputs) {
    opdb_report report;
    opdb_shapes shapes;
    void *infos[MAX_TENSORS] = {NULL};
    int types[MAX_TENSORS] = {0};
    report.n = report.dropped = 0;
    for (size_t i = 0; i < inputs; i++)
        if (!opdb_ort_well(
                CALL(ORT_INFER_INPUT, void *, const void *, size_t, void **)(context, i, &infos[i])) ||
            infos[i] == NULL ||
            !opdb_ort_well(CALL(ORT_ELEMENT_TYPE, void *, const void *, int *)(infos[i], &types[i])))
            infos[i] = NULL; /* omitted */
    op = row_of(op, inputs, types);
    if (op == NULL)
        return NULL; /* ONNX Runtime says that there is no such kernel */
    for (size_t i = 0; i < inputs; i++)
        if (infos[i] != NULL &&
            !opdb_ort_read_shape(infos[i], view, i, slot_type(op->input_types, op->num_inputs, i)))
            return NULL; /* not known yet */
    drop_absent(view);
    const opdb_status status = op->infer(&view->op, &shapes, &report);
    if (status == OPDB_UNDECIDABLE)
        return NULL;
    if (status != OPDB_OK)
        return refusal(&report, op, status);
    for (size_t i = 0; i < shapes.n; i++) {
        void *info = NULL;
        const int type = opdb_ort_type(slot_type(op->output_types, op->num_outputs, i));
        const bool made = opdb_ort_well(CALL(ORT_CREATE_SHAPE, void *, void **)(&info)) &&
                          opdb_ort_well(CALL(ORT_SET_ELEMENT_TYPE, void *, void *, int)(info, type)) &&
                          opdb_ort_well(CALL(ORT_SET_DIMENSIONS, void *, void *, const int64_t *,
                                             size_t)(info, shapes.v[i].dims, shapes.v[i].rank)) &&
                          opdb_ort_well(CALL(ORT_INFER_OUTPUT, void *, const void *, size_t,
                                             const void *)(context, i, info));
        if (info != NULL)
            CALL(ORT_RELEASE_SHAPE, void, void *)(info);
        if (!made)
            return status_of(ORT_FAIL, "the shape of an output was not taken");
    }
    return NULL;
}

static void *infer(const opdb_ort_custom_op *custom, void *context) {
    const opdb_ort_op *op = op_of(custom);
    const opdb_ort_attributes from = {NULL, context};
    opdb_op_view view;
    size_t inputs = 0;
    memset(&view, 0, sizeof view);
    if (!opdb_ort_well(CALL(ORT_INFER_INPUT_COUNT, void *, const void *, size_t *)(context, &inputs)) ||
        inputs > MAX_TENSORS)
        return NULL;
    void *status = opdb_ort_open_view(&from, op, inputs, 0, &view) ? infer_with(op, context, &view, inputs)
                                                                   : status_of(ORT_FAIL, "out of memory");
    opdb_op_view_free(&view);
    return status;
}

/* -- kernels */

typedef struct {
    const opdb_ort_op *op;
    opdb_op_view attributes; /* parameters, no tensors */
} kernel;

static void *create(const opdb_ort_custom_op *custom, opdb_ort_api given, const void *info, void **out) {
    (void)given;
    kernel *made = calloc(1, sizeof *made);
    if (made == NULL)
        return status_of(ORT_FAIL, "out of memory");
    const opdb_ort_attributes from = {info, NULL};
    made->op = op_of(custom);
    *out = made;
    return opdb_ort_open_view(&from, made->op, 0, 0, &made->attributes)
               ? NULL
               : status_of(ORT_FAIL, "out of memory");
}

static void destroy(void *given) {
    kernel *made = given;
    opdb_op_view_free(&made->attributes);
    free(made);
}

static bool read_inputs(const opdb_ort_op *op, void *context, opdb_op_view *view, size_t inputs) {
    for (size_t i = 0; i < inputs; i++) {
        const void *value = NULL;
        void *info = NULL;
        if (!opdb_ort_well(CALL(ORT_INPUT, void *, const void *, size_t, const void **)(context, i, &value)))
            return false;
        if (value == NULL)
            continue; /* omitted */
        if (!opdb_ort_well(CALL(ORT_TYPE_AND_SHAPE, void *, const void *, void **)(value, &info)))
            return false;
        const bool read = opdb_ort_read_shape(info, view, i, slot_type(op->input_types, op->num_inputs, i));
        CALL(ORT_RELEASE_SHAPE, void, void *)(info);
        if (!read || !opdb_ort_well(
                         CALL(ORT_TENSOR_DATA, void *, const void *, void **)(value, &view->tensors[i].data)))
            return false;
    }
    return true;
}

/* Creates the outputs with the shapes that follow from the inputs. */
static bool make_outputs(const opdb_ort_op *op, void *context, opdb_op_view *view, const opdb_shapes *shapes,
                         size_t inputs) {
    for (size_t i = 0; i < shapes->n; i++) {
        opdb_tensor *out = &view->tensors[inputs + i];
        void *value = NULL;
        memcpy(view->dims[inputs + i], shapes->v[i].dims, sizeof shapes->v[i].dims);
        *out = (opdb_tensor){.rank = shapes->v[i].rank,
                             .dims = view->dims[inputs + i],
                             .dtype = slot_type(op->output_types, op->num_outputs, i),
                             .encoding = OPDB_ENCODING_NONE,
                             .symmetric = true,
                             .type = OPDB_TENSOR_NATIVE,
                             .axis = -1};
        view->slots[inputs + i] = out;
        if (!opdb_ort_well(CALL(ORT_OUTPUT, void *, void *, size_t, const int64_t *, size_t,
                                void **)(context, i, out->dims, out->rank, &value)) ||
            value == NULL ||
            !opdb_ort_well(CALL(ORT_TENSOR_DATA, void *, const void *, void **)(value, &out->data)))
            return false;
    }
    return true;
}

static void *compute_with(const kernel *made, void *context, opdb_op_view *view, size_t inputs,
                          size_t outputs) {
    const opdb_ort_op *op = made->op;
    opdb_report report;
    opdb_shapes shapes;
    report.n = report.dropped = 0;
    if (!read_inputs(op, context, view, inputs))
        return status_of(ORT_FAIL, "an input cannot be read");
    drop_absent(view);
    view->op.num_outputs = 0;
    opdb_status status = op->infer(&view->op, &shapes, &report);
    if (status != OPDB_OK)
        return refusal(&report, op, status);
    if (shapes.n > outputs || !make_outputs(op, context, view, &shapes, inputs))
        return status_of(ORT_FAIL, "an output cannot be made");
    view->op.num_outputs = shapes.n;
    view->op.scratch_size = op->scratch(&view->op);
    view->op.scratch = view->op.scratch_size > 0 ? malloc(view->op.scratch_size) : NULL;
    if (view->op.scratch_size > 0 && view->op.scratch == NULL)
        return status_of(ORT_FAIL, "out of memory");
    status = op->run(&view->op, &report);
    free(view->op.scratch);
    return status == OPDB_OK ? NULL : refusal(&report, op, status);
}

static void *compute(void *given, void *context) {
    const kernel *made = given;
    opdb_op_view view;
    size_t inputs = 0, outputs = 0;
    memset(&view, 0, sizeof view);
    if (!opdb_ort_well(CALL(ORT_INPUT_COUNT, void *, const void *, size_t *)(context, &inputs)) ||
        !opdb_ort_well(CALL(ORT_OUTPUT_COUNT, void *, const void *, size_t *)(context, &outputs)) ||
        inputs > MAX_TENSORS || outputs > MAX_TENSORS)
        return status_of(ORT_FAIL, "more than 64 tensors");
    if (!opdb_op_view_new(&view, made->op->name, inputs, outputs, 0, 0)) {
        opdb_op_view_free(&view);
        return status_of(ORT_FAIL, "out of memory");
    }
    view.op.params = made->attributes.op.params;
    view.op.num_params = made->attributes.op.num_params;
    void *status = compute_with(made, context, &view, inputs, outputs);
    opdb_op_view_free(&view);
    return status;
}

/* -- what ONNX Runtime queries of an op */

static const char *name(const opdb_ort_custom_op *c) { return op_of(c)->name; }
static const char *provider(const opdb_ort_custom_op *c) {
    (void)c;
    return NULL; /* the CPU */
}
static size_t input_count(const opdb_ort_custom_op *c) { return op_of(c)->num_inputs; }
static size_t output_count(const opdb_ort_custom_op *c) { return op_of(c)->num_outputs; }
static int input_type(const opdb_ort_custom_op *c, size_t i) {
    return opdb_ort_type(op_of(c)->input_types[i]);
}
static int output_type(const opdb_ort_custom_op *c, size_t i) {
    return opdb_ort_type(op_of(c)->output_types[i]);
}
static int input_kind(const opdb_ort_custom_op *c, size_t i) { return op_of(c)->inputs[i].kind; }
static int output_kind(const opdb_ort_custom_op *c, size_t i) { return op_of(c)->outputs[i].kind; }
static int memory(const opdb_ort_custom_op *c, size_t i) {
    (void)c, (void)i;
    return 0;
}
static int variadic_inputs(const opdb_ort_custom_op *c) {
    const opdb_ort_op *op = op_of(c);
    return op->num_inputs > 0 ? op->inputs[op->num_inputs - 1].minimum : 0;
}
static int variadic_outputs(const opdb_ort_custom_op *c) {
    const opdb_ort_op *op = op_of(c);
    return op->outputs[op->num_outputs - 1].minimum;
}
static int one(const opdb_ort_custom_op *c) {
    (void)c;
    return 1;
}
static int any(const opdb_ort_custom_op *c) {
    (void)c;
    return INT32_MAX;
}

static custom_op *ops; /* as long as the library: sessions point to them */

/* ONNX Runtime unloads the library together with the last session. */
__attribute__((destructor)) static void forget(void) { free(ops); }

void *opdb_ort_register(void *options, const opdb_ort_base *base) {
    opdb_ort_functions = base->get(OPDB_ORT_API_VERSION);
    if (opdb_ort_functions == NULL)
        return NULL; /* an ONNX Runtime before 1.17 cannot even report an error */
    if (ops == NULL)
        ops = calloc(opdb_this_package.num_ops, sizeof *ops);
    void *domain = NULL;
    void *status = ops == NULL ? status_of(ORT_FAIL, "out of memory")
                               : CALL(ORT_CREATE_DOMAIN, void *, const char *,
                                      void **)(opdb_this_package.domain, &domain);
    for (size_t i = 0; status == NULL && i < opdb_this_package.num_ops; i++) {
        ops[i] = (custom_op){{.version = OPDB_ORT_API_VERSION,
                              .name = name,
                              .provider = provider,
                              .input_type = input_type,
                              .input_count = input_count,
                              .output_type = output_type,
                              .output_count = output_count,
                              .destroy = destroy,
                              .input_kind = input_kind,
                              .output_kind = output_kind,
                              .input_memory = memory,
                              .variadic_inputs = variadic_inputs,
                              .inputs_alike = one,
                              .variadic_outputs = variadic_outputs,
                              .outputs_alike = one,
                              .create_v2 = create,
                              .compute_v2 = compute,
                              .infer = infer,
                              .since = one,
                              .until = any},
                             &opdb_this_package.ops[i]};
        status = CALL(ORT_DOMAIN_ADD, void *, void *, const void *)(domain, &ops[i].base);
    }
    return status != NULL ? status : CALL(ORT_ADD_DOMAIN, void *, void *, void *)(options, domain);
}
