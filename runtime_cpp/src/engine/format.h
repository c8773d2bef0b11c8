// Constants of the engine file (docs/design/engine-file.md).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "slipstream/status.h"

namespace slipstream::engine {

inline constexpr std::array<uint8_t, 8> kMagic = {0x89, 'S', 'L', 'E', '\r', '\n', 0x1A, '\n'};
inline constexpr int32_t kFormatMajor = 1;
inline constexpr int32_t kFormatMinor = 0;
inline constexpr uint64_t kHeaderSize = 128;
inline constexpr uint64_t kSectionAlignment = 4096;
inline constexpr uint64_t kTensorAlignment = 256;
inline constexpr uint64_t kMaxManifestSize = uint64_t{64} << 20;
inline constexpr uint64_t kHashSize = 16;
inline constexpr int64_t kMaxChunkBytes = int64_t{1} << 30;
inline constexpr std::string_view kNumerics = "cpu-numerics/1";
inline constexpr std::string_view kHashAlgorithm = "xxh3_128";
inline constexpr std::string_view kWeightsSection = "weights";

/// `offset` must be below 2^63.
constexpr uint64_t AlignUp(uint64_t offset, uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

/// kCorruptFile: "PATH is damaged: PROBLEM. Rebuild it or copy it again."
inline Status DamagedFile(const std::string& path, const std::string& problem) {
  return Status(StatusCode::kCorruptFile,
                path + " is damaged: " + problem + ". Rebuild it or copy it again.");
}

}  // namespace slipstream::engine
