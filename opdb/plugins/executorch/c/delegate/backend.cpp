/* opdb's delegate in ExecuTorch's runtime. */
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>

#include <executorch/runtime/backend/interface.h>

#include "handle.h"
#include "instructions.h"

namespace opdb::delegate {

using executorch::runtime::ArrayRef;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendInterface;
using executorch::runtime::BackendOption;
using executorch::runtime::BackendOptionContext;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::kMaxOptionValueLength;
using executorch::runtime::Result;
using executorch::runtime::Span;

static const char NAME[] = "OpdbBackend";
static const char FOLDERS[] = "qnn_libraries";

/* The folder of QNN's libraries: from the option, else from the environment. */
static std::mutex setting;
static char folders[4096];

static bool set_folders(const char *text) {
    const std::lock_guard<std::mutex> held(setting);
    if (strlen(text) >= sizeof folders)
        return false;
    strcpy(folders, text);
    return true;
}

static void get_folders(BackendInitContext &context, char *out, size_t size) {
    const auto spec = context.get_runtime_spec<const char *>(FOLDERS);
    const std::lock_guard<std::mutex> held(setting);
    const char *const variable = getenv("OPDB_QNN_LIBRARIES");
    const char *const text = spec.ok()             ? spec.get()
                             : folders[0] != 0     ? folders
                             : variable != nullptr ? variable
                                                   : "";
    strncpy(out, text, size - 1);
    out[size - 1] = 0;
}

class OpdbBackend final : public BackendInterface {
  public:
    /* A blob's requirements are known when it is loaded; a failure is then in the log. */
    bool is_available() const override { return true; }

    Result<DelegateHandle *> init(BackendInitContext &context, FreeableBuffer *processed,
                                  ArrayRef<CompileSpec>) const override {
        char where[sizeof folders];
        get_folders(context, where, sizeof where);
        forget_blocks();
        Handle *handle = nullptr;
        const Error error = Handle::make(context, *processed, where, &handle);
        if (error != Error::Ok)
            return error;
        return handle;
    }

    Error execute(BackendExecutionContext &context, DelegateHandle *handle,
                  Span<EValue *> args) const override {
        if (handle == nullptr)
            return fail(Error::DelegateInvalidHandle, "execute was called without a handle");
        return static_cast<Handle *>(handle)->execute(context.event_tracer(), args);
    }

    void destroy(DelegateHandle *handle) const override {
        if (handle != nullptr)
            static_cast<Handle *>(handle)->~Handle(); /* its memory is ExecuTorch's */
    }

    Error set_option(BackendOptionContext &, const Span<BackendOption> &options) override {
        for (const BackendOption &option : options) {
            const auto *const text = std::get_if<std::array<char, kMaxOptionValueLength>>(&option.value);
            if (strcmp(option.key, FOLDERS) != 0 || text == nullptr || !set_folders(text->data()))
                return fail(Error::InvalidArgument, "the option %s: there is %s, a text", option.key,
                            FOLDERS);
        }
        return Error::Ok;
    }
};

static OpdbBackend backend;
static const Error registered = executorch::runtime::register_backend({NAME, &backend});

} // namespace opdb::delegate

extern "C" {
/* 0, or ExecuTorch's error when it refused the backend. */
__attribute__((visibility("default"))) uint32_t opdb_delegate_registered(void) {
    return (uint32_t)opdb::delegate::registered;
}

/* Like the option qnn_libraries, but of any path length; false if it is too long. */
__attribute__((visibility("default"))) bool opdb_delegate_qnn_libraries(const char *text) {
    return opdb::delegate::set_folders(text);
}
}
