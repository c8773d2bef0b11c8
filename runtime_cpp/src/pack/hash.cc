#include "pack/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace slipstream::pack {
namespace {

Hash128 Canonical(XXH128_hash_t value) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, value);
  Hash128 hash;
  for (size_t i = 0; i < hash.bytes.size(); ++i) hash.bytes[i] = canonical.digest[i];
  return hash;
}

}  // namespace

std::string Hash128::Hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (uint8_t byte : bytes) {
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

Hash128 Xxh3_128(std::span<const std::byte> data) {
  return Canonical(XXH3_128bits(data.data(), data.size()));
}

struct Xxh3Stream::State {
  XXH3_state_t xxh;  // Over-aligned to 64 bytes by its own declaration; operator new honours that.
};

Xxh3Stream::Xxh3Stream() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Xxh3Stream::~Xxh3Stream() = default;
Xxh3Stream::Xxh3Stream(Xxh3Stream&&) noexcept = default;
Xxh3Stream& Xxh3Stream::operator=(Xxh3Stream&&) noexcept = default;

void Xxh3Stream::Update(std::span<const std::byte> data) {
  XXH3_128bits_update(&state_->xxh, data.data(), data.size());
}

Hash128 Xxh3Stream::Digest() const { return Canonical(XXH3_128bits_digest(&state_->xxh)); }

}  // namespace slipstream::pack
