#include "engine/header.h"

#include <algorithm>
#include <cstring>

#include "engine/format.h"

namespace slipstream::engine {
namespace {

/// Little-endian value at `offset`; x86-64 is little-endian, and memcpy takes care of alignment.
template <class T>
T Load(std::span<const std::byte> file, size_t offset) {
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

bool HasMagic(std::span<const std::byte> file) {
  return file.size() >= kMagic.size() &&
         std::memcmp(file.data(), kMagic.data(), kMagic.size()) == 0;
}

/// The magic as it looks after a transfer in text mode, which drops or adds carriage returns.
bool HasMagicOfTextTransfer(std::span<const std::byte> file) {
  static constexpr uint8_t kDropped[] = {0x89, 'S', 'L', 'E', '\n'};
  static constexpr uint8_t kAdded[] = {0x89, 'S', 'L', 'E', '\r', '\r', '\n'};
  return (file.size() >= sizeof(kDropped) &&
          std::memcmp(file.data(), kDropped, sizeof(kDropped)) == 0) ||
         (file.size() >= sizeof(kAdded) && std::memcmp(file.data(), kAdded, sizeof(kAdded)) == 0);
}

std::string HexOfStart(std::span<const std::byte> file) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < std::min(file.size(), kMagic.size()); ++i) {
    const int byte = std::to_integer<int>(file[i]);
    if (i > 0) text += ' ';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

Result<Header> ParseHeader(std::span<const std::byte> file, const std::string& path) {
  if (file.empty()) {
    return Status(StatusCode::kCorruptFile, path + " is empty. Rebuild it or copy it again.");
  }
  if (!HasMagic(file)) {
    if (HasMagicOfTextTransfer(file)) {
      return DamagedFile(path, "line ends were converted, as a transfer in text mode does");
    }
    return Status(
        StatusCode::kCorruptFile,
        path +
            " is not a Slipstream engine file: it must start with 89 53 4c 45 0d 0a 1a 0a, "
            "but starts with " +
            HexOfStart(file) + ". Build an engine with build-engine, or check the path.");
  }
  if (file.size() < kHeaderSize) {
    return DamagedFile(path, "it has " + std::to_string(file.size()) +
                                 " bytes, but the header alone has " + std::to_string(kHeaderSize));
  }
  Header header;
  header.major = Load<uint16_t>(file, 8);
  header.minor = Load<uint16_t>(file, 10);
  if (header.major != kFormatMajor) {
    return Status(StatusCode::kIncompatible,
                  path + " has engine format " + std::to_string(header.major) + "." +
                      std::to_string(header.minor) + "; this version of Slipstream reads format " +
                      std::to_string(kFormatMajor) +
                      ". Rebuild the engine with this version, or use the version that built it.");
  }
  if (const uint32_t size = Load<uint32_t>(file, 12); size != kHeaderSize) {
    return DamagedFile(path, "the header says that it has " + std::to_string(size) +
                                 " bytes, expected " + std::to_string(kHeaderSize));
  }
  if (const uint64_t size = Load<uint64_t>(file, 16); size != file.size()) {
    return DamagedFile(path, "the file has " + std::to_string(file.size()) +
                                 " bytes, but its header says " + std::to_string(size) +
                                 (size > file.size() ? " (it is cut)" : ""));
  }
  header.manifest_offset = Load<uint64_t>(file, 24);
  header.manifest_size = Load<uint64_t>(file, 32);
  if (header.manifest_size == 0 || header.manifest_size > kMaxManifestSize) {
    return DamagedFile(path, "the header gives the manifest " +
                                 std::to_string(header.manifest_size) +
                                 " bytes; it must have 1 to " + std::to_string(kMaxManifestSize));
  }
  // Subtract, never add: the fields are not trusted and a sum could wrap.
  if (header.manifest_size > file.size() ||
      header.manifest_offset != file.size() - header.manifest_size ||
      header.manifest_offset < kSectionAlignment ||
      header.manifest_offset % kSectionAlignment != 0) {
    return DamagedFile(
        path, "the header puts the manifest at byte " + std::to_string(header.manifest_offset) +
                  " with " + std::to_string(header.manifest_size) +
                  " bytes; it must start at a multiple of 4096 and end the file of " +
                  std::to_string(file.size()) + " bytes");
  }
  std::memcpy(header.manifest_sha256.data(), file.data() + 40, header.manifest_sha256.size());
  for (size_t i = 72; i < kHeaderSize; ++i) {
    if (file[i] != std::byte{0}) {
      return DamagedFile(path, "byte " + std::to_string(i) + " of the header is " +
                                   std::to_string(std::to_integer<int>(file[i])) +
                                   ", expected 0 (reserved)");
    }
  }
  return header;
}

}  // namespace slipstream::engine
