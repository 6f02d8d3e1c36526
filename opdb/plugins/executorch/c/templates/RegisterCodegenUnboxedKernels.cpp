// ${generated_comment}
#include <utility>

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/event_tracer_hooks.h>
#include <executorch/runtime/kernel/kernel_includes.h>
#include <executorch/runtime/kernel/operator_registry.h>
#include <executorch/runtime/platform/profiler.h>

#include "registration.h"
#include "${fn_header}"

namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::ArrayRef;
using executorch::runtime::EValue;
using executorch::runtime::Kernel;
using executorch::runtime::KernelRuntimeContext;
using executorch::runtime::Span;
namespace internal = executorch::runtime::internal;
using TensorList = ArrayRef<Tensor>;

Kernel kernels[] = {
    ${unboxed_kernels}
};

constexpr size_t NUM_KERNELS = sizeof kernels / sizeof kernels[0];
opdb::Registration registrations[NUM_KERNELS];
opdb_kernel_record records[NUM_KERNELS];

template <size_t I> void run(KernelRuntimeContext &context, Span<EValue *> stack) {
    registrations[I].run(context, stack);
}

template <size_t... I> bool register_all(std::index_sequence<I...>) {
    const executorch::runtime::OpFunction functions[] = {run<I>...};
    return opdb::register_absent(kernels, functions, registrations, records, NUM_KERNELS);
}

[[maybe_unused]] const bool registered = register_all(std::make_index_sequence<NUM_KERNELS>());

} // namespace

extern "C" {

__attribute__((visibility("default"))) const opdb_kernel_record *opdb_kernel_records(size_t *count) {
    *count = NUM_KERNELS;
    return records;
}

__attribute__((visibility("default"))) void opdb_kernel_runs(size_t i, uint64_t *called, uint64_t *left) {
    *called = registrations[i].called.load(std::memory_order_relaxed);
    *left = registrations[i].left.load(std::memory_order_relaxed);
}

}
