/* A kernel for Cloud AI's card as a server: it runs in the four threads of a core.
 *
 * Compiled with OPDB_CARD_KERNEL, the name of the kernel, and of generation 1.17, whose kernels are given
 * arrays, with OPDB_CARD_ARRAYS.  A call (frames.h): the order in which threads begin; inputs, outputs and
 * parameters as `tensor_of` and `param_of` read them; the bytes of each scratch buffer.  An answer: the
 * number of waits of each thread, whether threads were left waiting, bytes of stack, scratch buffers that
 * were written outside, packets, instructions, HVX instructions; each output; the printed text. */
#include <stdarg.h>
#include <stdio.h>

#include "CustomOpAICInterface.h"
#include "counters.h"
#include "frames.h"
#include "threads.h"

enum { PAINT = 0xa5, GUARD = 256, BUFFER_ALIGNMENT = 2048 };

static CustomOpContext context;
static char log_[8192];
static size_t logged;

/* The text that a kernel prints. */
int printf(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(log_ + logged, sizeof log_ - logged, format, arguments);
    va_end(arguments);
    logged = logged + (size_t)n < sizeof log_ ? logged + (size_t)n : sizeof log_ - 1;
    return n;
}

/* A tensor has a dtype, scale and offset (float), sizes and data; a word says whether its data follow. */
static void tensor_of(CustomOpIOTensor *t, size_t *bytes) {
    float numbers[2];
    memset(t, 0, sizeof *t);
    t->dtype = (CustomOpDataType)word();
    memcpy(numbers, block(sizeof numbers), sizeof numbers);
    t->scale = numbers[0];
    t->offset = numbers[1];
    t->rank = (int32_t)word();
    int32_t *sizes = taken(((size_t)t->rank + 1) * sizeof *sizes);
    memcpy(sizes, block((size_t)t->rank * sizeof *sizes), (size_t)t->rank * sizeof *sizes);
#ifdef OPDB_CARD_ARRAYS
    t->dims = sizes;
#else
    t->sizes = sizes;
#endif
    *bytes = (size_t)word();
    if (word() != 0) {
        t->data = (void *)(uintptr_t)data_block(*bytes);
    } else {
        t->data = taken(*bytes);
        memset(t->data, PAINT, *bytes);
    }
}

static CustomOpIOTensor *tensors_of(int32_t *count, size_t **bytes) {
    *count = (int32_t)word();
    CustomOpIOTensor *tensors = taken(((size_t)*count + 1) * sizeof *tensors);
    *bytes = taken(((size_t)*count + 1) * sizeof **bytes);
    for (int32_t i = 0; i < *count; i++)
        tensor_of(&tensors[i], &(*bytes)[i]);
    return tensors;
}

static void param_of(CustomOpParam *p) {
    p->name = block((size_t)word());
    p->dtype = (CustomOpDataType)word();
    p->size = (int32_t)word();
    p->data = (void *)(uintptr_t)block((size_t)word());
}

static void buffers_of(void) {
    context.numScratchBuffers = (int32_t)word();
    context.scratchBuffers = taken(((size_t)context.numScratchBuffers + 1) * sizeof *context.scratchBuffers);
    for (int32_t i = 0; i < context.numScratchBuffers; i++) {
        CustomOpScratchBuffer *b = &context.scratchBuffers[i];
        b->size = (int32_t)word();
        unsigned char *memory_of_it = taken((size_t)b->size + BUFFER_ALIGNMENT + GUARD);
        memory_of_it += -(uintptr_t)memory_of_it % BUFFER_ALIGNMENT;
        memset(memory_of_it, PAINT, (size_t)b->size + GUARD);
        b->buf = memory_of_it;
    }
}

/* The number of scratch buffers with data written past their end. */
static int32_t overrun(void) {
    int32_t n = 0;
    for (int32_t i = 0; i < context.numScratchBuffers; i++) {
        const CustomOpScratchBuffer *b = &context.scratchBuffers[i];
        int32_t k = 0;
        while (k < GUARD && ((const unsigned char *)b->buf)[b->size + k] == PAINT)
            k++;
        n += k < GUARD;
    }
    return n;
}

#ifdef OPDB_CARD_ARRAYS
void OPDB_CARD_KERNEL(const CustomOpIOTensor *inputs, const int32_t numInputs,
                      const CustomOpIOTensor *outputs, const int32_t numOutputs, const CustomOpParam *params,
                      const int32_t numParams, const CustomOpContext *ctx, const int32_t threadID);

static void work(int32_t thread) {
    OPDB_CARD_KERNEL(context.inputs, context.numInputs, context.outputs, context.numOutputs, context.params,
                     context.numParams, &context, thread);
}
#else
void OPDB_CARD_KERNEL(const CustomOpContext *ctx, const int32_t threadId);

static void work(int32_t thread) { OPDB_CARD_KERNEL(&context, thread); }
#endif

static void answer(void) {
    int32_t order[OPDB_THREADS];
    size_t *bytes;
    for (int32_t i = 0; i < OPDB_THREADS; i++)
        order[i] = (int32_t)word();
    context.inputs = tensors_of(&context.numInputs, &bytes);
    context.outputs = tensors_of(&context.numOutputs, &bytes);
    context.numParams = (int32_t)word();
    context.params = taken(((size_t)context.numParams + 1) * sizeof *context.params);
    for (int32_t i = 0; i < context.numParams; i++)
        param_of(&context.params[i]);
    buffers_of();
    context.syncThread = opdb_wait;
    logged = 0;
    const opdb_counters begin = opdb_count();
    const opdb_threads_ran ran = opdb_run_threads(work, order);
    const opdb_counters counted = opdb_counted(begin, opdb_count());
    for (int32_t i = 0; i < OPDB_THREADS; i++)
        put_word(ran.waits[i]);
    put_word(ran.stuck);
    put_word(ran.stack);
    put_word(overrun());
    put_word(counted.packets);
    put_word(counted.instructions);
    put_word(counted.vector);
    for (int32_t i = 0; i < context.numOutputs; i++) {
        put_word((int64_t)bytes[i]);
        put(context.outputs[i].data, bytes[i]);
    }
    log_[logged] = '\0';
    put_text(log_);
    flush();
}

int main(void) {
    while (next_call())
        answer();
    return 0;
}
