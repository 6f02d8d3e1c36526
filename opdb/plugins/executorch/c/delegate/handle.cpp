#include "handle.h"

#include <new>

#include "instructions.h"

namespace opdb::delegate {

using executorch::runtime::BackendInitContext;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Span;

Error Handle::make(BackendInitContext &context, const FreeableBuffer &processed, const char *folders,
                   Handle **out) {
    Memory memory(*context.get_runtime_allocator());
    void *const place = memory.take(sizeof(Handle));
    if (!memory.ok())
        return memory.error();
    Handle *const made = new (place) Handle;
    const Error error = made->prepare(context, processed, folders, memory);
    if (error != Error::Ok) {
        made->~Handle();
        return error;
    }
    *out = made;
    return Error::Ok;
}

Handle::~Handle() {
    if (program_ != nullptr)
        program_->~Program();
}

Error Handle::prepare(BackendInitContext &context, const FreeableBuffer &processed, const char *folders,
                      Memory &memory) {
    const uint8_t *data = static_cast<const uint8_t *>(processed.data());
    if (reinterpret_cast<uintptr_t>(data) % ALIGN != 0) {
        void *const aligned = memory.take(processed.size(), ALIGN);
        if (!memory.ok())
            return memory.error();
        data = static_cast<const uint8_t *>(memcpy(aligned, data, processed.size()));
    }
    Error error = blob_.read(data, processed.size());
    if (error == Error::Ok)
        error = constants_.load(blob_, context.get_named_data_map(), memory);
    if (error == Error::Ok)
        error = ends_.prepare(blob_, constants_, memory);
    if (error == Error::Ok)
        error = start(folders, memory);
    if (error == Error::Ok)
        instruction_ = next_instruction(blob_.sha256());
    return error;
}

Error Handle::start(const char *folders, Memory &memory) {
    const bool on_qnn = blob_.string(blob_.info().backend)[0] != 0;
    if (!on_qnn && blob_.payload() == Payload::CONTEXT)
        return fail(Error::InvalidProgram, "the blob is malformed: it has a context and no backend");
    void *const place = memory.take(on_qnn ? sizeof(QnnProgram) : sizeof(KernelProgram));
    if (!memory.ok())
        return memory.error();
    if (!on_qnn) {
        KernelProgram *const made = new (place) KernelProgram;
        program_ = made;
        return made->prepare(blob_, ends_, memory);
    }
    QnnProgram *const made = new (place) QnnProgram;
    program_ = made;
    return made->prepare(blob_, constants_, ends_, folders, memory);
}

Error Handle::execute(EventTracer *tracer, Span<EValue *> args) {
    Error error = ends_.bind(args);
    if (error != Error::Ok)
        return error;
    const Events events(tracer, instruction_);
    error = program_->run(ends_, events);
    if (error == Error::Ok)
        ends_.finish(args);
    return error;
}

} // namespace opdb::delegate
