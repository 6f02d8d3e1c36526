/* Registers kernels with ExecuTorch's runtime, except those that it already has: registering one twice ends
 * the process. */
#ifndef OPDB_REGISTRATION_H
#define OPDB_REGISTRATION_H

#include <atomic>

#include <executorch/runtime/kernel/operator_registry.h>

extern "C" {
/* The result for one kernel. */
typedef struct {
    const char *op;  /* e.g. aten::gelu.out */
    const char *key; /* of a specialized kernel, e.g. v1/6;0,1|6;0,1|6;0,1; NULL for the one that takes all */
    const char *owner; /* NULL: registered; else the library whose kernel stays in place */
} opdb_kernel_record;

/* All kernels of this library, in the order of its functions.yaml and custom_ops.yaml. */
const opdb_kernel_record *opdb_kernel_records(size_t *count);

/* The number of calls of kernel `i`, and the number of those that went on to another library's kernel. */
void opdb_kernel_runs(size_t i, uint64_t *called, uint64_t *left);
}

namespace opdb {

/* One kernel of this library after registration. */
struct Registration {
    char key[executorch::runtime::internal::kKernelKeyBufSize]; /* as the runtime spells it */
    executorch::runtime::OpFunction own;
    std::atomic<uint64_t> called, left;
    executorch::runtime::OpFunction other; /* of another library, for all types: NULL if there is none */

    /* Runs this library's kernel, or the other one if this one refuses the arguments. */
    void run(executorch::runtime::KernelRuntimeContext &context,
             executorch::runtime::Span<executorch::runtime::EValue *> stack);
};

/* Registers the kernels that nobody has registered, with `functions` instead of the kernels' own; fills the
 * two other arrays. */
bool register_absent(executorch::runtime::Kernel *kernels, const executorch::runtime::OpFunction *functions,
                     Registration *registrations, opdb_kernel_record *records, size_t count);

/* True if another library has a kernel for this operator, so that refusing the arguments is not an error. */
bool has_other(const char *op);

} // namespace opdb
#endif
