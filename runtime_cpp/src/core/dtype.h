// Element types of weights and of the KV cache, by the names that the engine file uses.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace slipstream::core {

enum class DType : uint8_t { kF32 = 0, kF16 = 1, kBF16 = 2 };

/// Bytes of one element.
constexpr int32_t DTypeSize(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

/// "f32", "f16" or "bf16".
constexpr const char* DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
  }
  return "unknown";
}

/// Nothing for a name that this version does not know.
constexpr std::optional<DType> ParseDType(std::string_view name) {
  if (name == "f32") return DType::kF32;
  if (name == "f16") return DType::kF16;
  if (name == "bf16") return DType::kBF16;
  return std::nullopt;
}

}  // namespace slipstream::core
