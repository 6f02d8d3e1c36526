/* From an op as a backend sees it to the named, typed arguments that generated code works on. */
#ifndef OPDB_BINDING_H
#define OPDB_BINDING_H

#include <string.h>

#include "opdb/checked.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const char *name;
    bool optional;
    bool variadic;
    int32_t minimum; /* of a variadic slot */
} opdb_slot;

typedef struct {
    const char *name;
    enum opdb_dtype dtype;
    uint32_t rank;   /* 0: a scalar */
    int64_t dims[2]; /* -1: any length */
    bool required;
    int32_t num_values; /* of an enum, else 0 */
    const int64_t *values;
} opdb_param_slot;

typedef struct {
    const char *op; /* ex) "LayerNorm" */
    size_t num_inputs;
    const opdb_slot *inputs;
    size_t num_params;
    const opdb_param_slot *params;
    size_t num_outputs;
    const opdb_slot *outputs;
    /* The ids of the three rules that bind itself judges, ex) "LayerNorm.INPUTS". */
    const char *inputs_rule, *params_rule, *outputs_rule;
} opdb_signature;

/* What "the op definition or backend" asks of number, presence and types of slots and parameters.
 * Adds violations INPUTS, PARAMS, OUTPUTS; true where the arguments can be bound.  `outputs` false
 * leaves the outputs unjudged (shape inference). */
bool opdb_check_signature(const opdb_signature *signature, const opdb_op *op, bool outputs,
                          opdb_report *report);

/* Judges UNKNOWN_PARAMS, which does not prevent binding.  `strength` is OPDB_EXPECT for a backend that
 * ignores them. */
void opdb_check_unknown(const opdb_signature *signature, const opdb_op *op, const char *rule,
                        opdb_strength strength, opdb_report *report);

/* Slot number `i`: NULL where omitted. */
static inline const opdb_tensor *opdb_slot_tensor(const opdb_tensor *const *tensors, size_t count, size_t i) {
    return i < count ? tensors[i] : NULL;
}
/* The tensors of a variadic slot that starts at `from` and leaves `after` tensors to later slots. */
static inline opdb_tensors opdb_slot_tensors(const opdb_tensor *const *tensors, size_t count, size_t from,
                                             size_t after) {
    opdb_tensors many = {0, NULL};
    if (count > from + after) {
        many.n = (int64_t)(count - from - after);
        many.v = tensors + from;
    }
    return many;
}
/* The parameter of this name, or NULL. */
static inline const opdb_param *opdb_find_param(const opdb_op *op, const char *name) {
    for (size_t i = 0; i < op->num_params; ++i)
        if (strcmp(op->params[i].name, name) == 0)
            return &op->params[i];
    return NULL;
}

static inline opdb_ints opdb_param_ints(const opdb_param *param) {
    opdb_ints values = {0, NULL};
    if (param != NULL) {
        values.n = param->count;
        values.v = param->ints;
    }
    return values;
}
static inline opdb_rows opdb_param_rows(const opdb_param *param) {
    opdb_rows rows = {0, 0, NULL};
    if (param != NULL) {
        rows.n = param->dims[0];
        rows.width = param->dims[1];
        rows.v = param->ints;
    }
    return rows;
}
static inline opdb_reals opdb_param_reals(const opdb_param *param) {
    opdb_reals values = {0, NULL};
    if (param != NULL && param->reals != NULL) {
        values.n = param->count;
        values.v = param->reals;
    }
    return values;
}

