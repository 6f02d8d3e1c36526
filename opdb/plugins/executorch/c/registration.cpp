#include "registration.h"

#include <cstring>
#include <dlfcn.h>

#include <executorch/runtime/kernel/kernel_runtime_context.h>
#include <executorch/runtime/platform/log.h>

using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::get_registered_kernels;
using executorch::runtime::Kernel;
using executorch::runtime::KernelKey;
using executorch::runtime::KernelRuntimeContext;
using executorch::runtime::OpFunction;
using executorch::runtime::Span;
using executorch::runtime::internal::kKernelKeyBufSize;

namespace opdb {

/* ExecuTorch's generator writes the dim order of one dimension as "0,", its runtime as "0". */
static void spell(const char *generated, char *spelled) {
    size_t n = 0;
    for (const char *c = generated; *c != '\0' && n + 1 < kKernelKeyBufSize; ++c)
        if (*c != ',' || (c[1] != '|' && c[1] != '\0'))
            spelled[n++] = *c;
    spelled[n] = '\0';
}

static const char *owner(const Kernel &kernel) {
    Dl_info found;
    const void *function = reinterpret_cast<const void *>(kernel.op_);
    return dladdr(function, &found) != 0 && found.dli_fname != nullptr ? found.dli_fname : "the program";
}

static const Kernel *registered(const Kernel &kernel) {
    for (const Kernel &other : get_registered_kernels())
        if (strcmp(other.name_, kernel.name_) == 0 && other.kernel_key_ == kernel.kernel_key_)
            return &other;
    return nullptr;
}

static bool replaced(const opdb_kernel_record *records, size_t count, const char *op) {
    for (size_t i = 0; i < count; ++i)
        if (records[i].key != nullptr && records[i].owner == nullptr && strcmp(records[i].op, op) == 0)
            return true;
    return false;
}

/* The kernel for all types that was registered before those of this library. */
static const Kernel *others(const Kernel &kernel, const opdb_kernel_record *records, size_t count) {
    for (size_t i = 0; i < count; ++i)
        if (records[i].key == nullptr && records[i].owner == nullptr &&
            strcmp(records[i].op, kernel.name_) == 0)
            return nullptr;
    return registered(Kernel(kernel.name_, nullptr));
}

void Registration::run(KernelRuntimeContext &context, Span<EValue *> stack) {
    called.fetch_add(1, std::memory_order_relaxed);
    own(context, stack);
    const Error state = context.failure_state();
    if (other == nullptr ||
        (state != Error::NotSupported && state != Error::InvalidArgument && state != Error::InvalidType))
        return;
    left.fetch_add(1, std::memory_order_relaxed);
    context.fail(Error::Ok);
    other(context, stack);
}

bool has_other(const char *op) {
    size_t count;
    const opdb_kernel_record *const records = opdb_kernel_records(&count);
    for (size_t i = 0; i < count; ++i)
        if (records[i].key == nullptr && records[i].owner != nullptr && strcmp(records[i].op, op) == 0)
            return true;
    return false;
}

bool register_absent(Kernel *kernels, const OpFunction *functions, Registration *registrations,
                     opdb_kernel_record *records, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        Kernel &kernel = kernels[i];
        Registration &own = registrations[i];
        if (!kernel.kernel_key_.is_fallback()) {
            spell(kernel.kernel_key_.data(), own.key);
            kernel.kernel_key_ = KernelKey(own.key);
        }
        const Kernel *const other = registered(kernel);
        records[i] = {kernel.name_, kernel.kernel_key_.data(), other != nullptr ? owner(*other) : nullptr};
        if (other != nullptr)
            continue;
        const Kernel *const all = kernel.kernel_key_.is_fallback() ? nullptr : others(kernel, records, i);
        own.own = kernel.op_;
        own.other = all != nullptr ? all->op_ : nullptr;
        kernel.op_ = functions[i];
        if (register_kernel(kernel) != Error::Ok)
            return false;
    }
    for (size_t i = 0; i < count; ++i)
        if (records[i].owner != nullptr && !replaced(records, count, records[i].op))
            ET_LOG(Error,
                   "opdb's kernel of %s was left out: %s has one already, and a second ends the process; "
                   "specialize "
                   "it by data types and dim orders (opdb executorch kernels --for MODEL.pte), or leave that "
                   "library's out of your program",
                   records[i].op, records[i].owner);
    return true;
}

} // namespace opdb
