#include "exec/cpu/plan.h"

#include <new>

#include "core/excerpt.h"
#include "core/json_util.h"
#include "core/resource_exhausted.h"
#include "exec/cpu/plan_parser.h"

namespace slipstream::exec::cpu {
namespace {

Status CheckGroups(const engine::Manifest& manifest) {
  for (const engine::KvGroup& group : manifest.kv_groups) {
    if (group.kind != "full" && group.kind != "window") {
      return Incompatible("cache group kind '" + core::Excerpt(group.kind) + "'",
                          "This build runs full and window groups.");
    }
    const auto type = core::ParseKvDType(group.dtype);
    if (!type.has_value() || group.scale_granularity != core::KvScaleGranularity(*type) ||
        group.block_tokens != kKvBlockTokens) {
      return Incompatible(
          "a cache of " + group.dtype + " in blocks of " + std::to_string(group.block_tokens),
          "This build runs f32, f16, bf16 and int8 in blocks of 32.");
    }
    if (group.head_dim > kMaxHeadDim) {
      return Incompatible("heads of " + std::to_string(group.head_dim) + " elements",
                          "This build runs up to " + std::to_string(kMaxHeadDim) + ".");
    }
    const int64_t of_head =
        int64_t{group.head_dim} * core::DTypeSize(*type) + core::KvScaleBytes(*type);
    const int64_t expected =
        static_cast<int64_t>(group.layers.size()) * 2 * group.kv_heads * kKvBlockTokens * of_head;
    if (group.kv_heads < 1 || group.head_dim < 1 || group.bytes_per_block != expected ||
        (group.kind == "window") != (group.window > 0)) {
      return Corrupt("a cache group of the manifest has " + std::to_string(group.bytes_per_block) +
                     " bytes per block, expected " + std::to_string(expected) +
                     ", or a wrong window");
    }
  }
  return Status::Ok();
}

}  // namespace

Result<CpuPlan> ParseCpuPlan(std::string_view json, const engine::Manifest& manifest) {
  try {
    if (Status status = CheckGroups(manifest); !status.ok()) return status;
    Result<core::JsonTree> root = core::ParseJson(json, "the CPU plan");
    if (root.status().code() == StatusCode::kResourceExhausted) return root.status();
    if (!root.ok()) return Status(StatusCode::kCorruptFile, root.status().message());
    core::JsonReader reader(*root, "the CPU plan", StatusCode::kCorruptFile);
    CpuPlan plan;
    PlanParser parser(manifest, &plan);
    if (Status status = parser.Parse(reader); !status.ok()) return status;
    if (!reader.ok()) return reader.status();
    ScheduleSteps(&plan);
    return plan;
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("Not enough memory to read the CPU plan of the engine file.");
  }
}

}  // namespace slipstream::exec::cpu
