/* Converts ONNX Runtime's arguments of a custom op to the op that generated validators and shims take. */
#ifndef OPDB_ORT_VALUES_H
#define OPDB_ORT_VALUES_H

#include "op_view.h"
#include "opdb/ort.h"

/* Function `number` of the API, which returns `type`. */
#define CALL(number, type, ...) ((type (*)(__VA_ARGS__))opdb_ort_functions[number])

enum { MAX_TENSORS = 64 };

/* The API that the library was registered with. */
extern opdb_ort_api opdb_ort_functions;

/* The source of attributes: a kernel being created, or the context of shape inference; the other is NULL. */
typedef struct {
    const void *info;
    const void *infer;
} opdb_ort_attributes;

/* True if a call succeeded; releases its status. */
bool opdb_ort_well(void *status);

/* ONNX's number of a data type; 0 for one that it does not have. */
int opdb_ort_type(enum opdb_dtype dtype);

/* A view with room for this many tensors, and with all given attributes. An empty list counts as not given.
 * False if there is no memory; free the view in any case. */
bool opdb_ort_open_view(const opdb_ort_attributes *from, const opdb_ort_op *op, size_t inputs, size_t outputs,
                        opdb_op_view *view);

/* Tensor `i` without data; false if not all of its dims are known, or there are too many. */
bool opdb_ort_read_shape(void *info, opdb_op_view *view, size_t i, enum opdb_dtype dtype);

#endif
