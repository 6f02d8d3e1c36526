/* From an op as a backend sees it to named arguments; see opdb/binding.h.  The Python side is binding.py. */
#include "opdb/binding.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const GIVEN[] = {"every required input must be given",
                                    "every required output must be given"};
static const char *const NUMBER[] = {"the number of inputs must be that of the definition",
                                     "the number of outputs must be that of the definition"};

static const struct {
    enum opdb_dtype dtype;
    const char *name;
} DTYPES[] = {
#define OPDB_DTYPE_NAME(enumerator, name) {enumerator, name},
    OPDB_EACH_DTYPE(OPDB_DTYPE_NAME)
#undef OPDB_DTYPE_NAME
};

const char *opdb_dtype_name(enum opdb_dtype dtype) {
    for (size_t i = 0; i < sizeof DTYPES / sizeof DTYPES[0]; ++i)
        if (DTYPES[i].dtype == dtype)
            return DTYPES[i].name;
    return "?";
}

const char *opdb_encoding_name(opdb_encoding encoding) {
    static const char *const NAMES[] = {
        "SCALE_OFFSET", "AXIS_SCALE_OFFSET",   "BW_SCALE_OFFSET", "BW_AXIS_SCALE_OFFSET",
        "BLOCK",        "BLOCKWISE_EXPANSION", "VECTOR"};
    if (encoding == OPDB_ENCODING_NONE)
        return "NONE";
    return (size_t)encoding < sizeof NAMES / sizeof NAMES[0] ? NAMES[encoding] : "?";
}

const char *opdb_tensor_type_name(enum opdb_tensor_type type) {
    static const char *const NAMES[] = {"APP_WRITE", "APP_READ", "APP_READWRITE", "NATIVE", "STATIC"};
    return (size_t)type < sizeof NAMES / sizeof NAMES[0] ? NAMES[type] : "?";
}

void opdb_got_values(opdb_violation *v, const char *name, const opdb_tensor *tensor) {
    if (tensor->values != NULL)
        opdb_got_ints(v, name, *tensor->values);
}

/* Adds a violation of a rule that has no reason besides its sentence. */
static opdb_violation *refuse(opdb_report *report, const char *rule, const char *sentence) {
    return opdb_broken(report, rule, sentence, "", false, OPDB_REQUIRE);
}

static void check_slots(const opdb_slot *slots, size_t num_slots, const opdb_tensor *const *tensors,
                        size_t count, const char *rule, int group, opdb_report *report) {
    static const char *const GROUP[] = {"inputs", "outputs"};
    bool variadic = false;
    for (size_t i = 0; i < num_slots; ++i)
        variadic = variadic || slots[i].variadic;
    if (count > num_slots && !variadic) {
        opdb_got_int(refuse(report, rule, NUMBER[group]), GROUP[group], (int64_t)count);
        return;
    }
    size_t position = 0;
    for (size_t i = 0; i < num_slots; ++i) {
        if (!slots[i].variadic) {
            if (opdb_slot_tensor(tensors, count, position) == NULL && !slots[i].optional)
                opdb_got_name(refuse(report, rule, GIVEN[group]), slots[i].name, "omitted");
            ++position;
            continue;
        }
        const opdb_tensors many = opdb_slot_tensors(tensors, count, position, num_slots - i - 1);
        bool omitted = false;
        for (int64_t k = 0; k < many.n; ++k)
            omitted = omitted || many.v[k] == NULL;
        if (omitted)
            opdb_got_name(refuse(report, rule, GIVEN[group]), slots[i].name, "omitted");
        else if (many.n < slots[i].minimum)
            opdb_got_int(
                refuse(report, rule, "a variadic slot must have at least its smallest number of tensors"),
                slots[i].name, many.n);
        position += (size_t)many.n;
    }
}

static void check_param(const opdb_param *param, const opdb_param_slot *slot, const char *rule,
                        opdb_report *report) {
    if (param == NULL) {
        if (slot->required)
            opdb_got_name(refuse(report, rule, "every required parameter must be given"), slot->name,
                          "omitted");
        return;
    }
    if (param->dtype != slot->dtype) {
        opdb_got_name(refuse(report, rule, "every parameter must have the data type of the definition"),
                      slot->name, opdb_dtype_name(param->dtype));
        return;
    }
    bool fits = param->rank == slot->rank;
    for (uint32_t d = 0; fits && d < slot->rank; ++d)
        fits = slot->dims[d] < 0 || slot->dims[d] == param->dims[d];
    if (!fits) {
        char name[80];
        snprintf(name, sizeof name, "%.60s.shape", slot->name);
        const opdb_ints shape = {param->rank, param->dims};
        opdb_got_ints(refuse(report, rule, "every parameter must have the shape of the definition"), name,
                      shape);
        return;
    }
    if (slot->num_values == 0)
        return;
    const opdb_ints allowed = {slot->num_values, slot->values};
    if (!opdb_contains(allowed, param->ints[0]))
        opdb_got_int(refuse(report, rule, "every enum parameter must have a value of its enum"), slot->name,
                     param->ints[0]);
}

