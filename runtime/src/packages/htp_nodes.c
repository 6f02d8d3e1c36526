/* Nodes of a graph that is prepared, and the op configs that were validated: which is which (htp.h). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "htp.h"

enum { MAX_TENSORS = 64 };

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

const char *opdb_htp_accepted(const opdb_package_op *op, const opdb_op *config) {
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

void opdb_htp_described_name(char name[OPDB_HTP_NAME], const opdb_package_op *op, uint64_t five) {
    snprintf(name, OPDB_HTP_NAME, "%s::%s_described_%llx", opdb_this_package.info.packageName, op->name,
             (unsigned long long)five);
}

/* -- preparing a graph */

static const opdb_qhpi_op *described_node(const opdb_qhpi_op *node, const opdb_package_op *op,
                                          const record *r) {
    opdb_op_view view;
    const opdb_package_op *of;
    opdb_qhpi_ref inputs[MAX_TENSORS + DESCRIBED];
    opdb_qhpi_output outputs[MAX_TENSORS];
    const opdb_qhpi_op *made = NULL;
    char name[OPDB_HTP_NAME];
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
        opdb_htp_described_name(name, op, five);
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
const opdb_qhpi_op *opdb_htp_early(const opdb_qhpi_op *node) {
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
