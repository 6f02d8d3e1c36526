/* An op package for QNN's CPU backend.  Measured with QNN 2.47: it calls validateOpConfig for
 * backendValidateOpConfig and again before createOpImpl; it never calls logInitialize; freeOpImpl gets a copy
 * of QnnCpuOpPackage_OpImpl_t; tensors have no data while an op is created.  validateOpConfig has to refuse
 * tensors of some types (CPU-0330). */
#include <stdlib.h>
#include <string.h>

#include "package.h"

/* The state that createOpImpl hands to the backend. */
typedef struct {
    QnnCpuOpPackage_OpImpl_t impl;
    const opdb_package_op *op;
    opdb_op_view view;
    size_t num_tensors;
    const QnnCpuOpPackage_Tensor_t **tensors; /* the backend's: inputs, then outputs */
    void *scratch;                            /* the kernel's scratch, from the first run on */
} node_state;

/* The dtype in the op config: for a quantized tensor, the backend shows the type of the stored integers. */
static enum opdb_dtype node_dtype(const QnnCpuOpPackage_Tensor_t *in) {
    const bool quantized = in->quantizeParams.encodingDefinition == QNN_DEFINITION_DEFINED;
    return in->dataType == OPDB_U8 && quantized ? OPDB_UQ8 : (enum opdb_dtype)in->dataType;
}

/* Current dims and data of tensor `i`; false for more dims than a view holds.  An omitted input is a tensor
 * without dims, and without data when the op is executed. */
static bool refresh(opdb_op_view *view, size_t i, const QnnCpuOpPackage_Tensor_t *in) {
    opdb_tensor *out = &view->tensors[i];
    if (in->rank > OPDB_MAX_RANK)
        return false;
    out->rank = in->rank;
    for (uint32_t d = 0; d < in->rank; d++)
        view->dims[i][d] = in->currentDimensions[d];
    out->data = in->data;
    view->slots[i] = in->rank == 0 && in->data == NULL ? NULL : out;
    return true;
}

static const char *view_node_tensor(node_state *state, size_t i, const QnnCpuOpPackage_Tensor_t *in) {
    opdb_tensor *out = &state->view.tensors[i];
    state->tensors[i] = in;
    out->dims = state->view.dims[i];
    out->dtype = node_dtype(in);
    out->type = in->data != NULL ? OPDB_TENSOR_STATIC : OPDB_TENSOR_NATIVE;
    if (!refresh(&state->view, i, in))
        return "a tensor has more than 16 dimensions";
    return opdb_op_view_encoding(&state->view, i, &in->quantizeParams);
}

static const char *view_node_param(node_state *state, size_t i, size_t from,
                                   const QnnCpuOpPackage_Param_t *in) {
    opdb_op_view *view = &state->view;
    opdb_param *out = &view->params[i];
    out->name = in->name;
    for (size_t k = 0; k < state->op->num_params; k++)
        if (strcmp(state->op->params[k].name, in->name) == 0) {
            out->name = state->op->params[k].name; /* lives as long as the library */
            out->dtype = state->op->params[k].dtype;
        }
    if (in->type == QNN_CPU_PARAMTYPE_TENSOR)
        return opdb_op_view_list(view, i, from, out->dtype, in->u.tensorParam->currentDimensions,
                                 in->u.tensorParam->rank, in->u.tensorParam->data);
    out->dims = view->shapes[i];
    out->count = 1;
    out->ints = &view->ints[from];
    if (in->type == QNN_CPU_PARAMTYPE_SCALAR) {
        out->real = in->u.scalarParam;
        if (out->dtype != OPDB_F32 && out->dtype != OPDB_F64)
            view->ints[from] = (int64_t)in->u.scalarParam;
    }
    return NULL;
}

static size_t node_values_of(const QnnCpuOpPackage_Param_t *in) {
    return in->type == QNN_CPU_PARAMTYPE_TENSOR
               ? opdb_count_of(in->u.tensorParam->currentDimensions, in->u.tensorParam->rank)
               : 1;
}

