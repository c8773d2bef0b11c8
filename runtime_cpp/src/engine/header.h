// The 128-byte header of an engine file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "slipstream/status.h"

namespace slipstream::engine {

struct Header {
  uint16_t major = 0;
  uint16_t minor = 0;
  uint64_t manifest_offset = 0;
  uint64_t manifest_size = 0;
  std::array<uint8_t, 32> manifest_sha256{};
};

/// Reads and checks the header of a whole mapped file: magic, version, sizes against the real file,
/// reserved zeros. Afterwards [manifest_offset, manifest_offset + manifest_size) is the end of
/// `file`. Errors: kCorruptFile (also for a file that is no engine at all), kIncompatible (another
/// major version).
Result<Header> ParseHeader(std::span<const std::byte> file, const std::string& path);

}  // namespace slipstream::engine
