/* Transforms rows of numbers to another basis. */
#include <math.h>

#include "kernel.h"

/* Sums and differences of each pair of numbers, then of each pair of pairs, ...: the last dim is a power of
 * two; in Sylvester's order, times `scale`. */
opdb_status opdb_hadamard_transform(const opdb_tensor *x, double scale, const opdb_tensor *y, void *scratch) {
    int64_t n = x->rank > 0 ? x->dims[x->rank - 1] : 1;
    double *row = scratch;
    if (!is_f32(x) || !is_f32(y) || (n & (n - 1)) != 0)
        return OPDB_UNSUPPORTED;
    for (int64_t at = 0; at < size_of(x); at += n) {
        const float *in = (const float *)x->data + at;
        float *out = (float *)y->data + at;
        for (int64_t i = 0; i < n; i++)
            row[i] = in[i];
        for (int64_t apart = 1; apart < n; apart *= 2)
            for (int64_t i = 0; i < n; i += 2 * apart)
                for (int64_t j = i; j < i + apart; j++) {
                    double a = row[j], b = row[j + apart];
                    row[j] = a + b;
                    row[j + apart] = a - b;
                }
        for (int64_t i = 0; i < n; i++)
            out[i] = (float)(row[i] * scale);
    }
    return OPDB_OK;
}

/* For each frame of the signal, times the window: the sums of the numbers times exp(-2 pi i k t / length), as
 * pairs of a real and an imaginary part; the turns are in the scratch. */
opdb_status opdb_stft(const opdb_tensor *signal, const opdb_tensor *window, int64_t frame_step,
                      int64_t length, const opdb_tensor *y, void *scratch) {
    if (!is_f32(signal) || !is_f32(window) || !is_f32(y))
        return OPDB_UNSUPPORTED;
    const double turn = 6.283185307179586477;
    double *cosine = scratch, *sine = cosine + length;
    int64_t frames = y->dims[1], bins = y->dims[2], samples = signal->dims[1];
    float *out = y->data;
    for (int64_t t = 0; t < length; t++) {
        cosine[t] = cos(turn * (double)t / (double)length);
        sine[t] = sin(turn * (double)t / (double)length);
    }
    for (int64_t i = 0; i < y->dims[0] * frames; i++) {
        const float *from = (const float *)signal->data + i / frames * samples + i % frames * frame_step;
        for (int64_t k = 0; k < bins; k++) {
            double real = 0, imaginary = 0;
            for (int64_t t = 0, angle = 0; t < length; t++, angle = (angle + k) % length) {
                double v = from[t] * (window == NULL ? 1.0 : ((const float *)window->data)[t]);
                real += v * cosine[angle];
                imaginary -= v * sine[angle];
            }
            *out++ = (float)real;
            *out++ = (float)imaginary;
        }
    }
    return OPDB_OK;
}
