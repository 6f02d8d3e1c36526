/* See opdb/op_package.h.  Measured with the CPU backend of QNN 2.47: it calls validateOpConfig for
 * backendValidateOpConfig and again before createOpImpl; it never calls logInitialize; freeOpImpl gets a copy
 * of QnnCpuOpPackage_OpImpl_t; tensors have no data while an op is created.  validateOpConfig has to refuse
 * tensors of some types (CPU-0330). */
#include "opdb/op_package.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opdb/backends.h"
#include "package_view.h"

/* QNN_OP_PACKAGE_ERROR_*; an accepted op is QNN_SUCCESS. */
enum { SUCCESS = 0, GENERAL = 1100, INVALID_INFO = 3101, REFUSED = 3110, INVALID_ARGUMENT = 3200 };

/* -- the log */

static _Atomic(QnnLog_Callback_t) log_callback = NULL;

/* Logs at level error; to standard error where nobody gave a callback. */
static void complain(const char *format, ...) {
    QnnLog_Callback_t callback = atomic_load(&log_callback);
    va_list args;
    va_start(args, format);
    if (callback != NULL) {
        callback(format, QNN_LOG_LEVEL_ERROR, 0, args);
    } else {
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
    }
    va_end(args);
}

static void complain_of(const opdb_report *report) {
    for (size_t i = 0; i < report->n; i++) {
        const opdb_violation *v = &report->v[i];
        if (v->strength == OPDB_REQUIRE)
            complain("%s: %s%s%s%s%s%s", v->rule, v->why, v->why[0] != '\0' ? " Rule: " : "", v->sentence,
                     v->got[0] != '\0' ? "; got " : "", v->got,
                     v->undecidable ? " (cannot be evaluated)" : "");
    }
}

/* -- the functions of the interface */

static const opdb_package_op *find(const char *type) {
    for (uint32_t i = 0; type != NULL && i < opdb_this_package.info.numOperations; i++)
        if (strcmp(opdb_this_package.ops[i].name, type) == 0)
            return &opdb_this_package.ops[i];
    complain("%s: the op package %s has no such op", type == NULL ? "?" : type,
             opdb_this_package.info.packageName);
    return NULL;
}

static Qnn_ErrorHandle_t initialize(QnnOpPackage_GlobalInfrastructure_t infrastructure) {
    (void)infrastructure; /* NULL */
    return SUCCESS;
}

static Qnn_ErrorHandle_t terminate(void) { return SUCCESS; }

static Qnn_ErrorHandle_t get_info(const QnnOpPackage_Info_t **out) {
    if (out == NULL)
        return INVALID_INFO;
    *out = &opdb_this_package.info;
    return SUCCESS;
}

static bool is_computed(const opdb_package_op *op, enum opdb_dtype dtype) {
    for (const enum opdb_dtype *d = op->kernel; *d != OPDB_NO_DTYPE; d++)
        if (*d == dtype)
            return true;
    return false;
}

/* What the rules of an op do not say: tensors that the backend hides, and kernels that are not there.  Logs
 * the reason and returns false. */
static bool can_run(const opdb_package_op *op, const opdb_op_view *view) {
    for (size_t i = 0; i < view->op.num_inputs + view->op.num_outputs; i++) {
        const opdb_tensor *t = view->slots[i];
        if (t != NULL && !opdb_is_shown(t->dtype)) {
            complain(
                "%s: QNN's CPU backend shows op packages no tensors of type %s; it shows i8, i32, u8, u32, "
                "f32, bool8 and uq8",
                op->name, opdb_dtype_name(t->dtype));
            return false;
        }
    }
    const opdb_tensor *first = view->op.num_inputs > 0 ? view->slots[0] : NULL;
    if (first != NULL && !is_computed(op, first->dtype)) {
        complain("%s: there is no kernel for a first input of type %s", op->name,
                 opdb_dtype_name(first->dtype));
        return false;
    }
    return true;
}

