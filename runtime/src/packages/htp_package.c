/* An op package for QNN's HTP backend, through QHPI (opdb/qhpi.h).  Measured with QNN 2.47 and 2.51 on
 * x86-64: validateOpConfig is called for backendValidateOpConfig only, never for graphAddNode; createOpImpl
 * never.  A kernel sees tensors of one to four dimensions with four, parameters as further tensors (a bool8
 * among them as a float of which three bytes are undefined), an omitted input as a tensor without elements,
 * and signed integers of 8 and 16 bits as unsigned ones, 2^7 or 2^15 higher.
 *
 * So each node of an op becomes one of another op, while the graph is prepared: its inputs are the tensors
 * that are given and the description of the op config (htp_description.h) that was validated. */
#include "opdb/qhpi.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "htp_description.h"

enum { MAX_TENSORS = 64, DESCRIBED = 1 /* input: the description */ };

/* -- what was validated */

typedef struct record {
    struct record *next;
    opdb_description description;
    bool pending;   /* validated since a graph was last prepared with it */
    uint64_t burst; /* the preparation that used it last */
} record;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static record *records = NULL;
static uint64_t burst = 0;     /* counts the preparations of graphs */
static bool preparing = false; /* nothing was validated since a node was last prepared */

static bool same(const opdb_description *a, const opdb_description *b) {
    return a->count == b->count && memcmp(a->words, b->words, a->count * sizeof *a->words) == 0;
}

