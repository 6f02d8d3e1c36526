/* Cells that run over time: x [time, batch, input], or [batch, time, input], or without time. */
#include <math.h>
#include <string.h>

#include "clones.h"
#include "kernel.h"
#include "real_math.h"

enum { LANES = 8 };

static double sigmoid(double v) { return 1 / (1 + real_exp(-v)); }

/* The sum of products of a row of weights and numbers; 0 without weights. */
OPDB_CLONES static double dot(const opdb_tensor *weights, int64_t row, const float *v, int64_t n) {
    if (weights == NULL)
        return 0;
    const float *w = (const float *)weights->data + row * n;
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += (double)w[i + j] * v[i + j];
    for (; i < n; i++)
        sum += (double)w[i] * v[i];
    for (int j = 0; j < LANES; j++)
        sum += lane[j];
    return sum;
}

/* Number i of a vector; 0 if it was left out. */
static double at(const opdb_tensor *vector, int64_t i) {
    return vector == NULL ? 0 : ((const float *)vector->data)[i];
}

/* Row `row` of a tensor as the start of a state: zeros if it was left out. */
static void begin(float *state, const opdb_tensor *initial, int64_t row, int64_t n) {
    if (initial == NULL)
        memset(state, 0, (size_t)n * sizeof *state);
    else
        memcpy(state, (const float *)initial->data + row * n, (size_t)n * sizeof *state);
}

static void store(const opdb_tensor *y, int64_t row, const float *state, int64_t n) {
    if (y != NULL)
        memcpy((float *)y->data + row * n, state, (size_t)n * sizeof *state);
}

/* True if all of n tensors are f32 or left out. */
static bool all_f32(const opdb_tensor *const *tensors, size_t n) {
    bool all = true;
    for (size_t i = 0; i < n; i++)
        all = all && is_f32(tensors[i]);
    return all;
}

/* The layout of time and batch in x and in the sequence of outputs. */
typedef struct {
    int64_t steps, batch, step_rows, batch_rows; /* rows of x from one to the next */
    bool backward;
} sequence;

static sequence sequence_of(const opdb_tensor *x, bool time_major, bool backward) {
    bool timed = x->rank == 3;
    sequence s = {1, x->dims[0], 0, 1, backward};
    if (timed && time_major) {
        sequence t = {x->dims[0], x->dims[1], x->dims[1], 1, backward};
        s = t;
    } else if (timed) {
        sequence t = {x->dims[1], x->dims[0], 1, x->dims[1], backward};
        s = t;
    }
    return s;
}

static int64_t row_of(const sequence *s, int64_t batch, int64_t step) {
    return batch * s->batch_rows + (s->backward ? s->steps - 1 - step : step) * s->step_rows;
}

static double clipped(double v, double threshold) {
    return threshold > 0 ? real_clamped(v, -threshold, threshold) : v;
}

/* The four gates of an LSTM. */
enum { INPUT, FORGET, CELL, OUTPUT, GATES };

typedef struct {
    const opdb_tensor *w_x[GATES], *w_h[GATES], *w_c[GATES], *norm[GATES], *bias[GATES];
    int64_t inputs, units, outputs;
    bool coupled; /* the input gate is 1 minus the forget gate */
} lstm_cell;

/* The input of one gate, for all units; `c` is read through the peephole. */
static void gate(const lstm_cell *cell, int g, const float *x, const float *h, const float *c, float *to) {
    double mean = 0, spread = 0;
    for (int64_t u = 0; u < cell->units; u++) {
        double v = dot(cell->w_x[g], u, x, cell->inputs) + dot(cell->w_h[g], u, h, cell->outputs) +
                   at(cell->w_c[g], u) * c[u];
        to[u] = (float)(cell->norm[g] == NULL ? v + at(cell->bias[g], u) : v);
        mean += v / (double)cell->units;
    }
    if (cell->norm[g] == NULL)
        return;
    for (int64_t u = 0; u < cell->units; u++)
        spread += (to[u] - mean) * (to[u] - mean) / (double)cell->units;
    for (int64_t u = 0; u < cell->units; u++)
        to[u] = (float)((to[u] - mean) / sqrt(spread + 1e-8) * at(cell->norm[g], u) + at(cell->bias[g], u));
}

