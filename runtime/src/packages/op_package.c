/* See opdb/op_package.h: the log, validateOpConfig and what else is the same for each backend. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "package.h"

/* -- the log */

static _Atomic(QnnLog_Callback_t) log_callback = NULL;

/* Logs at level error; to standard error where nobody gave a callback. */
void opdb_package_complain(const char *format, ...) {
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

void opdb_package_complain_of(const opdb_report *report) {
    char text[2048];
    for (size_t i = 0; i < report->n; i++)
        if (report->v[i].strength == OPDB_REQUIRE) {
            opdb_violation_text(&report->v[i], text, sizeof text);
            opdb_package_complain("%s", text);
        }
}

/* -- the functions of the interface */

const opdb_package_op *opdb_package_find(const char *type) {
    for (uint32_t i = 0; type != NULL && i < opdb_this_package.info.numOperations; i++)
        if (strcmp(opdb_this_package.ops[i].name, type) == 0)
            return &opdb_this_package.ops[i];
    opdb_package_complain("%s: the op package %s has no such op", type == NULL ? "?" : type,
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

/* Whether a list that OPDB_NO_DTYPE ends has this type. */
static bool has(const enum opdb_dtype *list, enum opdb_dtype dtype) {
    while (*list != OPDB_NO_DTYPE && *list != dtype)
        list++;
    return *list != OPDB_NO_DTYPE;
}

static void complain_of_type(const opdb_package_op *op, enum opdb_dtype dtype) {
    char shown[256] = "";
    for (const enum opdb_dtype *d = opdb_this_package.shown; *d != OPDB_NO_DTYPE; d++)
        snprintf(shown + strlen(shown), sizeof shown - strlen(shown), "%s%s", shown[0] != '\0' ? ", " : "",
                 opdb_dtype_name(*d));
    opdb_package_complain("%s: QNN's %s backend shows op packages no tensors of type %s; it shows %s",
                          op->name, opdb_this_backend.name, opdb_dtype_name(dtype), shown);
}

/* What the rules of an op do not say: tensors that the backend hides, and kernels that are not there.  Logs
 * the reason and returns false. */
static bool can_run(const opdb_package_op *op, const opdb_op_view *view) {
    for (size_t i = 0; i < view->op.num_inputs + view->op.num_outputs; i++) {
        const opdb_tensor *t = view->slots[i];
        if (t != NULL && !has(opdb_this_package.shown, t->dtype)) {
            complain_of_type(op, t->dtype);
            return false;
        }
    }
    const opdb_tensor *first = view->op.num_inputs > 0 ? view->slots[0] : NULL;
    if (first != NULL && !has(op->kernel, first->dtype)) {
        opdb_package_complain("%s: there is no kernel for a first input of type %s", op->name,
                              opdb_dtype_name(first->dtype));
        return false;
    }
    return true;
}

static Qnn_ErrorHandle_t validate_op(Qnn_OpConfig_t config) {
    const opdb_package_op *op =
        config.version == QNN_OPCONFIG_VERSION_1 ? opdb_package_find(config.u.v1.typeName) : NULL;
    if (op == NULL)
        return REFUSED;
    opdb_op_view view;
    opdb_report report;
    report.n = report.dropped = 0;
    const char *why = opdb_op_view_config(&view, &config.u.v1);
    if (why != NULL)
        opdb_package_complain("%s: %s", op->name, why);
    else
        op->validate(&view.op, &op->target, &report);
    opdb_package_complain_of(&report);
    bool refused = why != NULL || opdb_is_broken(&report) || !can_run(op, &view);
    if (!refused && opdb_this_backend.accepted != NULL) {
        why = opdb_this_backend.accepted(op, &view.op);
        if (why != NULL)
            opdb_package_complain("%s: %s", op->name, why);
        refused = why != NULL;
    }
    opdb_op_view_free(&view);
    return refused ? REFUSED : SUCCESS;
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
    if (interface == NULL)
        return INVALID_ARGUMENT;
    memset(interface, 0, sizeof *interface);
    interface->interfaceVersion = (Qnn_Version_t){1, 4, 0};
    interface->u.v1_4 = (QnnOpPackage_ImplementationV1_4_t){initialize,
                                                            terminate,
                                                            get_info,
                                                            validate_op,
                                                            opdb_this_backend.create,
                                                            opdb_this_backend.free,
                                                            log_initialize,
                                                            log_set_level,
                                                            log_terminate};
    return SUCCESS;
}
