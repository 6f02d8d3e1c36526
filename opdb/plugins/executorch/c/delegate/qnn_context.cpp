#include "qnn_context.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace opdb::delegate {

/* Alignment that the vendor requires of a binary in memory; otherwise error 5005, or a crash. */
enum { BINARY_ALIGNMENT = 256 };

static std::mutex opening;
static QnnContext *contexts;

Error QnnContext::open(const QnnTarget &target, const char *folders, const uint8_t *binary, size_t size,
                       const uint8_t digest[SHA256_BYTES], QnnContext **out) {
    QnnLibrary *library = nullptr;
    Error error = QnnLibrary::open(target, folders, &library);
    if (error != Error::Ok)
        return error;
    const std::lock_guard<std::mutex> held(opening);
    for (QnnContext *known = contexts; known != nullptr; known = known->next_)
        if (known->library_ == library && memcmp(known->digest_, digest, SHA256_BYTES) == 0) {
            library->close(); /* the context has it open */
            ++known->users_;
            *out = known;
            return Error::Ok;
        }
    QnnContext *const made = new (std::nothrow) QnnContext;
    if (made == nullptr) {
        library->close();
        return fail(Error::DelegateMemoryAllocationFailed, "no memory for a context");
    }
    made->library_ = library;
    memcpy(made->digest_, digest, SHA256_BYTES);
    error = made->load(binary, size);
    if (error != Error::Ok) {
        library->close();
        delete made;
        return error;
    }
    made->next_ = contexts;
    *out = contexts = made;
    return Error::Ok;
}

Error QnnContext::load(const uint8_t *binary, size_t size) {
    void *aligned = nullptr;
    if (reinterpret_cast<uintptr_t>(binary) % BINARY_ALIGNMENT != 0) {
        if (posix_memalign(&aligned, BINARY_ALIGNMENT, size) != 0)
            return fail(Error::DelegateMemoryAllocationFailed, "no memory for %zu bytes of a context binary",
                        size);
        memcpy(aligned, binary, size);
        binary = static_cast<const uint8_t *>(aligned);
    }
    Qnn_ErrorHandle_t code;
    Error error = Error::Ok;
    {
        const std::lock_guard<std::mutex> calls(library_->lock());
        code = library_->api().contextCreateFromBinary(library_->backend(), library_->device(), nullptr,
                                                       binary, size, &handle_, nullptr);
        if (code != 0)
            error = library_->failed(Error::Internal, "load the context binary", code);
    }
    free(aligned);
    return error;
}

void QnnContext::close() {
    const std::lock_guard<std::mutex> held(opening);
    if (--users_ > 0)
        return;
    QnnContext **at = &contexts;
    while (*at != this)
        at = &(*at)->next_;
    *at = next_;
    {
        const std::lock_guard<std::mutex> calls(library_->lock());
        (void)library_->api().contextFree(handle_, nullptr);
    }
    library_->close();
    delete this;
}

Error QnnContext::graph(const char *name, Qnn_GraphHandle_t *out) const {
    const std::lock_guard<std::mutex> calls(library_->lock());
    const Qnn_ErrorHandle_t code = library_->api().graphRetrieve(handle_, name, out);
    return code == 0 ? Error::Ok : library_->failed(Error::InvalidProgram, name, code);
}

} // namespace opdb::delegate
