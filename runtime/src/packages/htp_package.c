/* An op package for QNN's HTP backend, through QHPI (opdb/qhpi.h).  Measured with QNN 2.47 and 2.51 on
 * x86-64: validateOpConfig is called for backendValidateOpConfig only, never for graphAddNode; createOpImpl
 * never.  A kernel sees tensors of one to four dimensions with four, parameters as further tensors (a bool8
 * among them as a float of which three bytes are undefined), an omitted input as a tensor without elements,
 * and signed integers of 8 and 16 bits as unsigned ones, 2^7 or 2^15 higher.
 *
 * So each node of an op becomes one of another op, while the graph is prepared: its inputs are the tensors
 * that are given and the description of the op config (htp_description.h) that was validated. */
#include <stdio.h>
#include <stdlib.h>

#include "htp.h"

/* A kernel for tensors of which those whose bit is set have five dimensions. */
static bool add_kernel(opdb_qhpi_kernel *out, const opdb_package_op *op, uint32_t num_inputs,
                       uint64_t five_inputs, uint32_t num_outputs, uint64_t five_outputs) {
    const opdb_qhpi_signature flat4 = {OPDB_QHPI_ANY_ELEMENT, OPDB_QHPI_FLAT4, OPDB_QHPI_DIRECT,
                                       OPDB_QHPI_EITHER};
    const opdb_qhpi_signature flat5 = {OPDB_QHPI_ANY_ELEMENT, OPDB_QHPI_FLAT5, OPDB_QHPI_DIRECT,
                                       OPDB_QHPI_EITHER};
    const opdb_qhpi_signature words = {OPDB_QHPI_INT32, OPDB_QHPI_ANY_LAYOUT, OPDB_QHPI_DIRECT,
                                       OPDB_QHPI_EITHER};
    opdb_qhpi_signature *inputs = calloc(num_inputs + DESCRIBED + num_outputs, sizeof *inputs);
    opdb_qhpi_signature *outputs = inputs + num_inputs + DESCRIBED;
    char *name = malloc(OPDB_HTP_NAME);
    *out = (opdb_qhpi_kernel){.name = name,
                              .run = opdb_htp_run,
                              .resources = OPDB_QHPI_HVX,
                              .many_threads = 1,
                              .num_inputs = num_inputs + DESCRIBED,
                              .inputs = inputs,
                              .num_outputs = num_outputs,
                              .outputs = outputs};
    if (inputs == NULL || name == NULL)
        return false;
    snprintf(name, OPDB_HTP_NAME, "%s_%u_%llx_%u_%llx", op->name, num_inputs, (unsigned long long)five_inputs,
             num_outputs, (unsigned long long)five_outputs);
    for (uint32_t i = 0; i < num_inputs; i++)
        inputs[i] = five_inputs >> i & 1 ? flat5 : flat4;
    inputs[num_inputs] = words;
    for (uint32_t i = 0; i < num_outputs; i++)
        outputs[i] = five_outputs >> i & 1 ? flat5 : flat4;
    return true;
}

/* Choice `i` of which of `count` tensors have five dimensions: each of up to five tensors; of more, none,
 * all, or the first. */
static uint64_t choice_of_five(bool five, uint32_t count, uint64_t i) {
    const uint64_t all = (UINT64_C(1) << count) - 1;
    const uint64_t some[] = {0, all, 1};
    return !five ? 0 : count <= 5 ? i : some[i];
}

static uint64_t choices_of_five(bool five, uint32_t count) {
    return !five ? 1 : count <= 5 ? UINT64_C(1) << count : 3;
}

/* The op of described nodes with these outputs: a kernel for each number and choice of inputs.  The library
 * goes on to the next kernel where inputs differ in layout; where outputs do, it crashes. */