static const char *accepted(const opdb_package_op *op, const opdb_op *config) {
    opdb_description made = opdb_describe(op, config);
    if (made.words == NULL)
        return "out of memory";
    pthread_mutex_lock(&lock);
    preparing = false;
    record *found = records;
    while (found != NULL && !same(&found->description, &made))
        found = found->next;
    if (found != NULL) {
        free(made.words);
    } else {
        found = calloc(1, sizeof *found);
        if (found == NULL) {
            free(made.words);
            pthread_mutex_unlock(&lock);
            return "out of memory";
        }
        found->description = made;
        found->next = records;
        records = found;
    }
    found->pending = true;
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* -- whether a node is what was validated */

static bool has_shape(const opdb_qhpi_shape *shape, const opdb_tensor *t) {
    const uint32_t rank = t != NULL && t->rank > 4 ? t->rank : 4;
    if (shape->rank != rank)
        return false;
    for (uint32_t d = 0; d < rank; d++) {
        const int64_t before = (int64_t)rank - (t == NULL ? 0 : t->rank);
        const int64_t want = t == NULL ? 0 : d < before ? 1 : t->dims[d - before];
        if (shape->dims[d] != want)
            return false;
    }
    return true;
}

/* The element type of a signed tensor is that of unsigned ones behind an op, and its own at the graph's ends.
 */
static bool has_element(const opdb_qhpi_output *seen, const opdb_tensor *t) {
    const int64_t zero = -opdb_offset(t);
    const bool one_step = t->quant != NULL && t->quant->n == 1;
    const bool stepped = !one_step || seen->quant.step == t->quant->scales[0];
    switch ((int)t->dtype) {
    case OPDB_I8:
        return seen->element == OPDB_QHPI_QINT8 ||
               (seen->element == OPDB_QHPI_QUINT8 && seen->quant.zero == 128);
    case OPDB_SQ8:
        return stepped &&
               ((seen->element == OPDB_QHPI_QINT8 && (!one_step || seen->quant.zero == zero)) ||
                (seen->element == OPDB_QHPI_QUINT8 && (!one_step || seen->quant.zero == zero + 128)));
    case OPDB_I16:
        return seen->element == OPDB_QHPI_QINT16 ||
               (seen->element == OPDB_QHPI_QUINT16 && seen->quant.zero == 32768);
    case OPDB_SQ16:
        return stepped &&
               ((seen->element == OPDB_QHPI_QINT16 && (!one_step || seen->quant.zero == zero)) ||
                (seen->element == OPDB_QHPI_QUINT16 && (!one_step || seen->quant.zero == zero + 32768)));
    case OPDB_UQ8:
        return stepped && seen->element == OPDB_QHPI_QUINT8 && (!one_step || seen->quant.zero == zero);
    case OPDB_UQ16:
        return stepped && seen->element == OPDB_QHPI_QUINT16 && (!one_step || seen->quant.zero == zero);
    case OPDB_U8:
    case OPDB_BOOL8:
        return seen->element == OPDB_QHPI_QUINT8;
    case OPDB_U16:
        return seen->element == OPDB_QHPI_QUINT16;
    case OPDB_I32:
    case OPDB_U32:
        return seen->element == OPDB_QHPI_INT32;
    case OPDB_SQ32:
        return seen->element == OPDB_QHPI_QINT32;
    case OPDB_F32:
        return seen->element == OPDB_QHPI_FLOAT32;
    case OPDB_F16:
        return seen->element == OPDB_QHPI_FLOAT16;
    default:
        return false;
    }
}

static bool has_tensor(const opdb_qhpi_output *seen, const opdb_tensor *t) {
    return has_shape(&seen->shape, t) && (t == NULL || has_element(seen, t));
}

static bool has_value(const opdb_qhpi_op *constant, const opdb_param *p) {
    const void *data = qhpi_op_constant_data(constant);
    for (int64_t i = 0; data != NULL && i < p->count; i++)
        switch ((int)p->dtype) {
        case OPDB_F32:
            if (((const float *)data)[i] != (float)(p->reals != NULL ? p->reals[i] : p->real))
                return false;
            break;
        case OPDB_I32:
        case OPDB_U32:
            if (((const int32_t *)data)[i] != (int32_t)p->ints[i])
                return false;
            break;
        case OPDB_BOOL8:
            if (p->rank == 0 && (*(const uint8_t *)data != 0) != (p->ints[0] != 0))
                return false;
            break;
        default: /* not compared */
            break;
        }
    return true;
}

static bool is_of(const opdb_qhpi_op *node, const opdb_op *config) {
    if (qhpi_op_num_inputs(node) != config->num_inputs + config->num_params ||
        qhpi_op_num_outputs(node) != config->num_outputs)
        return false;
    for (uint32_t i = 0; i < config->num_inputs; i++) {
        const opdb_qhpi_ref in = qhpi_op_input(node, i);
        const opdb_qhpi_output seen = qhpi_op_output(in.op, in.output);
        if (!has_tensor(&seen, config->inputs[i]))
            return false;
    }
    for (uint32_t i = 0; i < config->num_outputs; i++) {
        const opdb_qhpi_output seen = qhpi_op_output(node, i);
        if (!has_tensor(&seen, config->outputs[i]))
            return false;
    }
    for (uint32_t i = 0; i < config->num_params; i++)
        if (!has_value(qhpi_op_input(node, (uint32_t)config->num_inputs + i).op, &config->params[i]))
            return false;
    return true;
}

static bool describes(const record *r, const opdb_qhpi_op *node, const opdb_package_op *op) {
    opdb_op_view view;
    const opdb_package_op *of;
    const char *why = opdb_described(r->description.words, r->description.count, &of, &view);
    const bool fits = why == NULL && of == op && is_of(node, &view.op);
    opdb_op_view_free(&view);
    return fits;
}

/* The record of a node: one that this preparation may be about, else the only one there is.  `several` where
 * op configs of other ranks look like the node, too. */
static record *record_of(const opdb_qhpi_op *node, const opdb_package_op *op, bool *several) {
    record *now = NULL, *ever = NULL;
    size_t now_count = 0, ever_count = 0;
    if (!preparing)
        burst++;
    preparing = true;
    for (record *r = records; r != NULL; r = r->next) {
        if (!describes(r, node, op))
            continue;
        ever = r;
        ever_count++;
        if (r->pending || r->burst == burst) {
            now = r;
            now_count++;
        }
    }
    *several = now_count > 1 || (now_count == 0 && ever_count > 1);
    for (record *r = records; *several && r != NULL; r = r->next)
        if (r->pending && describes(r, node, op))
            r->pending = false; /* the graph is lost; the next one begins anew */
    record *found = *several ? NULL : now_count == 1 ? now : ever;
    if (found != NULL) {
        found->pending = false;
        found->burst = burst;
    }
    return found;
}

/* -- preparing a graph */

static const char *package_name(void) { return opdb_this_package.info.packageName; }

enum { NAME = 256 };

/* The name within QHPI of the op of described nodes whose outputs of five dimensions are the bits of `five`.
 */
static void described_name(char name[NAME], const opdb_package_op *op, uint64_t five) {
    snprintf(name, NAME, "%s::%s_described_%llx", package_name(), op->name, (unsigned long long)five);
}

static const opdb_qhpi_op *described_node(const opdb_qhpi_op *node, const opdb_package_op *op,
                                          const record *r) {
    opdb_op_view view;
    const opdb_package_op *of;
    opdb_qhpi_ref inputs[MAX_TENSORS + DESCRIBED];
    opdb_qhpi_output outputs[MAX_TENSORS];
    const opdb_qhpi_op *made = NULL;
    char name[NAME];
    uint64_t five = 0;
    if (opdb_described(r->description.words, r->description.count, &of, &view) == NULL &&
        view.op.num_inputs <= MAX_TENSORS && view.op.num_outputs <= MAX_TENSORS) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < view.op.num_inputs; i++)
            if (view.op.inputs[i] != NULL)
                inputs[n++] = qhpi_op_input(node, i);
        for (uint32_t i = 0; i < view.op.num_outputs; i++) {
            outputs[i] = qhpi_op_output(node, i);
            five |= (uint64_t)(outputs[i].shape.rank == 5) << i;
        }
        described_name(name, op, five);
        const opdb_qhpi_output words = {
            OPDB_QHPI_INT32, {0, 1.0f}, {4, {1, 1, 1, (uint32_t)r->description.count}}};
        inputs[n].op = qhpi_op_create_constant(node, &words, r->description.count * sizeof(int32_t),
                                               r->description.words);
        inputs[n++].output = 0;
        made = qhpi_op_create(node, name, n, inputs, (uint32_t)view.op.num_outputs, outputs);
    }
    opdb_op_view_free(&view);
    return made;
}

