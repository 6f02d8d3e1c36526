/* Registers kernels with ExecuTorch's runtime, those that it has already left out: registering one twice ends
 * the process. */
#ifndef OPDB_REGISTRATION_H
#define OPDB_REGISTRATION_H

#include <atomic>

#include <executorch/runtime/kernel/operator_registry.h>

extern "C" {
/* What became of one kernel. */
typedef struct {
    const char *op;  /* e.g. aten::gelu.out */
    const char *key; /* of a specialized kernel, e.g. v1/6;0,1|6;0,1|6;0,1; NULL for the one that takes all */
    const char *owner; /* NULL: registered; else the library whose kernel stays in place */
} opdb_kernel_record;

/* All kernels of this library, in the order of its functions.yaml and custom_ops.yaml. */
const opdb_kernel_record *opdb_kernel_records(size_t *count);

/* How often kernel `i` was called, and how often of these its arguments were left to another library's. */
void opdb_kernel_runs(size_t i, uint64_t *called, uint64_t *left);
}

namespace opdb {

/* One kernel of this library after registration. */
struct Registration {
    char key[executorch::runtime::internal::kKernelKeyBufSize]; /* as the runtime spells it */
    executorch::runtime::OpFunction own;
    std::atomic<uint64_t> called, left;
    executorch::runtime::OpFunction other; /* of another library, for all types: NULL where there is none */

    /* Runs the own kernel, and the other one where the arguments are nothing for the own. */
    void run(executorch::runtime::KernelRuntimeContext &context,
             executorch::runtime::Span<executorch::runtime::EValue *> stack);
};

/* Registers what nobody has registered, with `functions` in the place of the kernels' own; fills the two
 * other arrays. */
bool register_absent(executorch::runtime::Kernel *kernels, const executorch::runtime::OpFunction *functions,
                     Registration *registrations, opdb_kernel_record *records, size_t count);

/* Whether another library has a kernel of this operator, so that one that refuses its arguments is no error.
 */
bool has_other(const char *op);

} // namespace opdb
#endif
