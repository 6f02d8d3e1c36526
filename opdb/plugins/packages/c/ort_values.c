/* See ort_values.h. */
#include "ort_values.h"

#include <stdlib.h>
#include <string.h>

opdb_ort_api opdb_ort_functions;

bool opdb_ort_well(void *status) {
    if (status != NULL)
        CALL(ORT_RELEASE_STATUS, void, void *)(status);
    return status == NULL;
}

int opdb_ort_type(enum opdb_dtype dtype) {
    switch ((int)dtype) {
    case OPDB_F32:
        return 1;
    case OPDB_U8:
        return 2;
    case OPDB_I8:
        return 3;
    case OPDB_U16:
        return 4;
    case OPDB_I16:
        return 5;
    case OPDB_I32:
        return 6;
    case OPDB_I64:
        return 7;
    case OPDB_BOOL8:
        return 9;
    case OPDB_F16:
        return 10;
    case OPDB_F64:
        return 11;
    case OPDB_U32:
        return 12;
    case OPDB_U64:
        return 13;
    case OPDB_BF16:
        return 16;
    default:
        return 0;
    }
}

/* The values of an attribute, or their number if `out` is NULL; 0 if it is not given. */
static size_t read_attribute(const opdb_ort_attributes *from, const opdb_ort_param *param, void *out,
                             size_t room) {
    const bool real = param->dtype == OPDB_F32 || param->dtype == OPDB_F64;
    size_t count = room;
    if (from->info != NULL) {
        if (param->rank > 0)
            return opdb_ort_well(CALL(real ? ORT_ATTRIBUTE_FLOATS : ORT_ATTRIBUTE_INTS, void *, const void *,
                                      const char *, void *, size_t *)(from->info, param->name, out, &count))
                       ? count
                       : 0;
        int64_t spare;
        return opdb_ort_well(CALL(real ? ORT_ATTRIBUTE_FLOAT : ORT_ATTRIBUTE_INT, void *, const void *,
                                  const char *, void *)(from->info, param->name, out == NULL ? &spare : out));
    }
    const void *attribute = NULL;
    if (!opdb_ort_well(CALL(ORT_INFER_ATTRIBUTE, void *, const void *, const char *,
                            const void **)(from->infer, param->name, &attribute)) ||
        attribute == NULL)
        return 0;
    const int kind = param->rank > 0 ? (real ? ORT_ATTR_FLOATS : ORT_ATTR_INTS)
                     : real          ? ORT_ATTR_FLOAT
                                     : ORT_ATTR_INT;
    const size_t size = real ? sizeof(float) : sizeof(int64_t);
    size_t bytes = 0;
    int64_t spare;
    const bool read = opdb_ort_well(CALL(ORT_READ_ATTRIBUTE, void *, const void *, int, void *, size_t,
                                         size_t *)(attribute, kind, out == NULL ? (void *)&spare : out,
                                                   out == NULL ? sizeof spare : room * size, &bytes));
    return read || bytes > 0 ? bytes / size : 0;
}

/* The given parameters, in the memory of `view`; false if there is none. */
static bool read_params(const opdb_ort_attributes *from, const opdb_ort_op *op, opdb_op_view *view,
                        const size_t *counts) {
    size_t at = 0, given = 0;
    for (size_t i = 0; i < op->num_params; i++) {
        const opdb_ort_param *in = &op->params[i];
        opdb_param *out = &view->params[given];
        const size_t n = counts[i];
        if (n == 0)
            continue;
        const bool real = in->dtype == OPDB_F32 || in->dtype == OPDB_F64;
        float *floats = real ? calloc(n, sizeof *floats) : NULL;
        if (real && floats == NULL)
            return false;
        (void)read_attribute(from, in, real ? (void *)floats : (void *)&view->ints[at], n);
        for (size_t k = 0; real && k < n; k++)
            view->reals[at + k] = (double)floats[k];
        out->real = real ? view->reals[at] : 0.0;
        free(floats);
        out->name = in->name;
        out->dtype = in->dtype;
        out->rank = in->rank;
        out->dims = view->shapes[given];
        view->shapes[given][0] = in->rank == 2 ? (int64_t)n / in->width : (int64_t)n;
        view->shapes[given][1] = in->width;
        out->count = (int64_t)n;
        out->ints = &view->ints[at];
        out->reals = real && in->rank > 0 ? &view->reals[at] : NULL;
        at += n;
        given++;
    }
    view->op.num_params = given;
    return true;
}

bool opdb_ort_open_view(const opdb_ort_attributes *from, const opdb_ort_op *op, size_t inputs, size_t outputs,
                        opdb_op_view *view) {
    size_t counts[MAX_TENSORS], values = 0;
    memset(view, 0, sizeof *view);
    if (op->num_params > MAX_TENSORS)
        return false;
    for (size_t i = 0; i < op->num_params; i++) {
        counts[i] = read_attribute(from, &op->params[i], NULL, 0);
        values += counts[i];
    }
    return opdb_op_view_new(view, op->name, inputs, outputs, op->num_params, values) &&
           read_params(from, op, view, counts);
}

bool opdb_ort_read_shape(void *info, opdb_op_view *view, size_t i, enum opdb_dtype dtype) {
    opdb_tensor *out = &view->tensors[i];
    size_t rank = 0;
    if (!opdb_ort_well(CALL(ORT_DIMENSIONS_COUNT, void *, const void *, size_t *)(info, &rank)) ||
        rank > OPDB_MAX_RANK ||
        !opdb_ort_well(
            CALL(ORT_DIMENSIONS, void *, const void *, int64_t *, size_t)(info, view->dims[i], rank)))
        return false;
    for (size_t d = 0; d < rank; d++)
        if (view->dims[i][d] < 0)
            return false;
    out->rank = (uint32_t)rank;
    out->dims = view->dims[i];
    out->dtype = dtype;
    out->encoding = OPDB_ENCODING_NONE;
    out->symmetric = true;
    out->type = OPDB_TENSOR_NATIVE;
    out->axis = -1;
    view->slots[i] = out;
    return true;
}