static Qnn_ErrorHandle_t validate_op(Qnn_OpConfig_t config) {
    static const opdb_target CPU = {.backend = OPDB_BACKEND_CPU};
    const opdb_package_op *op = config.version == QNN_OPCONFIG_VERSION_1 ? find(config.u.v1.typeName) : NULL;
    if (op == NULL)
        return REFUSED;
    opdb_op_view view;
    opdb_report report;
    report.n = report.dropped = 0;
    const char *why = opdb_op_view_config(&view, &config.u.v1);
    if (why != NULL)
        complain("%s: %s", op->name, why);
    else
        op->validate(&view.op, &CPU, &report);
    complain_of(&report);
    const bool refused = why != NULL || opdb_is_broken(&report) || !can_run(op, &view);
    opdb_op_view_free(&view);
    return refused ? REFUSED : SUCCESS;
}

/* Allocates scratch in the first run, where the kernel needs any, or where shapes have grown.  One node is
 * executed by one thread at a time: the backend's own tensors are shared. */
static Qnn_ErrorHandle_t execute(void *user_data) {
    opdb_node *state = user_data;
    opdb_report report;
    report.n = report.dropped = 0;
    if (!opdb_node_refresh(state) || !opdb_node_scratch(state))
        return GENERAL;
    const opdb_status status = state->op->run(&state->view.op, &report);
    if (status == OPDB_OK)
        return SUCCESS;
    complain_of(&report);
    if (status == OPDB_UNSUPPORTED)
        complain("%s: there is no kernel for these data types", state->op->name);
    return status == OPDB_INVALID ? REFUSED : GENERAL;
}

static Qnn_ErrorHandle_t create_op(QnnOpPackage_GraphInfrastructure_t infrastructure,
                                   QnnOpPackage_Node_t node, QnnOpPackage_OpImpl_t *out) {
    (void)infrastructure; /* NULL */
    if (node == NULL || out == NULL)
        return INVALID_ARGUMENT;
    const QnnCpuOpPackage_Node_t *in = node;
    const opdb_package_op *op = find(in->typeName);
    opdb_node *state = op == NULL ? NULL : calloc(1, sizeof *state);
    if (state == NULL)
        return op == NULL ? REFUSED : GENERAL;
    state->op = op;
    const char *why = opdb_op_view_node(state, in);
    if (why != NULL) {
        complain("%s: %s", op->name, why);
        opdb_node_free(state);
        return REFUSED;
    }
    state->impl = (QnnCpuOpPackage_OpImpl_t){execute, state};
    *out = &state->impl;
    return SUCCESS;
}

/* `impl` is the backend's copy: only what it points to is ours. */
static Qnn_ErrorHandle_t free_op(QnnOpPackage_OpImpl_t impl) {
    QnnCpuOpPackage_OpImpl_t *copy = impl;
    if (copy == NULL || copy->userData == NULL)
        return INVALID_ARGUMENT;
    opdb_node_free(copy->userData);
    copy->userData = NULL;
    return SUCCESS;
}

static Qnn_ErrorHandle_t log_initialize(QnnLog_Callback_t callback, QnnLog_Level_t level) {
    (void)level; /* a package logs errors only */
    atomic_store(&log_callback, callback);
    return SUCCESS;
}

static Qnn_ErrorHandle_t log_set_level(QnnLog_Level_t level) {
    (void)level;
    return SUCCESS;
}

static Qnn_ErrorHandle_t log_terminate(void) {
    atomic_store(&log_callback, NULL);
    return SUCCESS;
}

Qnn_ErrorHandle_t opdb_package_interface(QnnOpPackage_Interface_t *interface) {
    static const QnnOpPackage_ImplementationV1_4_t FUNCTIONS = {initialize,     terminate,     get_info,
                                                                validate_op,    create_op,     free_op,
                                                                log_initialize, log_set_level, log_terminate};
    if (interface == NULL)
        return INVALID_ARGUMENT;
    memset(interface, 0, sizeof *interface);
    interface->interfaceVersion = (Qnn_Version_t){1, 4, 0};
    interface->u.v1_4 = FUNCTIONS;
    return SUCCESS;
}