static bool register_described(const opdb_package_op *op, uint32_t num_outputs, uint64_t five_outputs) {
    opdb_qhpi_info *info = calloc(1, sizeof *info);
    opdb_qhpi_kernel *kernels = NULL;
    char *name = malloc(OPDB_HTP_NAME);
    uint32_t count = 0;
    if (info == NULL || name == NULL)
        return false;
    for (uint32_t n = op->min_inputs; n <= op->max_inputs; n++) {
        const uint64_t choices = choices_of_five(op->five, n);
        opdb_qhpi_kernel *grown = realloc(kernels, (count + choices) * sizeof *kernels);
        if (grown == NULL)
            return false;
        kernels = grown;
        for (uint64_t i = 0; i < choices; i++)
            if (!add_kernel(&kernels[count++], op, n, choice_of_five(op->five, n, i), num_outputs,
                            five_outputs))
                return false;
    }
    opdb_htp_described_name(name, op, five_outputs);
    info->name = name;
    info->num_kernels = count;
    info->kernels = kernels;
    if (op->tiling != NULL) {
        info->tile_shape = opdb_htp_tile_shape;
        info->tile_legal = opdb_htp_tile_legal;
        info->tile = opdb_htp_tile;
    }
    return qhpi_register_ops_v1(1, info, opdb_this_package.info.packageName) < OPDB_QHPI_WARNING;
}

/* The kernel of a node that early() did not replace. */
static uint32_t refuse(opdb_qhpi_handle *handle, uint32_t num_outputs, opdb_qhpi_tensor **outputs,
                       uint32_t num_inputs, const opdb_qhpi_tensor *const *inputs) {
    (void)handle, (void)num_outputs, (void)outputs, (void)num_inputs, (void)inputs;
    opdb_package_complain("%s: a node was not validated before its graph was finalized",
                          opdb_this_package.info.packageName);
    return OPDB_QHPI_FATAL;
}

/* The op under its own name, whose nodes early() replaces.  QHPI takes no op without a kernel. */
static bool register_op(const opdb_package_op *op) {
    opdb_qhpi_info *info = calloc(1, sizeof *info);
    opdb_qhpi_kernel *kernel = calloc(1, sizeof *kernel);
    char *name = malloc(OPDB_HTP_NAME);
    if (info == NULL || kernel == NULL || name == NULL ||
        !add_kernel(kernel, op, op->min_inputs, 0, op->min_outputs, 0))
        return false;
    snprintf((char *)kernel->name, OPDB_HTP_NAME, "%s_undescribed", op->name);
    kernel->run = refuse;
    snprintf(name, OPDB_HTP_NAME, "%s::%s", opdb_this_package.info.packageName, op->name);
    info->name = name;
    info->num_kernels = 1;
    info->kernels = kernel;
    info->early = opdb_htp_early;
    return qhpi_register_ops_v1(1, info, opdb_this_package.info.packageName) < OPDB_QHPI_WARNING;
}

static bool register_all(const opdb_package_op *op) {
    bool taken = register_op(op);
    for (uint32_t m = op->min_outputs; m <= op->max_outputs; m++)
        for (uint64_t i = 0; i < choices_of_five(op->five, m); i++)
            taken = register_described(op, m, choice_of_five(op->five, m, i)) && taken;
    return taken;
}

/* What libQnnHtp.so looks for in a package, for each registration.  One op per call: of two, a library whose
 * structs are longer loses the second.  What is registered stays as long as the backend: the next one has to
 * be told again, and newer libraries refuse the same op twice. */
__attribute__((visibility("default"))) const char *qhpi_init(void);
const char *qhpi_init(void) {
    for (uint32_t i = 0; i < opdb_this_package.info.numOperations; i++)
        if (!register_all(&opdb_this_package.ops[i]))
            opdb_package_complain("%s: QHPI does not take this op", opdb_this_package.ops[i].name);
    return opdb_this_package.info.packageName;
}

static Qnn_ErrorHandle_t create(QnnOpPackage_GraphInfrastructure_t infrastructure, QnnOpPackage_Node_t node,
                                QnnOpPackage_OpImpl_t *out) {
    (void)infrastructure, (void)node, (void)out; /* HTP calls neither */
    return REFUSED;
}

static Qnn_ErrorHandle_t destroy(QnnOpPackage_OpImpl_t impl) {
    (void)impl;
    return REFUSED;
}

const opdb_package_backend opdb_this_backend = {
    .name = "HTP",
    .accepted = opdb_htp_accepted,
    .create = create,
    .free = destroy,
};
