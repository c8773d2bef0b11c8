// The manifest: JSON -> checked values -> compatibility list.
#include <cstdint>
#include <string_view>

#include "engine/compatibility.h"
#include "engine/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  // Far enough into a file that offsets of any small example are inside.
  const auto manifest = slipstream::engine::ParseManifest(json, uint64_t{1} << 30);
  if (manifest.ok()) (void)slipstream::engine::CheckCompatibility(*manifest);
  return 0;
}
