/* What the files of an op package share: the log, and what QNN hands to it as the ops of generated code. */
#ifndef OPDB_PACKAGE_H
#define OPDB_PACKAGE_H

#include "op_view.h"
#include "opdb/binding.h"
#include "opdb/op_package.h"

/* QNN_OP_PACKAGE_ERROR_*; an accepted op is QNN_SUCCESS. */
enum { SUCCESS = 0, GENERAL = 1100, INVALID_INFO = 3101, REFUSED = 3110, INVALID_ARGUMENT = 3200 };

/* What differs between the backends of QNN; cpu_package.c or htp_package.c defines it. */
typedef struct {
    const char *name; /* e.g. "CPU" */
    /* Told of each op config that the rules accept; returns why it is refused all the same, or NULL. */
    const char *(*accepted)(const opdb_package_op *op, const opdb_op *config);
    QnnOpPackage_CreateOpImplFn_t create;
    QnnOpPackage_FreeOpImplFn_t free;
} opdb_package_backend;
extern const opdb_package_backend opdb_this_backend;

/* Logs at level error; to standard error where nobody gave a callback. */
void opdb_package_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
void opdb_package_complain_of(const opdb_report *report);
/* The op of this name; NULL, and logged, where the package has none. */
const opdb_package_op *opdb_package_find(const char *type);

/* -- views; a function that returns text says why it cannot take something, or NULL */

/* The encoding of tensor `i`, whose dtype is set. */
const char *opdb_op_view_encoding(opdb_op_view *view, size_t i, const Qnn_QuantizeParams_t *in);
/* Tensor parameter `i`, its values in `view->ints` at `from`. */
const char *opdb_op_view_list(opdb_op_view *view, size_t i, size_t from, enum opdb_dtype dtype,
                              const uint32_t *dims, uint32_t rank, const void *data);
const char *opdb_op_view_config(opdb_op_view *view, const Qnn_OpConfigV1_t *in);
/* The number of elements; 0 where there are more than fit. */
size_t opdb_count_of(const uint32_t *dims, uint32_t rank);

#endif
