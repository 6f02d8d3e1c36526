#include "constants.h"

#include <new>

#include "sha256.h"

namespace opdb::delegate {

using executorch::runtime::FreeableBuffer;
using executorch::runtime::NamedDataMap;

Constants::~Constants() {
    while (loaded_ > 0)
        buffers_[--loaded_].~FreeableBuffer();
}

Error Constants::load(const Blob &blob, const NamedDataMap *program, Memory &memory) {
    blob_ = &blob;
    const Records<NamedRecord> records = blob.named();
    if (records.n == 0)
        return Error::Ok;
    if (program == nullptr)
        return fail(Error::InvalidProgram,
                    "the program was loaded without its named data, which the blob needs");
    buffers_ = static_cast<FreeableBuffer *>(memory.take((size_t)records.n * sizeof(FreeableBuffer)));
    if (!memory.ok())
        return memory.error();
    for (const NamedRecord &record : records) {
        auto found = program->get_data(blob.string(record.key));
        if (!found.ok())
            return fail(found.error(), "the program has no named data %s; lower the model again",
                        blob.string(record.key));
        new (&buffers_[loaded_++]) FreeableBuffer(std::move(found.get()));
        const Error error = check(record, buffers_[loaded_ - 1]);
        if (error != Error::Ok)
            return error;
    }
    return Error::Ok;
}

Error Constants::check(const NamedRecord &record, const FreeableBuffer &found) const {
    uint8_t digest[SHA256_BYTES];
    const uint8_t *const data = static_cast<const uint8_t *>(found.data());
    if (found.size() == record.size)
        sha256(data, found.size(), digest);
    if (found.size() != record.size || memcmp(digest, record.sha256, sizeof digest) != 0)
        return fail(Error::InvalidExternalData,
                    "the program's named data %s are damaged: not those that were written",
                    blob_->string(record.key));
    if (reinterpret_cast<uintptr_t>(data) % 8 != 0)
        return fail(Error::InvalidExternalData, "the program's named data %s do not begin at a multiple of 8",
                    blob_->string(record.key));
    return Error::Ok;
}

const uint8_t *Constants::context() const {
    const uint32_t record = blob_->info().context;
    return record == NONE ? blob_->context().v : static_cast<const uint8_t *>(named(record).data());
}

void Constants::free_context() {
    if (blob_->info().context != NONE)
        named(blob_->info().context).Free();
}

} // namespace opdb::delegate