/* The node that stands for one of the graph; itself, which has no kernel, where that cannot be told. */
static const opdb_qhpi_op *early(const opdb_qhpi_op *node) {
    const char *name = qhpi_op_name(node), *colons = strstr(name, "::");
    const opdb_package_op *op = opdb_package_find(colons == NULL ? name : colons + 2);
    if (op == NULL)
        return NULL;
    bool several = false;
    pthread_mutex_lock(&lock);
    record *found = record_of(node, op, &several);
    const opdb_qhpi_op *made = found == NULL ? NULL : described_node(node, op, found);
    pthread_mutex_unlock(&lock);
    if (several)
        opdb_package_complain(
            "%s: op configs of several ranks were validated that HTP shows as one; prepare them "
            "in processes of their own",
            op->name);
    else if (found == NULL)
        opdb_package_complain("%s: HTP does not show an op package the ranks of tensors; validate each node "
                              "(backendValidateOpConfig) before its graph is finalized",
                              op->name);
    else if (made == NULL)
        opdb_package_complain("%s: out of memory, or more than %d tensors", op->name, MAX_TENSORS);
    return made;
}

/* -- running */

static bool is_bytes(enum opdb_dtype dtype) { return dtype == OPDB_I8 || dtype == OPDB_SQ8; }

static bool is_shifted(enum opdb_dtype dtype) {
    return is_bytes(dtype) || dtype == OPDB_I16 || dtype == OPDB_SQ16;
}

static size_t elements_of(const opdb_tensor *t) {
    size_t n = 1;
    for (uint32_t d = 0; d < t->rank; d++)
        n *= (size_t)t->dims[d];
    return n;
}

/* From signed to unsigned, and back. */
static void shift(const opdb_tensor *t, const void *from, void *to) {
    const size_t n = elements_of(t);
    if (is_bytes(t->dtype))
        for (size_t i = 0; i < n; i++)
            ((uint8_t *)to)[i] = ((const uint8_t *)from)[i] ^ 0x80;
    else
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)to)[i] = ((const uint16_t *)from)[i] ^ 0x8000;
}

/* Dims and data of tensor `i` as they are in this tile; false where there is no memory for a copy. */
static bool take(opdb_op_view *view, size_t i, const opdb_qhpi_tensor *from, bool read) {
    opdb_tensor *t = &view->tensors[i];
    const opdb_qhpi_shape shape = qhpi_tensor_shape(from);
    for (uint32_t d = 0; d < t->rank && t->rank <= shape.rank; d++)
        view->dims[i][d] = shape.dims[shape.rank - t->rank + d];
    t->data = qhpi_tensor_raw_data(from);
    if (!read || !is_shifted(t->dtype))
        return true;
    void *copy = malloc(elements_of(t) * sizeof(uint16_t) + 1);
    if (copy != NULL)
        shift(t, t->data, copy);
    t->data = copy;
    return copy != NULL;
}

