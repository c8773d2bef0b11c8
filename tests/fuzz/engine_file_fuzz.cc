// A whole engine file, through the loader with the full check.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "core/sha256.h"
#include "engine/engine_file.h"

namespace {

/// Makes file size and manifest hash right, so that mutations reach what lies behind them.
void Repair(std::string& bytes) {
  if (bytes.size() < 128) return;
  uint64_t offset = 0, length = 0;
  const uint64_t size = bytes.size();
  std::memcpy(bytes.data() + 16, &size, 8);
  std::memcpy(&offset, bytes.data() + 24, 8);
  if (offset > size) return;
  length = size - offset;
  std::memcpy(bytes.data() + 32, &length, 8);
  const std::string_view manifest(bytes.data() + offset, length);
  const auto digest =
      slipstream::core::Sha256(std::as_bytes(std::span(manifest.data(), manifest.size())));
  std::memcpy(bytes.data() + 40, digest.data(), 32);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int fd = memfd_create("engine_file_fuzz", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  std::string bytes(reinterpret_cast<const char*>(data), size);
  for (bool repaired : {false, true}) {
    if (repaired) Repair(bytes);
    if (ftruncate(fd, 0) != 0 ||
        pwrite(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
      return 0;
    }
    (void)slipstream::engine::EngineFile::Load(path, slipstream::Verify::kFull);
  }
  return 0;
}
