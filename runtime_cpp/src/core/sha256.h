// SHA-256 (FIPS 180-4), for the manifest of an engine file only; bulk data uses XXH3-128
// (pack/hash.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace slipstream::core {

/// Digest of `data`. Thread-safe, allocates nothing.
std::array<uint8_t, 32> Sha256(std::span<const std::byte> data);

}  // namespace slipstream::core
