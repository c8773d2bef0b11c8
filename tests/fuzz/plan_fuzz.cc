// The CPU plan against a manifest: the input is both, with a line "----" between them.
#include <cstdint>
#include <string_view>

#include "engine/manifest.h"
#include "exec/cpu/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view kSeparator = "\n----\n";
  const size_t at = input.find(kSeparator);
  if (at == std::string_view::npos) return 0;
  const auto manifest = slipstream::engine::ParseManifest(input.substr(0, at), uint64_t{1} << 30);
  if (!manifest.ok()) return 0;
  auto plan = slipstream::exec::cpu::ParseCpuPlan(input.substr(at + kSeparator.size()), *manifest);
  if (plan.ok()) slipstream::exec::cpu::ScheduleSteps(&*plan);
  return 0;
}
