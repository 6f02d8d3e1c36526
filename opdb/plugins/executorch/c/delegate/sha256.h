/* SHA-256 (FIPS 180-4): a blob's bytes are checked before anything reads them. */
#ifndef OPDB_DELEGATE_SHA256_H
#define OPDB_DELEGATE_SHA256_H

#include <cstddef>
#include <cstdint>

namespace opdb::delegate {

enum { SHA256_BYTES = 32 };

/* Takes any number of pieces. */
class Sha256 {
  public:
    Sha256();
    void add(const uint8_t *data, size_t size);
    void digest(uint8_t out[SHA256_BYTES]);

  private:
    uint32_t h_[8];
    uint64_t bytes_ = 0;
    uint8_t rest_[64];
};

void sha256(const uint8_t *data, size_t size, uint8_t digest[SHA256_BYTES]);

} // namespace opdb::delegate

#endif