static bool is_param(const opdb_signature *signature, const char *name) {
    for (size_t i = 0; i < signature->num_params; ++i)
        if (strcmp(signature->params[i].name, name) == 0)
            return true;
    return false;
}

void opdb_check_unknown(const opdb_signature *signature, const opdb_op *op, const char *rule,
                        opdb_strength strength, opdb_report *report) {
    for (size_t i = 0; i < op->num_params; ++i)
        if (!is_param(signature, op->params[i].name))
            opdb_got_name(opdb_broken(report, rule, "every parameter must be one of the definition", "",
                                      false, strength),
                          op->params[i].name, "unknown");
}

static void check_params(const opdb_signature *signature, const opdb_op *op, opdb_report *report) {
    for (size_t i = 0; i < op->num_params; ++i) {
        bool twice = false;
        for (size_t k = 0; k < i; ++k)
            twice = twice || strcmp(op->params[k].name, op->params[i].name) == 0;
        if (twice && is_param(signature, op->params[i].name))
            opdb_got_name(refuse(report, signature->params_rule, "every parameter must be given once"),
                          op->params[i].name, "given twice");
    }
    for (size_t k = 0; k < signature->num_params; ++k)
        check_param(opdb_find_param(op, signature->params[k].name), &signature->params[k],
                    signature->params_rule, report);
}

bool opdb_check_signature(const opdb_signature *signature, const opdb_op *op, bool outputs,
                          opdb_report *report) {
    const size_t before = report->n + report->dropped;
    check_slots(signature->inputs, signature->num_inputs, op->inputs, op->num_inputs, signature->inputs_rule,
                0, report);
    check_params(signature, op, report);
    if (outputs)
        check_slots(signature->outputs, signature->num_outputs, op->outputs, op->num_outputs,
                    signature->outputs_rule, 1, report);
    return report->n + report->dropped == before;
}

void opdb_got_element_of(opdb_violation *v, const char *name, int64_t value, const char *list, int64_t i) {
    char text[OPDB_MAX_GOT];
    snprintf(text, sizeof text, "%" PRId64 " at %s[%" PRId64 "]", value, list, i);
    opdb_got_name(v, name, text);
}

void opdb_got_element(opdb_violation *v, const char *name, const char *list, int64_t i) {
    char text[OPDB_MAX_GOT];
    snprintf(text, sizeof text, "%s[%" PRId64 "]", list, i);
    opdb_got_name(v, name, text);
}

void opdb_got_rows(opdb_violation *v, const char *name, opdb_rows value) {
    char text[OPDB_MAX_GOT] = "[";
    size_t used = 1;
    for (int64_t r = 0; value.width == 0 && r < value.n && used < sizeof text; ++r)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s[]", r > 0 ? ", " : "");
    for (int64_t r = 0; r < value.n; ++r)
        for (int64_t c = 0; c < value.width && used < sizeof text; ++c)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64 "%s",
                                     c > 0   ? ", "
                                     : r > 0 ? ", ["
                                             : "[",
                                     value.v[r * value.width + c], c + 1 == value.width ? "]" : "");
    if (used < sizeof text)
        snprintf(text + used, sizeof text - used, "]");
    opdb_got_name(v, name, text);
}

bool opdb_refused(const opdb_report *report) {
    for (size_t i = 0; i < report->n; ++i)
        if (!report->v[i].undecidable && report->v[i].strength == OPDB_REQUIRE)
            return true;
    return false;
}

void opdb_finish(opdb_report *report) {
    if (!opdb_refused(report))
        return;
    size_t kept = 0;
    for (size_t i = 0; i < report->n; ++i)
        if (!report->v[i].undecidable)
            report->v[kept++] = report->v[i];
    report->n = kept;
}

static bool in_cell(const enum opdb_dtype *cell, enum opdb_dtype dtype) {
    for (; (int)*cell != OPDB_NO_DTYPE; ++cell)
        if (*cell == dtype)
            return true;
    return false;
}