/* One step: updates c; gates hold the arguments of their functions. */
static void lstm_step(const lstm_cell *cell, const float *x, float *h, float *c, float *const *gates,
                      double cell_clip) {
    for (int g = INPUT; g <= CELL; g++)
        if (g != INPUT || !cell->coupled)
            gate(cell, g, x, h, c, gates[g]);
    for (int64_t u = 0; u < cell->units; u++) {
        if (cell->coupled) /* 1 - sigmoid(v) is sigmoid(-v) */
            gates[INPUT][u] = -gates[FORGET][u];
        double v = sigmoid(gates[FORGET][u]) * c[u] + sigmoid(gates[INPUT][u]) * real_tanh(gates[CELL][u]);
        c[u] = (float)clipped(v, cell_clip);
    }
    gate(cell, OUTPUT, x, h, c, gates[OUTPUT]);
}

/* Peepholes (w_c*), normalized gates (ln_*), the input gate and the projection are each optional.  The states
 * start from initial_h and initial_c, with or without `reset`: nothing is kept between runs. A gate's output
 * is the argument of its function, as in QNN CPU 2.47. */
opdb_status opdb_lstm(const opdb_tensor *x, const opdb_tensor *w_xf, const opdb_tensor *w_xc,
                      const opdb_tensor *w_xo, const opdb_tensor *w_hf, const opdb_tensor *w_hc,
                      const opdb_tensor *w_ho, const opdb_tensor *b_f, const opdb_tensor *b_c,
                      const opdb_tensor *b_o, const opdb_tensor *initial_h, const opdb_tensor *initial_c,
                      const opdb_tensor *ln_input, const opdb_tensor *ln_forget, const opdb_tensor *ln_cell,
                      const opdb_tensor *ln_output, const opdb_tensor *w_xi, const opdb_tensor *w_hi,
                      const opdb_tensor *w_ci, const opdb_tensor *w_cf, const opdb_tensor *w_co,
                      const opdb_tensor *b_i, const opdb_tensor *w_proj, const opdb_tensor *b_proj,
                      int64_t direction, double cell_clip_threshold, double output_clip_threshold,
                      bool time_major, const opdb_tensor *output_state, const opdb_tensor *cell_state,
                      const opdb_tensor *y, const opdb_tensor *input_gate, const opdb_tensor *forget_gate,
                      const opdb_tensor *cell_gate, const opdb_tensor *output_gate,
                      const opdb_tensor *hidden_state, void *scratch) {
    lstm_cell cell = {{w_xi, w_xf, w_xc, w_xo},
                      {w_hi, w_hf, w_hc, w_ho},
                      {w_ci, w_cf, NULL, w_co},
                      {ln_input, ln_forget, ln_cell, ln_output},
                      {b_i, b_f, b_c, b_o},
                      w_xf->dims[1],
                      w_xf->dims[0],
                      w_hf->dims[1],
                      w_xi == NULL};
    int64_t units = cell.units, outputs = cell.outputs;
    bool whole =
        (w_xi == NULL) == (w_hi == NULL) && (outputs == units || (w_proj != NULL && output_gate == NULL));
    const opdb_tensor *all[] = {
        x,         w_xf, w_xc,        w_xo,         w_hf,       w_hc,       w_ho,        b_f,
        b_c,       b_o,  initial_h,   initial_c,    ln_input,   ln_forget,  ln_cell,     ln_output,
        w_xi,      w_hi, w_ci,        w_cf,         w_co,       b_i,        w_proj,      b_proj,
        cell_gate, y,    output_gate, output_state, cell_state, input_gate, forget_gate, hidden_state};
    if (!whole || !all_f32(all, sizeof all / sizeof all[0]))
        return OPDB_UNSUPPORTED;
    sequence s = sequence_of(x, time_major, direction == OPDB_LSTM_REVERSE);
    float *h = scratch, *c = h + outputs, *hidden = c + units, *gates[GATES];
    for (int g = 0; g < GATES; g++)
        gates[g] = hidden + units + g * units;
    for (int64_t b = 0; b < s.batch; b++) {
        begin(h, initial_h, b, outputs);
        begin(c, initial_c, b, units);
        for (int64_t t = 0; t < s.steps; t++) {
            int64_t row = row_of(&s, b, t);
            lstm_step(&cell, (const float *)x->data + row * cell.inputs, h, c, gates, cell_clip_threshold);
            for (int64_t u = 0; u < units; u++)
                hidden[u] = (float)(sigmoid(gates[OUTPUT][u]) * real_tanh(c[u]));
            for (int64_t o = 0; o < outputs; o++)
                h[o] = w_proj == NULL ? hidden[o]
                                      : (float)clipped(dot(w_proj, o, hidden, units) + at(b_proj, o),
                                                       output_clip_threshold);
            store(output_state, row, h, outputs);
        }
        store(cell_state, b, c, units);
        store(y, b, h, outputs);
        store(input_gate, b, gates[INPUT], units);
        store(forget_gate, b, gates[FORGET], units);
        store(cell_gate, b, gates[CELL], units);
        store(output_gate, b, gates[OUTPUT], units);
        store(hidden_state, b, h, outputs);
    }
    return OPDB_OK;
}