static bool take_all(opdb_op_view *view, uint32_t num_outputs, opdb_qhpi_tensor **outputs,
                     uint32_t num_inputs, const opdb_qhpi_tensor *const *inputs) {
    const size_t before = view->op.num_inputs;
    uint32_t given = 0;
    for (size_t i = 0; i < before; i++) {
        if (view->slots[i] == NULL)
            continue;
        if (given + DESCRIBED >= num_inputs || !take(view, i, inputs[given], true))
            return false;
        given++;
    }
    for (size_t i = 0; i < view->op.num_outputs; i++)
        if (i >= num_outputs || !take(view, before + i, outputs[i], false))
            return false;
    return true;
}

static opdb_status compute(const opdb_package_op *op, opdb_op_view *view) {
    opdb_report report;
    report.n = report.dropped = 0;
    view->op.scratch_size = op->scratch(&view->op);
    view->op.scratch = view->op.scratch_size > 0 ? malloc(view->op.scratch_size) : NULL;
    if (view->op.scratch_size > 0 && view->op.scratch == NULL)
        return OPDB_TOO_SMALL;
    const opdb_status status = op->run(&view->op, &report);
    free(view->op.scratch);
    opdb_package_complain_of(&report);
    return status;
}

/* One tile of a node; several run at once, each in a thread. */
static uint32_t run(opdb_qhpi_handle *handle, uint32_t num_outputs, opdb_qhpi_tensor **outputs,
                    uint32_t num_inputs, const opdb_qhpi_tensor *const *inputs) {
    (void)handle;
    const opdb_qhpi_tensor *words = inputs[num_inputs - 1];
    const opdb_qhpi_shape shape = qhpi_tensor_shape(words);
    const opdb_package_op *op;
    opdb_op_view view;
    opdb_status status = OPDB_TOO_SMALL;
    const char *why = opdb_described(qhpi_tensor_raw_data(words), shape.dims[shape.rank - 1], &op, &view);
    if (why != NULL) {
        opdb_package_complain("%s: %s", package_name(), why);
    } else {
        if (take_all(&view, num_outputs, outputs, num_inputs, inputs))
            status = compute(op, &view);
        for (size_t i = 0; status == OPDB_OK && i < view.op.num_outputs; i++) {
            const opdb_tensor *t = &view.tensors[view.op.num_inputs + i];
            if (is_shifted(t->dtype))
                shift(t, t->data, t->data);
        }
        for (size_t i = 0; i < view.op.num_inputs; i++)
            if (view.slots[i] != NULL && is_shifted(view.tensors[i].dtype))
                free(view.tensors[i].data);
        if (status != OPDB_OK)
            opdb_package_complain("%s: its kernel answers %d", op->name, (int)status);
    }
    opdb_op_view_free(&view);
    return status == OPDB_OK ? OPDB_QHPI_OK : OPDB_QHPI_FATAL;
}

/* -- registering */

/* A kernel for tensors of which those whose bit is set have five dimensions. */
static bool add_kernel(opdb_qhpi_kernel *out, const opdb_package_op *op, uint32_t num_inputs,
                       uint64_t five_inputs, uint32_t num_outputs, uint64_t five_outputs) {
    const opdb_qhpi_signature flat4 = {OPDB_QHPI_ANY_ELEMENT, OPDB_QHPI_FLAT4, OPDB_QHPI_DIRECT,
                                       OPDB_QHPI_EITHER};
    const opdb_qhpi_signature flat5 = {OPDB_QHPI_ANY_ELEMENT, OPDB_QHPI_FLAT5, OPDB_QHPI_DIRECT,
                                       OPDB_QHPI_EITHER};
    const opdb_qhpi_signature words = {OPDB_QHPI_INT32, OPDB_QHPI_ANY_LAYOUT, OPDB_QHPI_DIRECT,
                                       OPDB_QHPI_EITHER};
    opdb_qhpi_signature *inputs = calloc(num_inputs + DESCRIBED + num_outputs, sizeof *inputs);
    opdb_qhpi_signature *outputs = inputs + num_inputs + DESCRIBED;
    char *name = malloc(NAME);
    *out = (opdb_qhpi_kernel){.name = name,
                              .run = run,
                              .resources = OPDB_QHPI_HVX,
                              .many_threads = 1,
                              .num_inputs = num_inputs + DESCRIBED,
                              .inputs = inputs,
                              .num_outputs = num_outputs,
                              .outputs = outputs};
    if (inputs == NULL || name == NULL)
        return false;
    snprintf(name, NAME, "%s_%u_%llx_%u_%llx", op->name, num_inputs, (unsigned long long)five_inputs,
             num_outputs, (unsigned long long)five_outputs);
    for (uint32_t i = 0; i < num_inputs; i++)
        inputs[i] = five_inputs >> i & 1 ? flat5 : flat4;
    inputs[num_inputs] = words;
    for (uint32_t i = 0; i < num_outputs; i++)
        outputs[i] = five_outputs >> i & 1 ? flat5 : flat4;
    return true;
}