static const char *view_node(node_state *state, const QnnCpuOpPackage_Node_t *in) {
    size_t values = 0, from = 0;
    /* A count above the op's parameters is garbage, since validateOpConfig refuses unknown ones
     * (CPU-0331). */
    const uint32_t num_params = in->numOfParams > state->op->num_params ? 0 : in->numOfParams;
    for (uint32_t i = 0; i < num_params; i++)
        values += node_values_of(in->params[i]);
    state->num_tensors = (size_t)in->numOfInputs + in->numOfOutputs;
    state->tensors = calloc(state->num_tensors + 1, sizeof *state->tensors);
    if (state->tensors == NULL || !opdb_op_view_new(&state->view, state->op->name, in->numOfInputs,
                                                    in->numOfOutputs, num_params, values))
        return "out of memory";
    const char *why = NULL;
    for (uint32_t i = 0; why == NULL && i < in->numOfInputs; i++)
        why = view_node_tensor(state, i, in->inputs[i]);
    for (uint32_t i = 0; why == NULL && i < in->numOfOutputs; i++)
        why = view_node_tensor(state, in->numOfInputs + i, in->outputs[i]);
    for (uint32_t i = 0; why == NULL && i < num_params; i++) {
        why = view_node_param(state, i, from, in->params[i]);
        from += node_values_of(in->params[i]);
    }
    if (why == NULL)
        opdb_op_view_as_defined(&state->view, state->op);
    return why;
}

static bool node_refresh(node_state *node) {
    for (size_t i = 0; i < node->num_tensors; i++)
        if (!refresh(&node->view, i, node->tensors[i]))
            return false;
    return true;
}

static bool node_scratch(node_state *node) {
    opdb_op *op = &node->view.op;
    const size_t size = node->op->scratch(op);
    if (size <= op->scratch_size)
        return true;
    free(node->scratch);
    node->scratch = malloc(size);
    op->scratch = node->scratch;
    op->scratch_size = node->scratch != NULL ? size : 0;
    return node->scratch != NULL;
}

static void node_free(node_state *node) {
    free(node->scratch);
    opdb_op_view_free(&node->view);
    free(node->tensors);
    free(node);
}

/* Allocates scratch in the first run, or when shapes have grown, if the kernel needs any.  One node is
 * executed by one thread at a time: the backend's own tensors are shared. */
static Qnn_ErrorHandle_t execute(void *user_data) {
    node_state *state = user_data;
    opdb_report report;
    report.n = report.dropped = 0;
    if (!node_refresh(state) || !node_scratch(state))
        return GENERAL;
    const opdb_status status = state->op->run(&state->view.op, &report);
    if (status == OPDB_OK)
        return SUCCESS;
    opdb_package_complain_of(&report);
    if (status == OPDB_UNSUPPORTED)
        opdb_package_complain("%s: there is no kernel for these data types", state->op->name);
    return status == OPDB_INVALID ? REFUSED : GENERAL;
}

static Qnn_ErrorHandle_t create(QnnOpPackage_GraphInfrastructure_t infrastructure, QnnOpPackage_Node_t node,
                                QnnOpPackage_OpImpl_t *out) {
    (void)infrastructure; /* NULL */
    if (node == NULL || out == NULL)
        return INVALID_ARGUMENT;
    const QnnCpuOpPackage_Node_t *in = node;
    const opdb_package_op *op = opdb_package_find(in->typeName);
    node_state *state = op == NULL ? NULL : calloc(1, sizeof *state);
    if (state == NULL)
        return op == NULL ? REFUSED : GENERAL;
    state->op = op;
    const char *why = view_node(state, in);
    if (why != NULL) {
        opdb_package_complain("%s: %s", op->name, why);
        node_free(state);
        return REFUSED;
    }
    state->impl = (QnnCpuOpPackage_OpImpl_t){execute, state};
    *out = &state->impl;
    return SUCCESS;
}

/* `impl` is the backend's copy: only what it points to is ours. */
static Qnn_ErrorHandle_t destroy(QnnOpPackage_OpImpl_t impl) {
    QnnCpuOpPackage_OpImpl_t *copy = impl;
    if (copy == NULL || copy->userData == NULL)
        return INVALID_ARGUMENT;
    node_free(copy->userData);
    copy->userData = NULL;
    return SUCCESS;
}

const opdb_package_backend opdb_this_backend = {
    .name = "CPU",
    .create = create,
    .free = destroy,
};
