#include "each.h"

#include "nest.h"

enum { TILE = 512 };

/* One operand of a row: where it is read or written directly, or the tile that holds a part of it. */
typedef struct {
    const opdb_tensor *tensor;
    bool direct;
    int64_t tile[TILE]; /* room for numbers of any kind */
} operand;

static opdb_kind highest(int inputs, const opdb_tensor *const *in) {
    opdb_kind kind = OPDB_TRUTH;
    for (int i = 0; i < inputs; i++) {
        opdb_kind own = opdb_kind_of(in[i]);
        if (own == OPDB_NO_KIND)
            return OPDB_NO_KIND;
        if (own > kind)
            kind = own;
    }
    return kind;
}

/* What the elements of a row are read as and become. */
typedef struct {
    opdb_each_row *row;
    opdb_kind kind, result;
    int inputs;
    const double *params;
} job;

static char *element_at(const operand *o, int64_t place, opdb_kind kind) {
    return (char *)o->tensor->data + place * (int64_t)opdb_computed_size(kind);
}

/* Computes a row from place at[] of the operands on, of which the last is the result: at once where they all
 * are stored as they are computed with, else tile by tile. */
static void run_row(const job *job, operand *operands, const int64_t *at, opdb_loop loop) {
    const void *in[OPDB_EACH_INPUTS];
    operand *y = &operands[job->inputs];
    bool direct = y->direct;
    for (int i = 0; i < job->inputs; i++) {
        direct = direct && operands[i].direct && loop.step[i] == 1;
        if (loop.step[i] == 0) /* one number for the whole row */
            opdb_read(operands[i].tensor, at[i], 0, loop.n < TILE ? loop.n : TILE, job->kind,
                      operands[i].tile);
    }
    int64_t part = direct ? loop.n : TILE;
    for (int64_t from = 0; from < loop.n; from += part) {
        int64_t n = loop.n - from < part ? loop.n - from : part, place = at[job->inputs] + from;
        for (int i = 0; i < job->inputs; i++) {
            const operand *x = &operands[i];
            in[i] = x->tile;
            if (loop.step[i] == 1 && x->direct)
                in[i] = element_at(x, at[i] + from, job->kind);
            else if (loop.step[i] == 1)
                opdb_read(x->tensor, at[i] + from, 1, n, job->kind, operands[i].tile);
        }
        job->row(in, y->direct ? element_at(y, place, job->result) : (void *)y->tile, n, job->params);
        if (!y->direct)
            opdb_write(y->tensor, place, n, job->result, y->tile);
    }
}

/* The loops over y, with the steps of the inputs and then that of y itself. */
static opdb_nest broadcasting(int inputs, const opdb_tensor *const *in, const opdb_tensor *y) {
    opdb_nest nest = {0};
    for (int64_t d = 0; d < (int64_t)y->rank; d++) {
        int64_t own = size_between(y, d + 1, y->rank), steps[OPERANDS] = {own, own, own};
        for (int i = 0; i < inputs; i++)
            steps[i] = broadcast_step(in[i], y, d);
        nest_add(&nest, y->dims[d], steps[0], steps[1], steps[2]);
    }
    return nest;
}

opdb_status opdb_run_each(const opdb_each *each, int inputs, const opdb_tensor *const *in,
                          const double *params, const opdb_tensor *y) {
    opdb_kind kind = highest(inputs, in), own = opdb_kind_of(y), result = each->test ? OPDB_TRUTH : kind;
    if (kind == OPDB_NO_KIND || own == OPDB_NO_KIND || each->row[kind] == NULL)
        return OPDB_UNSUPPORTED;
    if (own != result && !(each->test && own > result))
        return OPDB_UNSUPPORTED;
    for (int i = 0; i < inputs; i++)
        if (!broadcasts(in[i], y))
            return OPDB_UNSUPPORTED;
    if (size_of(y) == 0)
        return OPDB_OK;
    operand operands[OPDB_EACH_INPUTS + 1];
    for (int i = 0; i < inputs; i++) {
        operands[i].tensor = in[i];
        operands[i].direct = opdb_is_plain(in[i]) && opdb_kind_of(in[i]) == kind;
    }
    operands[inputs].tensor = y;
    operands[inputs].direct = own == result && (opdb_is_plain(y) || own == OPDB_TRUTH);
    opdb_nest nest = broadcasting(inputs, in, y);
    opdb_loop loop = nest_pop(&nest);
    job job = {each->row[kind], kind, result, inputs, params};
    do {
        run_row(&job, operands, nest.at, loop);
    } while (nest_next(&nest));
    return OPDB_OK;
}
