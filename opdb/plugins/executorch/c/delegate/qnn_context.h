/* Contexts of QNN, read from binaries: one for all handles with the same binary, as several methods of a
 * program have. */
#ifndef OPDB_DELEGATE_QNN_CONTEXT_H
#define OPDB_DELEGATE_QNN_CONTEXT_H

#include "qnn_library.h"
#include "sha256.h"

namespace opdb::delegate {

class QnnContext {
  public:
    /* The context of a binary, whose SHA-256 is `digest`; it is not read after this.  Whoever opens it closes
     * it. */
    static Error open(const QnnTarget &target, const char *folders, const uint8_t *binary, size_t size,
                      const uint8_t digest[SHA256_BYTES], QnnContext **out);
    void close();

    QnnLibrary &library() const { return *library_; }
    /* A graph of it; lives as long as the context. */
    Error graph(const char *name, Qnn_GraphHandle_t *out) const;

  private:
    QnnContext() = default;
    Error load(const uint8_t *binary, size_t size);

    QnnContext *next_ = nullptr;
    QnnLibrary *library_ = nullptr;
    uint8_t digest_[SHA256_BYTES];
    size_t users_ = 1;
    Qnn_ContextHandle_t handle_ = nullptr;
};

} // namespace opdb::delegate

#endif
