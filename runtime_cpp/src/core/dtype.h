// Element types of weights and of the KV cache, by the names that the engine file uses.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace slipstream::core {

/// kInt8 is a type of the KV cache only: symmetric, with a scale for each token and head.
enum class DType : uint8_t { kF32 = 0, kF16 = 1, kBF16 = 2, kInt8 = 3 };

/// Bytes of one element.
constexpr int32_t DTypeSize(DType dtype) {
  return dtype == DType::kF32 ? 4 : dtype == DType::kInt8 ? 1 : 2;
}

/// Bytes of the scale that goes with each token and head of a K or V of this type; 0 for none.
constexpr int32_t KvScaleBytes(DType dtype) { return dtype == DType::kInt8 ? 4 : 0; }

/// What a scale of a KV cache of this type belongs to, as the engine file says it.
constexpr const char* KvScaleGranularity(DType dtype) {
  return KvScaleBytes(dtype) > 0 ? "token_head" : "none";
}

/// "f32", "f16", "bf16" or "int8".
constexpr const char* DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    case DType::kInt8:
      return "int8";
  }
  return "unknown";
}

/// The type of a weight; nothing for a name that this version does not know.
constexpr std::optional<DType> ParseDType(std::string_view name) {
  if (name == "f32") return DType::kF32;
  if (name == "f16") return DType::kF16;
  if (name == "bf16") return DType::kBF16;
  return std::nullopt;
}

/// The type of a KV cache: those of weights, and int8.
constexpr std::optional<DType> ParseKvDType(std::string_view name) {
  return name == "int8" ? DType::kInt8 : ParseDType(name);
}

}  // namespace slipstream::core
