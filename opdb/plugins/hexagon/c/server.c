/* The ops of a library as a server.  It is compiled for x86-64 too: the same calls, to compare the bits.
 *
 * A call (frames.h): the request, a target, and an op as `op_of` and `tensor_of` read it.  An answer: status,
 * bytes of scratch, violations, violations that were left out, packets, instructions, HVX instructions; then,
 * for RUN, each output (bytes, block), for INFER, the shapes (their number; rank and dims of each); then the
 * violations. */
#include "counters.h"
#include "frames.h"
#include "opdb/ops.h"

enum { VALIDATE, INFER, SCRATCH, RUN };

static const opdb_quant *quant_of(void) {
    opdb_quant *q = taken(sizeof *q);
    q->n = word();
    q->bits = (uint32_t)word();
    q->scales = block((size_t)q->n * sizeof(float));
    q->offsets = block((size_t)q->n * sizeof(int32_t));
    return q;
}

static const opdb_ints *ints_of(void) {
    opdb_ints *ints = taken(sizeof *ints);
    ints->n = word();
    ints->v = block((size_t)ints->n * sizeof(int64_t));
    return ints;
}

/* `bytes`: size of its data. NULL for a tensor that was left out. A word is 1 if the data follow, 2 for
 * memory to be written. */
static const opdb_tensor *tensor_of(size_t *bytes) {
    if (word() == 0)
        return NULL;
    opdb_tensor *t = taken(sizeof *t);
    t->rank = (uint32_t)word();
    t->dims = block(t->rank * sizeof(int64_t));
    t->dtype = (enum opdb_dtype)word();
    t->encoding = (opdb_encoding)word();
    t->symmetric = word() != 0;
    t->type = (enum opdb_tensor_type)word();
    t->is_sparse = word() != 0;
    t->axis = (int32_t)word();
    t->quant = word() != 0 ? quant_of() : NULL;
    t->values = word() != 0 ? ints_of() : NULL;
    const int64_t data = word();
    *bytes = data != 0 ? (size_t)word() : 0;
    t->data = data == 1 ? (void *)data_block(*bytes) : data == 2 ? taken(*bytes) : NULL;
    if (data == 2)
        memset(t->data, 0xa5, *bytes);
    return t;
}

static const opdb_tensor *const *tensors_of(size_t count, size_t *bytes) {
    const opdb_tensor **tensors = taken((count + 1) * sizeof *tensors);
    for (size_t i = 0; i < count; i++)
        tensors[i] = tensor_of(&bytes[i]);
    return tensors;
}

static const opdb_param *params_of(size_t count) {
    opdb_param *params = taken((count + 1) * sizeof *params);
    for (opdb_param *p = params; p < params + count; p++) {
        p->name = block((size_t)word());
        p->dtype = (enum opdb_dtype)word();
        p->rank = (uint32_t)word();
        p->dims = block(p->rank * sizeof(int64_t));
        p->count = word();
        p->real = *(const double *)block(sizeof(double));
        p->ints = word() != 0 ? block((size_t)p->count * sizeof(int64_t)) : NULL;
        p->reals = word() != 0 ? block((size_t)p->count * sizeof(double)) : NULL;
    }
    return params;
}

static opdb_op op_of(size_t **output_bytes) {
    opdb_op op = {.op = block((size_t)word())};
    op.num_inputs = (size_t)word();
    op.num_outputs = (size_t)word();
    op.num_params = (size_t)word();
    op.inputs = tensors_of(op.num_inputs, taken((op.num_inputs + 1) * sizeof(size_t)));
    *output_bytes = taken((op.num_outputs + 1) * sizeof(size_t));
    op.outputs = tensors_of(op.num_outputs, *output_bytes);
    op.params = params_of(op.num_params);
    return op;
}

static opdb_report report;
static opdb_shapes shapes;

static void put_violations(void) {
    for (const opdb_violation *v = report.v; v < report.v + report.n; v++) {
        put_word(v->undecidable);
        put_word(v->strength);
        put_text(v->rule);
        put_text(v->sentence);
        put_text(v->got);
        put_text(v->why);
        put_text(v->erratum);
        put_text(v->effect);
    }
}

static void put_shapes(void) {
    put_word((int64_t)shapes.n);
    for (size_t i = 0; i < shapes.n; i++) {
        put_word(shapes.v[i].rank);
        put(shapes.v[i].dims, shapes.v[i].rank * sizeof(int64_t));
    }
}

/* Runs the op in scratch of its size; OPDB_TOO_SMALL if there is not enough memory. `counted`: what it
 * executes apart from its validator, which runs once more to subtract it. */
static opdb_status run(const opdb_entry *entry, opdb_op *op, opdb_counters *counted) {
    static const opdb_target any = {.backend = OPDB_BACKEND_NONE};
    op->scratch_size = entry->scratch(op);
    op->scratch = op->scratch_size > 0 ? room(op->scratch_size) : NULL;
    if (op->scratch_size > 0 && op->scratch == NULL)
        op->scratch_size = 0;
    const opdb_counters begin = opdb_count();
    entry->validate(op, &any, &report);
    report.n = report.dropped = 0;
    const opdb_counters validated = opdb_count();
    const opdb_status status = entry->run(op, &report);
    if (status == OPDB_OK)
        *counted = opdb_counted(opdb_counted(begin, validated), opdb_counted(validated, opdb_count()));
    return status;
}

static void answer(void) {
    const int64_t kind = word();
    opdb_target target = {0};
    target.backend = (int32_t)word();
    target.sdk = (int32_t)word();
    target.arch = (int32_t)word();
    target.soc_model = (int32_t)word();
    target.has_fp16 = (int32_t)word();
    target.has_bf16 = (int32_t)word();
    size_t *bytes;
    opdb_op op = op_of(&bytes);
    const opdb_entry *entry = opdb_find(op.op);
    opdb_counters counted = {0, 0, 0};
    opdb_status status = entry == NULL ? OPDB_UNKNOWN_OP : OPDB_OK;
    size_t scratch = 0;
    report.n = report.dropped = shapes.n = 0;
    if (entry != NULL && kind == VALIDATE)
        entry->validate(&op, &target, &report);
    else if (entry != NULL && kind == INFER)
        status = entry->infer(&op, &shapes, &report);
    else if (entry != NULL && kind == SCRATCH)
        scratch = entry->scratch(&op);
    else if (entry != NULL)
        status = run(entry, &op, &counted);
    put_word(status);
    put_word((int64_t)scratch);
    put_word((int64_t)report.n);
    put_word((int64_t)report.dropped);
    put_word(counted.packets);
    put_word(counted.instructions);
    put_word(counted.vector);
    for (size_t i = 0; kind == RUN && i < op.num_outputs; i++) {
        put_word((int64_t)bytes[i]);
        if (bytes[i] > 0)
            put(op.outputs[i]->data, bytes[i]);
    }
    if (kind == INFER)
        put_shapes();
    put_violations();
    flush();
}

int main(void) {
    while (next_call())
        answer();
    return 0;
}
