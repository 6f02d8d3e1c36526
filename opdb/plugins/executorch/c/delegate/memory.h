/* Memory of ExecuTorch's method allocator, taken while a delegate is made; it lives as long as the method. */
#ifndef OPDB_DELEGATE_MEMORY_H
#define OPDB_DELEGATE_MEMORY_H

#include <cstring>
#include <type_traits>

#include <executorch/runtime/core/memory_allocator.h>

#include "fail.h"

namespace opdb::delegate {

class Memory {
  public:
    explicit Memory(executorch::runtime::MemoryAllocator &allocator) : allocator_(allocator) {}

    /* `size` bytes at a multiple of `alignment`, not initialized; never NULL where `ok`. */
    void *take(size_t size, size_t alignment = 16) {
        void *const memory = allocator_.allocate(size > 0 ? size : 1, alignment);
        if (memory == nullptr && ok_) {
            ok_ = false;
            (void)fail(Error::MemoryAllocationFailed, "ExecuTorch's allocator has no %zu bytes left", size);
        }
        return memory;
    }
    /* `n` zeroed objects; NULL, and no longer ok, if there is no room. */
    template <typename T> T *list(size_t n) {
        static_assert(std::is_trivially_copyable<T>::value, "memory is never constructed");
        size_t bytes;
        if (__builtin_mul_overflow(n, sizeof(T), &bytes))
            bytes = SIZE_MAX;
        void *const memory = ok_ ? take(bytes, alignof(T) > 8 ? alignof(T) : 8) : nullptr;
        return memory == nullptr ? nullptr : static_cast<T *>(memset(memory, 0, bytes));
    }
    bool ok() const { return ok_; }
    /* Total of all requests. */
    Error error() const { return ok_ ? Error::Ok : Error::MemoryAllocationFailed; }

  private:
    executorch::runtime::MemoryAllocator &allocator_;
    bool ok_ = true;
};

} // namespace opdb::delegate

#endif
