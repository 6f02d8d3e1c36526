#include "in_floats.h"

#include "opdb/checked.h"

#ifdef OPDB_SMALL_STACK
enum { TENSORS = 20, ALIGNMENT = 16 };
#else
enum { TENSORS = 64, ALIGNMENT = 16 };
#endif

static bool is_converted(const opdb_tensor *t) {
    return t != NULL && t->dtype != OPDB_F32 && opdb_kind_of(t) == OPDB_REAL;
}

static size_t bytes_of(const opdb_tensor *t) {
    bool ok = true;
    const int64_t bytes = opdb_mul(opdb_prod(opdb_shape(t), &ok), sizeof(float), &ok);
    return opdb_bytes(opdb_add(bytes, ALIGNMENT - 1, &ok) / ALIGNMENT * ALIGNMENT, ok);
}

size_t opdb_size_in_floats(const opdb_op *op) {
    size_t bytes = 0;
    for (size_t i = 0; i < op->num_inputs; i++)
        bytes = opdb_bytes_of_both(bytes, is_converted(op->inputs[i]) ? bytes_of(op->inputs[i]) : 0);
    for (size_t i = 0; i < op->num_outputs; i++)
        bytes = opdb_bytes_of_both(bytes, is_converted(op->outputs[i]) ? bytes_of(op->outputs[i]) : 0);
    return bytes;
}

/* Takes a tensor of f32 from the scratch of `op`. */
static opdb_tensor floats_of(const opdb_tensor *t, opdb_op *op) {
    opdb_tensor floats = *t;
    floats.dtype = OPDB_F32;
    floats.encoding = OPDB_ENCODING_NONE;
    floats.quant = NULL;
    floats.data = op->scratch;
    op->scratch = (char *)op->scratch + bytes_of(t);
    op->scratch_size -= bytes_of(t);
    return floats;
}

opdb_status opdb_run_in_floats(const opdb_op *op, opdb_status (*compute)(const opdb_op *op)) {
    const opdb_tensor *slots[TENSORS];
    opdb_tensor floats[TENSORS];
    if (op->num_inputs + op->num_outputs > TENSORS)
        return OPDB_UNSUPPORTED;
    if (!opdb_has_scratch(op, opdb_size_in_floats(op)))
        return OPDB_TOO_SMALL;
    opdb_op inner = *op;
    inner.inputs = slots;
    inner.outputs = slots + op->num_inputs;
    for (size_t i = 0; i < op->num_inputs + op->num_outputs; i++) {
        bool input = i < op->num_inputs;
        slots[i] = input ? op->inputs[i] : op->outputs[i - op->num_inputs];
        if (!is_converted(slots[i]))
            continue;
        floats[i] = floats_of(slots[i], &inner);
        if (input)
            opdb_read(slots[i], 0, 1, size_of(slots[i]), OPDB_REAL, floats[i].data);
        slots[i] = &floats[i];
    }
    opdb_status status = compute(&inner);
    for (size_t i = 0; status == OPDB_OK && i < op->num_outputs; i++)
        if (is_converted(op->outputs[i]))
            opdb_write(op->outputs[i], 0, size_of(op->outputs[i]), OPDB_REAL, inner.outputs[i]->data);
    return status;
}