/* The weights and biases of a GRU's gates: update, reset and new. */
enum { UPDATE, RESET, NEW, GRU_GATES };

typedef struct {
    const opdb_tensor *w_x[GRU_GATES], *w_h[GRU_GATES], *b_x[GRU_GATES], *b_h[GRU_GATES];
    int64_t inputs, units;
    bool linear_before_reset;
} gru_cell;

static double gru_gate(const gru_cell *cell, int g, int64_t u, const float *x, const float *h) {
    return dot(cell->w_x[g], u, x, cell->inputs) + at(cell->b_x[g], u) +
           dot(cell->w_h[g], u, h, cell->units) + at(cell->b_h[g], u);
}

/* h becomes the state after the step; `next` and `held` have room for a state each. */
static void gru_step(const gru_cell *cell, const float *x, float *h, float *next, float *held) {
    for (int64_t u = 0; u < cell->units; u++)
        held[u] = (float)(sigmoid(gru_gate(cell, RESET, u, x, h)) * (cell->linear_before_reset ? 1.0 : h[u]));
    for (int64_t u = 0; u < cell->units; u++) {
        double into = dot(cell->w_x[NEW], u, x, cell->inputs) + at(cell->b_x[NEW], u);
        if (cell->linear_before_reset)
            into += held[u] * (dot(cell->w_h[NEW], u, h, cell->units) + at(cell->b_h[NEW], u));
        else
            into += dot(cell->w_h[NEW], u, held, cell->units) + at(cell->b_h[NEW], u);
        double z = sigmoid(gru_gate(cell, UPDATE, u, x, h));
        next[u] = (float)((1 - z) * real_tanh(into) + z * h[u]);
    }
    memcpy(h, next, (size_t)cell->units * sizeof *h);
}

/* With linear_before_reset the reset gate scales the product of the state, else the state itself. */
opdb_status opdb_gru(const opdb_tensor *x, const opdb_tensor *w_xz, const opdb_tensor *w_xr,
                     const opdb_tensor *w_xn, const opdb_tensor *w_hz, const opdb_tensor *w_hr,
                     const opdb_tensor *w_hn, const opdb_tensor *b_xz, const opdb_tensor *b_xr,
                     const opdb_tensor *b_xn, const opdb_tensor *b_hz, const opdb_tensor *b_hr,
                     const opdb_tensor *b_hn, const opdb_tensor *initial_h, int64_t direction,
                     int64_t linear_before_reset, bool time_major, const opdb_tensor *output_sequence,
                     const opdb_tensor *final_h, void *scratch) {
    gru_cell cell = {{w_xz, w_xr, w_xn}, {w_hz, w_hr, w_hn}, {b_xz, b_xr, b_xn},      {b_hz, b_hr, b_hn},
                     w_xz->dims[1],      w_xz->dims[0],      linear_before_reset != 0};
    const opdb_tensor *all[] = {x,      w_xz, w_xr, w_xn,      w_hz,
                                w_hr,   w_hn, b_xz, b_xr,      b_xn,
                                b_hz,   b_hr, b_hn, initial_h, output_sequence,
                                final_h};
    if (!all_f32(all, sizeof all / sizeof all[0]))
        return OPDB_UNSUPPORTED;
    sequence s = sequence_of(x, time_major, direction == OPDB_GRU_REVERSE);
    float *h = scratch;
    for (int64_t b = 0; b < s.batch; b++) {
        begin(h, initial_h, b, cell.units);
        for (int64_t t = 0; t < s.steps; t++) {
            int64_t row = row_of(&s, b, t);
            gru_step(&cell, (const float *)x->data + row * cell.inputs, h, h + cell.units,
                     h + 2 * cell.units);
            store(output_sequence, row, h, cell.units);
        }
        store(final_h, b, h, cell.units);
    }
    return OPDB_OK;
}
