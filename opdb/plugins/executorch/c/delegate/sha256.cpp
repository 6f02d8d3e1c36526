#include "sha256.h"

#include <cstring>

namespace opdb::delegate {

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
/* The same for the square roots of the first 8. */
static const uint32_t H[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                              0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static uint32_t turn(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

static void block(uint32_t h[8], const uint8_t *data) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; ++i)
        w[i] = (uint32_t)data[4 * i] << 24 | (uint32_t)data[4 * i + 1] << 16 |
               (uint32_t)data[4 * i + 2] << 8 | data[4 * i + 3];
    for (int i = 16; i < 64; ++i) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ (a >> 3)) + w[i - 7] +
               (turn(b, 17) ^ turn(b, 19) ^ (b >> 10));
    }
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; ++i) {
        const uint32_t one = v[7] + (turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25)) +
                             ((v[4] & v[5]) ^ (~v[4] & v[6])) + K[i] + w[i];
        const uint32_t two = (turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22)) +
                             ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        v[7] = v[6], v[6] = v[5], v[5] = v[4], v[4] = v[3] + one;
        v[3] = v[2], v[2] = v[1], v[1] = v[0], v[0] = one + two;
    }
    for (int i = 0; i < 8; ++i)
        h[i] += v[i];
}

Sha256::Sha256() { memcpy(h_, H, sizeof h_); }

void Sha256::add(const uint8_t *data, size_t size) {
    const size_t held = bytes_ % 64;
    bytes_ += size;
    if (held > 0) {
        const size_t taken = size < 64 - held ? size : 64 - held;
        memcpy(rest_ + held, data, taken);
        if (held + taken < 64)
            return;
        block(h_, rest_);
        data += taken;
        size -= taken;
    }
    for (; size >= 64; data += 64, size -= 64)
        block(h_, data);
    if (size > 0)
        memcpy(rest_, data, size);
}

/* The padding: one bit, zeros, the number of bits. */
void Sha256::digest(uint8_t out[SHA256_BYTES]) {
    const uint64_t bits = bytes_ * 8;
    const size_t held = bytes_ % 64;
    uint8_t end[72] = {0x80};
    const size_t zeros = (held < 56 ? 56 : 120) - held;
    for (int i = 0; i < 8; ++i)
        end[zeros + i] = (uint8_t)(bits >> (56 - 8 * i));
    add(end, zeros + 8);
    for (int i = 0; i < SHA256_BYTES; ++i)
        out[i] = (uint8_t)(h_[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256(const uint8_t *data, size_t size, uint8_t digest[SHA256_BYTES]) {
    Sha256 sum;
    sum.add(data, size);
    sum.digest(digest);
}

} // namespace opdb::delegate
