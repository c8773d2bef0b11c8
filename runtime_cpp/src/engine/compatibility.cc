#include "engine/compatibility.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "core/dtype.h"
#include "core/excerpt.h"
#include "engine/format.h"

namespace slipstream::engine {
namespace {

constexpr std::string_view kNewer = "use a newer version of Slipstream";
constexpr int32_t kBlockTokens =
    32;  // Positions of a KV block that the CPU kernels are written for.

/// A message lists so many things of a kind; a hostile file may have thousands.
constexpr ptrdiff_t kMostListed = 20;

bool KnownDType(const std::string& name) { return core::ParseDType(name).has_value(); }

class Checker {
 public:
  explicit Checker(const Manifest& manifest) : m_(manifest) {}

  std::vector<Mismatch> Run() {
    CheckFeatures();
    CheckNumbers();
    CheckTargets();
    CheckKv();
    CheckTensors();
    return std::move(mismatches_);
  }

 private:
  void Add(std::string problem, std::string fix) {
    mismatches_.push_back({std::move(problem), std::move(fix)});
  }

  void CheckFeatures() {
    for (const std::string& feature : m_.required_features) {
      Add("it requires the feature \"" + core::Excerpt(feature) +
              "\", which this version does not know",
          std::string(kNewer) + " (the file was built by " + core::Excerpt(m_.producer.name) + " " +
              core::Excerpt(m_.producer.version) + ")");
    }
  }

  void CheckNumbers() {
    if (m_.numerics != kNumerics) {
      Add("its numerics contract is \"" + core::Excerpt(m_.numerics) +
              "\"; this version computes by \"" + std::string(kNumerics) + "\"",
          "rebuild the engine with this version, or " + std::string(kNewer));
    }
    if (!KnownDType(m_.quantization.weights)) {
      Add("its weights are \"" + core::Excerpt(m_.quantization.weights) +
              "\"; this version runs f32, f16 and bf16",
          "rebuild it with --weights bf16, or " + std::string(kNewer));
    }
    if (m_.parallel.tp != 1) {
      Add("it is split over tp = " + std::to_string(m_.parallel.tp) +
              " ranks; this version runs tp = 1",
          "rebuild it without tensor parallelism");
    }
    if (m_.verification.algorithm != kHashAlgorithm) {
      Add("its weights are hashed by \"" + core::Excerpt(m_.verification.algorithm) +
              "\"; this version checks " + std::string(kHashAlgorithm),
          std::string(kNewer));
    }
  }

  void CheckTargets() {
    const Target* cpu = m_.FindTarget("cpu");
    if (cpu != nullptr && !cpu->section.empty()) return;
    std::string names;
    for (const Target& target : m_.targets) {
      if (&target - m_.targets.data() == kMostListed) {
        names += ", ...";
        break;
      }
      names += (names.empty() ? "" : ", ") + core::Excerpt(target.name);
    }
    Add("it holds no plan for the target cpu (its targets: " + (names.empty() ? "none" : names) +
            ")",
        "rebuild it with --target cpu");
  }

  void CheckKv() {
    if (!core::ParseKvDType(m_.quantization.kv_cache).has_value()) {
      Add("its KV cache is \"" + core::Excerpt(m_.quantization.kv_cache) +
              "\"; this version runs f32, f16, bf16 and int8",
          "rebuild it with --kv-cache bf16, or " + std::string(kNewer));
    }
    if (m_.kv_groups.empty()) {
      Add("it has no KV cache group", "rebuild it with this version");
    }
    for (size_t i = 0; i < m_.kv_groups.size(); ++i) {
      const KvGroup& group = m_.kv_groups[i];
      const std::string where = "KV group " + std::to_string(i);
      if (group.kind != "full" && group.kind != "window") {
        Add(where + " is of kind \"" + core::Excerpt(group.kind) +
                "\"; this version runs full and window",
            std::string(kNewer));
      }
      const auto dtype = core::ParseKvDType(group.dtype);
      if (!dtype.has_value()) {
        Add(where + " holds \"" + core::Excerpt(group.dtype) +
                "\"; this version runs f32, f16, bf16 and int8",
            "rebuild it with --kv-cache bf16, or " + std::string(kNewer));
      }
      const char* granularity = core::KvScaleGranularity(dtype.value_or(core::DType::kF32));
      if (group.scale_granularity != granularity) {
        Add(where + " has scales of granularity \"" + core::Excerpt(group.scale_granularity) +
                "\"; this version runs " + granularity + " for " + core::Excerpt(group.dtype),
            "rebuild it with --kv-cache bf16, or " + std::string(kNewer));
      }
      if (group.block_tokens != kBlockTokens) {
        Add(where + " has blocks of " + std::to_string(group.block_tokens) +
                " tokens; this version runs " + std::to_string(kBlockTokens),
            "rebuild it with this version");
      }
    }
  }

  void CheckTensors() {
    // One line for each kind of problem, with the first tensor as the example, not one for each of
    // hundreds of tensors.
    struct Example {
      std::string name;
      int64_t count = 0;
    };
    std::map<std::string, Example> problems;
    const auto note = [&problems](std::string problem, const Tensor& tensor) {
      Example& example = problems[std::move(problem)];
      if (example.count++ == 0) example.name = tensor.name;
    };
    for (const Tensor& tensor : m_.tensors) {
      if (!KnownDType(tensor.format))
        note("the format \"" + core::Excerpt(tensor.format) + "\"", tensor);
      if (tensor.layout != "row_major" && tensor.layout != "n16k4") {
        note("the layout \"" + core::Excerpt(tensor.layout) + "\"", tensor);
      }
      if (tensor.has_scales) note("scales", tensor);
      if (tensor.has_shard) note("shards", tensor);
    }
    for (const auto& [problem, example] : problems) {
      Add(std::to_string(example.count) + " tensors use " + problem + " (such as \"" +
              core::NameExcerpt(example.name) + "\"), which this version does not know",
          std::string(kNewer));
    }
  }

  const Manifest& m_;
  std::vector<Mismatch> mismatches_;
};

}  // namespace

std::vector<Mismatch> CheckCompatibility(const Manifest& manifest) {
  return Checker(manifest).Run();
}

Status CompatibilityStatus(const std::string& path, const std::vector<Mismatch>& mismatches) {
  if (mismatches.empty()) return Status::Ok();
  std::string message = path + " is sound, but cannot run here:";
  for (const Mismatch& mismatch : mismatches) {
    if (&mismatch - mismatches.data() == kMostListed) {
      message += "\n- and " + std::to_string(mismatches.size() - kMostListed) + " more.";
      break;
    }
    message += "\n- " + mismatch.problem + ". Fix: " + mismatch.fix + ".";
  }
  return Status(StatusCode::kIncompatible, std::move(message));
}

}  // namespace slipstream::engine