/* Choice `i` of which of `count` tensors have five dimensions: each of up to five tensors; of more, none,
 * all, or the first. */
static uint64_t choice_of_five(bool five, uint32_t count, uint64_t i) {
    const uint64_t all = (UINT64_C(1) << count) - 1;
    const uint64_t some[] = {0, all, 1};
    return !five ? 0 : count <= 5 ? i : some[i];
}

static uint64_t choices_of_five(bool five, uint32_t count) {
    return !five ? 1 : count <= 5 ? UINT64_C(1) << count : 3;
}

/* The op of described nodes with these outputs: a kernel for each number and choice of inputs.  The library
 * goes on to the next kernel where inputs differ in layout; where outputs do, it crashes. */
static bool register_described(const opdb_package_op *op, uint32_t num_outputs, uint64_t five_outputs) {
    opdb_qhpi_info *info = calloc(1, sizeof *info);
    opdb_qhpi_kernel *kernels = NULL;
    char *name = malloc(NAME);
    uint32_t count = 0;
    if (info == NULL || name == NULL)
        return false;
    for (uint32_t n = op->min_inputs; n <= op->max_inputs; n++) {
        const uint64_t choices = choices_of_five(op->five, n);
        opdb_qhpi_kernel *grown = realloc(kernels, (count + choices) * sizeof *kernels);
        if (grown == NULL)
            return false;
        kernels = grown;
        for (uint64_t i = 0; i < choices; i++)
            if (!add_kernel(&kernels[count++], op, n, choice_of_five(op->five, n, i), num_outputs,
                            five_outputs))
                return false;
    }
    described_name(name, op, five_outputs);
    info->name = name;
    info->num_kernels = count;
    info->kernels = kernels;
    return qhpi_register_ops_v1(1, info, package_name()) < OPDB_QHPI_WARNING;
}

/* The op under its own name, whose nodes early() replaces.  QHPI takes no op without a kernel. */
static bool register_op(const opdb_package_op *op) {
    opdb_qhpi_info *info = calloc(1, sizeof *info);
    opdb_qhpi_kernel *kernel = calloc(1, sizeof *kernel);
    char *name = malloc(NAME);
    if (info == NULL || kernel == NULL || name == NULL ||
        !add_kernel(kernel, op, op->min_inputs, 0, op->min_outputs, 0))
        return false;
    snprintf((char *)kernel->name, NAME, "%s_undescribed", op->name);
    snprintf(name, NAME, "%s::%s", package_name(), op->name);
    info->name = name;
    info->num_kernels = 1;
    info->kernels = kernel;
    info->early = early;
    return qhpi_register_ops_v1(1, info, package_name()) < OPDB_QHPI_WARNING;
}

static bool register_all(const opdb_package_op *op) {
    bool taken = register_op(op);
    for (uint32_t m = op->min_outputs; m <= op->max_outputs; m++)
        for (uint64_t i = 0; i < choices_of_five(op->five, m); i++)
            taken = register_described(op, m, choice_of_five(op->five, m, i)) && taken;
    return taken;
}

/* What libQnnHtp.so looks for in a package.  One op per call: of two, a library whose structs are longer
 * loses the second.  What is registered stays as long as the library. */
__attribute__((visibility("default"))) const char *qhpi_init(void);
const char *qhpi_init(void) {
    for (uint32_t i = 0; i < opdb_this_package.info.numOperations; i++)
        if (!register_all(&opdb_this_package.ops[i]))
            opdb_package_complain("%s: QHPI does not take this op", opdb_this_package.ops[i].name);
    return package_name();
}

static Qnn_ErrorHandle_t create(QnnOpPackage_GraphInfrastructure_t infrastructure, QnnOpPackage_Node_t node,
                                QnnOpPackage_OpImpl_t *out) {
    (void)infrastructure, (void)node, (void)out; /* HTP calls neither */
    return REFUSED;
}

static Qnn_ErrorHandle_t destroy(QnnOpPackage_OpImpl_t impl) {
    (void)impl;
    return REFUSED;
}

const opdb_package_backend opdb_this_backend = {
    .name = "HTP",
    .accepted = accepted,
    .create = create,
    .free = destroy,
};
