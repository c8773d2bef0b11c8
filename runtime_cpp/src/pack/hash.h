// XXH3-128 as the engine file uses it: sections, weight chunks, build ids.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace slipstream::pack {

/// 128 bits in canonical (big-endian) byte order.
struct Hash128 {
  std::array<uint8_t, 16> bytes{};

  /// 32 lower-case hex digits.
  std::string Hex() const;
  bool operator==(const Hash128&) const = default;
};

/// Hash of `data` with seed 0. Thread-safe.
Hash128 Xxh3_128(std::span<const std::byte> data);

/// The same hash over data that arrives in pieces. Not thread-safe. Allocates about 600 bytes;
/// throws std::bad_alloc.
class Xxh3Stream {
 public:
  Xxh3Stream();
  ~Xxh3Stream();
  Xxh3Stream(Xxh3Stream&&) noexcept;
  Xxh3Stream& operator=(Xxh3Stream&&) noexcept;

  void Update(std::span<const std::byte> data);
  /// Hash of everything so far; more may follow.
  Hash128 Digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slipstream::pack