/* The tensors of slot number `slot`, inputs first. */
static opdb_tensors tensors_of(const opdb_signature *signature, const opdb_op *op, size_t slot) {
    const bool output = slot >= signature->num_inputs;
    const opdb_slot *slots = output ? signature->outputs : signature->inputs;
    const size_t num_slots = output ? signature->num_outputs : signature->num_inputs;
    const opdb_tensor *const *tensors = output ? op->outputs : op->inputs;
    const size_t count = output ? op->num_outputs : op->num_inputs;
    const size_t wanted = output ? slot - signature->num_inputs : slot;
    size_t position = 0;
    for (size_t i = 0; i < wanted; ++i)
        position +=
            slots[i].variadic ? (size_t)opdb_slot_tensors(tensors, count, position, num_slots - i - 1).n : 1;
    if (slots[wanted].variadic)
        return opdb_slot_tensors(tensors, count, position, num_slots - wanted - 1);
    opdb_tensors one = {0, NULL};
    if (opdb_slot_tensor(tensors, count, position) != NULL) {
        one.n = 1;
        one.v = tensors + position;
    }
    return one;
}

static bool row_fits(const opdb_signature *signature, const opdb_op *op, const opdb_type_row *row) {
    const enum opdb_dtype *cell = row->cells;
    for (size_t slot = 0; slot < signature->num_inputs + signature->num_outputs; ++slot) {
        const opdb_tensors found = tensors_of(signature, op, slot);
        for (int64_t i = 0; i < found.n; ++i)
            if (!in_cell(cell, found.v[i]->dtype))
                return false;
        while ((int)*cell != OPDB_NO_DTYPE)
            ++cell;
        ++cell;
    }
    return true;
}

/* ex) xs = f32 where all are alike, xs = [f32, f16] otherwise. */
static void got_dtypes(opdb_violation *v, const char *name, opdb_tensors found) {
    char text[OPDB_MAX_GOT];
    bool alike = true;
    for (int64_t i = 1; i < found.n; ++i)
        alike = alike && found.v[i]->dtype == found.v[0]->dtype;
    if (alike) {
        if (found.n > 0)
            opdb_got_name(v, name, opdb_dtype_name(found.v[0]->dtype));
        return;
    }
    size_t used = 0;
    for (int64_t i = 0; i < found.n && used < sizeof text; ++i)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i == 0 ? "[" : ", ",
                                 opdb_dtype_name(found.v[i]->dtype));
    if (used < sizeof text)
        snprintf(text + used, sizeof text - used, "]");
    opdb_got_name(v, name, text);
}

bool opdb_same_quant(const opdb_tensor *a, const opdb_tensor *b) {
    if (a->encoding != b->encoding || a->axis != b->axis || (a->quant == NULL) != (b->quant == NULL))
        return false;
    if (a->quant == NULL)
        return true;
    if (a->quant->n != b->quant->n || a->quant->bits != b->quant->bits)
        return false;
    for (int64_t i = 0; i < a->quant->n; ++i)
        if (a->quant->scales[i] != b->quant->scales[i] || a->quant->offsets[i] != b->quant->offsets[i])
            return false;
    return true;
}

void opdb_check_types(const opdb_signature *signature, const opdb_op *op, const char *rule,
                      const char *sentence, const opdb_type_row *rows, size_t num_rows, int64_t sdk,
                      const opdb_need *needs, opdb_report *report) {
    for (size_t i = 0; i < num_rows; ++i)
        if (rows[i].since <= sdk && (rows[i].until == 0 || sdk <= rows[i].until) &&
            row_fits(signature, op, &rows[i])) {
            if (rows[i].need == 0 || needs[rows[i].need - 1].met)
                return;
            sentence = needs[rows[i].need - 1].why;
            break;
        }
    opdb_violation *v = refuse(report, rule, sentence);
    for (size_t slot = 0; slot < signature->num_inputs + signature->num_outputs; ++slot) {
        const bool output = slot >= signature->num_inputs;
        const char *name =
            output ? signature->outputs[slot - signature->num_inputs].name : signature->inputs[slot].name;
        got_dtypes(v, name, tensors_of(signature, op, slot));
    }
}

void opdb_add_shape(opdb_shapes *shapes, opdb_ints shape, bool *ok) {
    if (shapes->n >= OPDB_MAX_OUTPUTS || shape.n > OPDB_MAX_RANK) {
        *ok = false;
        return;
    }
    opdb_shape_value *out = &shapes->v[shapes->n++];
    out->rank = (uint32_t)shape.n;
    for (int64_t i = 0; i < shape.n; ++i) {
        if (shape.v[i] < 0 || shape.v[i] > INT32_MAX)
            *ok = false;
        out->dims[i] = shape.v[i];
    }
}
