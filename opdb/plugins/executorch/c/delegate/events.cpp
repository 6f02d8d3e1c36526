#include "events.h"

#include <cstring>
#include <mutex>

#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/platform/platform.h>

namespace opdb::delegate {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::runtime::EventTracerDebugLogLevel;
using executorch::runtime::EventTracerProfilingLevel;
using executorch::runtime::kUnsetChainId;
using executorch::runtime::kUnsetDebugHandle;

/* The block begun last: calls of one execution have rising instructions. */
static std::mutex blocks;
static EventTracer *last_tracer;
static int32_t last_instruction;

void forget_blocks() {
    const std::lock_guard<std::mutex> held(blocks);
    last_tracer = nullptr;
}

Events::Events(EventTracer *tracer, int32_t instruction) : tracer_(tracer) {
    if (tracer_ == nullptr || tracer_->current_chain_id() != kUnsetChainId)
        return; /* the runtime has set it */
    placed_ = true;
    bool first;
    {
        const std::lock_guard<std::mutex> held(blocks);
        first = tracer_ != last_tracer || instruction <= last_instruction;
        last_tracer = tracer_;
        last_instruction = instruction;
    }
    if (first)
        tracer_->create_event_block("Execute");
    tracer_->set_chain_debug_handle(0, instruction > 0 ? (uint32_t)instruction : 0);
}

Events::~Events() {
    if (placed_)
        tracer_->set_chain_debug_handle(kUnsetChainId, kUnsetDebugHandle);
}

bool Events::times() const {
    return tracer_ != nullptr &&
           tracer_->event_tracer_profiling_level() == EventTracerProfilingLevel::kProfileAllEvents;
}

bool Events::values() const {
    return tracer_ != nullptr &&
           tracer_->event_tracer_debug_level() == EventTracerDebugLogLevel::kIntermediateOutputs;
}

void Events::time(uint32_t op, uint64_t start, uint64_t end, const char *metadata) const {
    const size_t length = metadata != nullptr ? strlen(metadata) : 0;
    tracer_->log_profiling_delegate(nullptr, (int32_t)op, start, end, metadata, length);
}

/* The type in which ExecuTorch stores the values. */
static bool stored_as(enum opdb_dtype dtype, ScalarType *out) {
    switch (dtype) {
    case OPDB_F64:
        return *out = ScalarType::Double, true;
    case OPDB_F32:
        return *out = ScalarType::Float, true;
    case OPDB_F16:
        return *out = ScalarType::Half, true;
    case OPDB_BF16:
        return *out = ScalarType::BFloat16, true;
    case OPDB_I64:
        return *out = ScalarType::Long, true;
    case OPDB_I32:
    case OPDB_SQ32:
        return *out = ScalarType::Int, true;
    case OPDB_I16:
    case OPDB_SQ16:
        return *out = ScalarType::Short, true;
    case OPDB_I8:
    case OPDB_SQ8:
        return *out = ScalarType::Char, true;
    case OPDB_U8:
    case OPDB_UQ8:
        return *out = ScalarType::Byte, true;
    case OPDB_U16:
    case OPDB_UQ16:
        return *out = ScalarType::UInt16, true;
    case OPDB_U32:
    case OPDB_UQ32:
        return *out = ScalarType::UInt32, true;
    case OPDB_BOOL8:
        return *out = ScalarType::Bool, true;
    default:
        return false;
    }
}

void Events::value(uint32_t op, const opdb_tensor &tensor) const {
    ScalarType type;
    if (!stored_as(tensor.dtype, &type) || tensor.data == nullptr)
        return;
    TensorImpl::SizesType sizes[OPDB_MAX_RANK];
    TensorImpl::DimOrderType order[OPDB_MAX_RANK];
    TensorImpl::StridesType strides[OPDB_MAX_RANK];
    int64_t stride = 1;
    for (uint32_t i = tensor.rank; i-- > 0;) {
        sizes[i] = (TensorImpl::SizesType)tensor.dims[i];
        order[i] = (TensorImpl::DimOrderType)i;
        strides[i] = (TensorImpl::StridesType)stride;
        stride *= tensor.dims[i];
    }
    TensorImpl impl(type, tensor.rank, sizes, tensor.data, order, strides);
    (void)tracer_->log_intermediate_output_delegate(nullptr, (int32_t)op, Tensor(&impl));
}

uint64_t now() { return executorch::runtime::pal_current_ticks(); }

uint64_t ticks_of(double nanoseconds) {
    const et_tick_ratio_t ratio = executorch::runtime::pal_ticks_to_ns_multiplier();
    return (uint64_t)(nanoseconds * (double)ratio.denominator / (double)ratio.numerator);
}

} // namespace opdb::delegate
