// A file mapped read-only and shared: processes that serve the same engine hold its weights once.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "slipstream/status.h"

namespace slipstream::engine {

/// Unmaps on destruction. Movable; const access is thread-safe. A file that is truncated while it
/// is mapped ends the process with SIGBUS on access: replace engine files by renaming a new one
/// over them, never in place.
class MappedFile {
 public:
  /// Errors: kNotFound (no such file), kIo (not a regular file, no permission, the system refused).
  static Result<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  /// The whole file; empty for an empty one. Nothing is read from disk until a page is touched.
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  /// Asks the kernel to read [offset, offset + size) ahead. Only a hint; out-of-range parts are
  /// ignored.
  void WillNeed(size_t offset, size_t size) const;

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace slipstream::engine
