/* ONNX Runtime's C API for custom ops, as opdb uses it: own declarations.
 *
 * The API is a table of functions whose order never changes; the numbers are positions in it (ONNX Runtime
 * 1.32, include/onnxruntime/core/session/onnxruntime_c_api.h, MIT).  Version 17 is that of ONNX Runtime 1.17.
 */
#ifndef OPDB_ORT_H
#define OPDB_ORT_H

#include <stddef.h>
#include <stdint.h>

#include "opdb/backends.h" /* generated: opdb_target */
#include "opdb/runtime.h"

enum { OPDB_ORT_API_VERSION = 17 };
enum opdb_ort_function {
    ORT_CREATE_STATUS = 0,
    ORT_CREATE_DOMAIN = 26,
    ORT_DOMAIN_ADD = 27,
    ORT_ADD_DOMAIN = 28,
    ORT_TENSOR_DATA = 51,
    ORT_CREATE_SHAPE = 57,
    ORT_SET_ELEMENT_TYPE = 58,
    ORT_SET_DIMENSIONS = 59,
    ORT_ELEMENT_TYPE = 60,
    ORT_DIMENSIONS_COUNT = 61,
    ORT_DIMENSIONS = 62,
    ORT_TYPE_AND_SHAPE = 65,
    ORT_ATTRIBUTE_FLOAT = 85,
    ORT_ATTRIBUTE_INT = 86,
    ORT_INPUT_COUNT = 88,
    ORT_OUTPUT_COUNT = 89,
    ORT_INPUT = 90,
    ORT_OUTPUT = 91,
    ORT_RELEASE_STATUS = 93,
    ORT_RELEASE_SHAPE = 99,
    ORT_ATTRIBUTE_FLOATS = 162,
    ORT_ATTRIBUTE_INTS = 163,
    ORT_INFER_INPUT_COUNT = 267,
    ORT_INFER_INPUT = 268,
    ORT_INFER_ATTRIBUTE = 269,
    ORT_INFER_OUTPUT = 270,
    ORT_READ_ATTRIBUTE = 272
};
enum { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2 }; /* of a status */
enum { ORT_REQUIRED = 0, ORT_OPTIONAL = 1, ORT_VARIADIC = 2 };
enum { ORT_ATTR_INT = 1, ORT_ATTR_INTS = 2, ORT_ATTR_FLOAT = 3, ORT_ATTR_FLOATS = 4 };

typedef const void *const *opdb_ort_api;
typedef struct {
    opdb_ort_api (*get)(uint32_t version);
    const char *(*version)(void);
} opdb_ort_base;

typedef struct opdb_ort_custom_op {
    uint32_t version;
    void *(*create)(const struct opdb_ort_custom_op *, opdb_ort_api, const void *info);
    const char *(*name)(const struct opdb_ort_custom_op *);
    const char *(*provider)(const struct opdb_ort_custom_op *);
    int (*input_type)(const struct opdb_ort_custom_op *, size_t);
    size_t (*input_count)(const struct opdb_ort_custom_op *);
    int (*output_type)(const struct opdb_ort_custom_op *, size_t);
    size_t (*output_count)(const struct opdb_ort_custom_op *);
    void (*compute)(void *kernel, void *context);
    void (*destroy)(void *kernel);
    int (*input_kind)(const struct opdb_ort_custom_op *, size_t);
    int (*output_kind)(const struct opdb_ort_custom_op *, size_t);
    int (*input_memory)(const struct opdb_ort_custom_op *, size_t);
    int (*variadic_inputs)(const struct opdb_ort_custom_op *);
    int (*inputs_alike)(const struct opdb_ort_custom_op *);
    int (*variadic_outputs)(const struct opdb_ort_custom_op *);
    int (*outputs_alike)(const struct opdb_ort_custom_op *);
    void *(*create_v2)(const struct opdb_ort_custom_op *, opdb_ort_api, const void *info, void **kernel);
    void *(*compute_v2)(void *kernel, void *context);
    void *(*infer)(const struct opdb_ort_custom_op *, void *context);
    int (*since)(const struct opdb_ort_custom_op *);
    int (*until)(const struct opdb_ort_custom_op *);
    void *in_place[4];
} opdb_ort_custom_op;
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(opdb_ort_custom_op) == 208, "OrtCustomOp of API version 17");
#endif

/* -- generated for each package */

typedef struct {
    int kind;    /* ORT_REQUIRED... */
    int minimum; /* of a variadic slot */
} opdb_ort_slot;

typedef struct {
    const char *name;
    enum opdb_dtype dtype;
    uint32_t rank; /* 0: a scalar; 2: rows of `width` values */
    int64_t width;
} opdb_ort_param;

/* An op for one type of each slot: ONNX Runtime chooses among the ops of one name. */
typedef struct {
    const char *name;
    opdb_status (*infer)(const opdb_op *op, opdb_shapes *shapes, opdb_report *report);
    size_t (*scratch)(const opdb_op *op);
    opdb_status (*run)(const opdb_op *op, opdb_report *report);
    size_t num_inputs;
    const opdb_ort_slot *inputs;
    const enum opdb_dtype *input_types;
    size_t num_outputs;
    const opdb_ort_slot *outputs;
    const enum opdb_dtype *output_types;
    size_t num_params;
    const opdb_ort_param *params;
} opdb_ort_op;

typedef struct {
    const char *domain;
    size_t num_ops;
    const opdb_ort_op *ops;
} opdb_ort_package;
extern const opdb_ort_package opdb_this_package;

/* The function that ONNX Runtime calls in the library; returns a status or NULL. */
void *opdb_ort_register(void *options, const opdb_ort_base *base);

#endif