/* Values that may be absent: reading one clears ok. */
static inline const opdb_tensor *opdb_given(const opdb_tensor *t, bool *ok) {
    if (t != NULL)
        return t;
    *ok = false;
    return &opdb_no_tensor;
}
static inline int64_t opdb_int_if(int64_t value, bool known, bool *ok) {
    *ok = *ok && known;
    return value;
}
static inline double opdb_real_if(double value, bool known, bool *ok) {
    *ok = *ok && known;
    return value;
}
static inline bool opdb_bool_if(bool value, bool known, bool *ok) {
    *ok = *ok && known;
    return value;
}
static inline opdb_ints opdb_ints_if(opdb_ints value, bool known, bool *ok) {
    *ok = *ok && known;
    return value;
}
static inline opdb_rows opdb_rows_if(opdb_rows value, bool known, bool *ok) {
    *ok = *ok && known;
    return value;
}
static inline double opdb_divide(double a, double b, bool *ok) {
    if (b != 0.0)
        return a / b;
    *ok = false;
    return 0.0;
}
/* As Python's min and max: the first where they are equal, or where one is no number. */
static inline double opdb_real_min(double a, double b) { return b < a ? b : a; }
static inline double opdb_real_max(double a, double b) { return b > a ? b : a; }
static inline void opdb_push(opdb_list *list, int64_t value, bool *ok) {
    if (list->n >= OPDB_MAX_LIST) {
        *ok = false;
        return;
    }
    list->v[list->n++] = value;
}

/* Append the value of a loop variable with its place, ex) a = 3 at axes[1], x = xs[1]; and rows. */
void opdb_got_element_of(opdb_violation *v, const char *name, int64_t value, const char *list, int64_t i);
void opdb_got_element(opdb_violation *v, const char *name, const char *list, int64_t i);
void opdb_got_rows(opdb_violation *v, const char *name, opdb_rows value); /* [[0, 1], [2, 3]] */

/* Whether a rule is broken for certain that is no warning. */
bool opdb_refused(const opdb_report *report);
/* Ends a validation: undecidable violations stay only where nothing was decidably broken. */
void opdb_finish(opdb_report *report);

/* The first scale and offset of an encoding; 0 where there is none. */
static inline double opdb_scale(const opdb_tensor *t) {
    return t->quant != NULL && t->quant->n > 0 ? (double)t->quant->scales[0] : 0.0;
}
static inline int64_t opdb_offset(const opdb_tensor *t) {
    return t->quant != NULL && t->quant->n > 0 ? t->quant->offsets[0] : 0;
}
/* Whether two tensors have the same encoding: kind, axis, bits, scales and offsets. */
bool opdb_same_quant(const opdb_tensor *a, const opdb_tensor *b);

/* One row of allowed data types: for each slot (inputs, then outputs) a set of dtypes. */
typedef struct {
    const char *id;               /* ex) "HTP.INT16.3" */
    const enum opdb_dtype *cells; /* num_slots lists, each ended by OPDB_NO_DTYPE */
    int32_t since, until;         /* the first and the last SDK that have it, ex) 2047; 0: no bound */
    size_t need;                  /* what it needs of a chip, by its place in `needs` from 1; 0: nothing */
} opdb_type_row;

/* What rows need of a chip, whether the chip has it, and what is said where it has not. */
typedef struct {
    bool met;
    const char *why;
} opdb_need;

/* Judges TYPES_<backend>: the dtypes of the present tensors must be those of one row that `sdk` has.  The
 * first such row is the op's: the chip must have what it needs. */
void opdb_check_types(const opdb_signature *signature, const opdb_op *op, const char *rule,
                      const char *sentence, const opdb_type_row *rows, size_t num_rows, int64_t sdk,
                      const opdb_need *needs, opdb_report *report);

static inline bool opdb_dtype_in(enum opdb_dtype dtype, const enum opdb_dtype *allowed, size_t count) {
    for (size_t i = 0; i < count; ++i)
        if (allowed[i] == dtype)
            return true;
    return false;
}
void opdb_add_shape(opdb_shapes *shapes, opdb_ints shape, bool *ok);

const char *opdb_dtype_name(enum opdb_dtype dtype);            /* ex) "uq8"; "?" for no dtype of the table */
const char *opdb_encoding_name(opdb_encoding encoding);        /* ex) "SCALE_OFFSET" */
const char *opdb_tensor_type_name(enum opdb_tensor_type type); /* ex) "STATIC" */

/* Appends the values of a tensor, where they are known. */
void opdb_got_values(opdb_violation *v, const char *name, const opdb_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
