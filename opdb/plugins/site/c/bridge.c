/* The validator of one op for a page: a config as 64-bit words in, broken rules or shapes as text out.
 *
 * OPDB_WEB_OP is the op, e.g. Softmax.  opdb/author/site/assets/verdict.js writes the words, in the order in
 * which they are read here; an integer is one word, a real number the word of its double, a text its length
 * and its bytes padded to words. */
#include <string.h>

#include "opdb/ops.h"

#define PASTE(a, b) a##b
#define NAMED(a, b) PASTE(a, b)
#define EXPORTED(name) __attribute__((export_name(name)))

enum { PAGE = 65536, FIELD = 0x1f, RECORD = 0x1e };

extern char __heap_base;

/* Memory of one call: from the end of the words on; the next call begins anew. */
static char *next_free;

/* Makes the memory up to `end` usable. */
static void reserve(const char *end) {
    const size_t there = __builtin_wasm_memory_size(0) * PAGE, bytes = (size_t)end;
    if (bytes > there && __builtin_wasm_memory_grow(0, (bytes - there + PAGE - 1) / PAGE) == (size_t)-1)
        __builtin_trap();
}

static void *allocate(size_t bytes) {
    char *made = (char *)(((uintptr_t)next_free + 15) & ~(uintptr_t)15);
    reserve(made + bytes);
    next_free = made + bytes;
    return made;
}

/* The place for `bytes` bytes of words. */
EXPORTED("room") void *opdb_web_room(size_t bytes) {
    next_free = &__heap_base;
    return allocate(bytes);
}

static const int64_t *word;

static double next_real(void) {
    double value;
    memcpy(&value, word++, sizeof value);
    return value;
}

static const int64_t *next_ints(int64_t n) {
    const int64_t *values = word;
    word += n;
    return values;
}

static const char *next_text(void) {
    const int64_t bytes = *word++;
    const char *text = (const char *)word;
    word += bytes / 8 + 1; /* with a 0 at the end */
    return text;
}

static const opdb_quant *next_quant(void) {
    if (*word++ == 0)
        return NULL;
    opdb_quant *quant = allocate(sizeof *quant);
    quant->n = *word++;
    quant->bits = (uint32_t)*word++;
    float *scales = allocate((size_t)quant->n * sizeof *scales);
    int32_t *offsets = allocate((size_t)quant->n * sizeof *offsets);
    for (int64_t i = 0; i < quant->n; i++)
        scales[i] = (float)next_real();
    for (int64_t i = 0; i < quant->n; i++)
        offsets[i] = (int32_t)*word++;
    quant->scales = scales;
    quant->offsets = offsets;
    return quant;
}

static const opdb_tensor *next_tensor(void) {
    if (*word++ == 0)
        return NULL;
    opdb_tensor *t = allocate(sizeof *t);
    t->rank = (uint32_t)*word++;
    t->dims = next_ints(t->rank);
    t->dtype = (enum opdb_dtype) * word++;
    t->encoding = (opdb_encoding)*word++;
    t->symmetric = *word++ != 0;
    t->type = (enum opdb_tensor_type) * word++;
    t->is_sparse = *word++ != 0;
    t->axis = (int32_t)*word++;
    t->data = NULL;
    t->values = NULL;
    if (*word++ != 0) {
        opdb_ints *values = allocate(sizeof *values);
        values->n = *word++;
        values->v = next_ints(values->n);
        t->values = values;
    }
    t->quant = next_quant();
    return t;
}

static const opdb_tensor *const *next_tensors(size_t *count) {
    *count = (size_t)*word++;
    const opdb_tensor **tensors = allocate(*count * sizeof *tensors);
    for (size_t i = 0; i < *count; i++)
        tensors[i] = next_tensor();
    return tensors;
}

static void read_param(opdb_param *param) {
    param->name = next_text();
    param->dtype = (enum opdb_dtype) * word++;
    param->rank = (uint32_t)*word++;
    param->dims = next_ints(param->rank);
    param->count = *word++;
    param->ints = next_ints(param->count);
    param->real = next_real();
    param->reals = NULL;
    if (*word++ != 0) {
        double *reals = allocate((size_t)param->count * sizeof *reals);
        for (int64_t i = 0; i < param->count; i++)
            reals[i] = next_real();
        param->reals = reals;
    }
}

static opdb_op read_op(void) {
    opdb_op op = {.op = "", .scratch = NULL, .scratch_size = 0};
    op.inputs = next_tensors(&op.num_inputs);
    op.outputs = next_tensors(&op.num_outputs);
    op.num_params = (size_t)*word++;
    opdb_param *params = allocate(op.num_params * sizeof *params);
    for (size_t i = 0; i < op.num_params; i++)
        read_param(&params[i]);
    op.params = params;
    return op;
}

/* The members of opdb_target, all of which are int32_t, in their order. */
static opdb_target read_target(void) {
    opdb_target target;
    int32_t *members = (int32_t *)&target;
    for (size_t i = 0; i < sizeof target / sizeof *members; i++)
        members[i] = (int32_t)*word++;
    return target;
}

/* Appends a text to those written before; nothing else is allocated between them. */
static void add(const char *text, char end) {
    const size_t length = strlen(text);
    char *to = next_free;
    reserve(to + length + 1);
    memcpy(to, text, length);
    to[length] = end;
    next_free = to + length + 1;
}

static opdb_report report;

/* The broken rules for the words at `words`: seven fields of each, which end with FIELD or, the last one,
 * RECORD; then a 0. */
EXPORTED("validate") const char *opdb_web_validate(const int64_t *words) {
    word = words;
    const opdb_target target = read_target();
    const opdb_op op = read_op();
    report.n = report.dropped = 0;
    NAMED(opdb_validate_, OPDB_WEB_OP)(&op, &target, &report);
    const char *text = next_free;
    for (size_t i = 0; i < report.n; i++) {
        const opdb_violation *v = &report.v[i];
        add(v->rule, FIELD);
        add(v->sentence, FIELD);
        add(v->got, FIELD);
        add(v->why, FIELD);
        add(v->erratum, FIELD);
        add(v->effect, FIELD);
        add(v->undecidable ? "undecidable" : "", FIELD);
        add(v->strength == OPDB_REQUIRE  ? "require"
            : v->strength == OPDB_EXPECT ? "expect"
                                         : "erratum",
            RECORD);
    }
    add("", '\0');
    return text;
}

static opdb_shapes shapes;

/* The shapes of the outputs: the number of outputs, then for each its rank and its dimensions; -1 if they do
 * not follow. */
EXPORTED("infer") const int64_t *opdb_web_infer(const int64_t *words) {
    word = words;
    read_target();
    const opdb_op op = read_op();
    report.n = report.dropped = 0;
    int64_t *out = allocate((1 + OPDB_MAX_OUTPUTS * (1 + OPDB_MAX_RANK)) * sizeof *out), *to = out;
    if (NAMED(opdb_infer_, OPDB_WEB_OP)(&op, &shapes, &report) != OPDB_OK) {
        *to = -1;
        return out;
    }
    *to++ = (int64_t)shapes.n;
    for (size_t i = 0; i < shapes.n; i++) {
        *to++ = shapes.v[i].rank;
        for (uint32_t d = 0; d < shapes.v[i].rank; d++)
            *to++ = shapes.v[i].dims[d];
    }
    return out;
}
