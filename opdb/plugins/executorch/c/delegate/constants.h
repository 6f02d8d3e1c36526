/* The bytes that a blob's records point at: in the blob, or in the program beside it. */
#ifndef OPDB_DELEGATE_CONSTANTS_H
#define OPDB_DELEGATE_CONSTANTS_H

#include <executorch/runtime/core/freeable_buffer.h>
#include <executorch/runtime/core/named_data_map.h>

#include "blob.h"
#include "memory.h"

namespace opdb::delegate {

class Constants {
  public:
    Constants() = default;
    ~Constants();
    Constants(const Constants &) = delete;
    Constants &operator=(const Constants &) = delete;

    /* Takes all named data from the program and compares their checksums.  `blob` has to stay. */
    Error load(const Blob &blob, const executorch::runtime::NamedDataMap *program, Memory &memory);
    /* Not copied: from the blob or from the program's memory. */
    const uint8_t *at(Held data, uint64_t offset) const {
        return data == Held::HERE ? blob_->data(offset) : static_cast<const uint8_t *>(named(offset).data());
    }
    /* The context file of a blob that has one. */
    const uint8_t *context() const;
    /* Gives the context file back to the program: it has been read. */
    void free_context();

  private:
    executorch::runtime::FreeableBuffer &named(uint64_t i) const { return buffers_[i]; }
    Error check(const NamedRecord &record, const executorch::runtime::FreeableBuffer &found) const;

    const Blob *blob_ = nullptr;
    executorch::runtime::FreeableBuffer *buffers_ = nullptr;
    uint32_t loaded_ = 0;
};

} // namespace opdb::delegate

#endif
