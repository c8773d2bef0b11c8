#include "engine/engine_file.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "core/excerpt.h"
#include "core/resource_exhausted.h"
#include "core/sha256.h"
#include "engine/compatibility.h"
#include "engine/format.h"
#include "engine/header.h"
#include "pack/hash.h"

namespace slipstream::engine {
namespace {

std::string Hex(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (uint8_t byte : bytes) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

}  // namespace

Result<std::shared_ptr<const EngineFile>> EngineFile::Open(const std::string& path) {
  try {
    Result<MappedFile> mapped = MappedFile::Open(path);
    if (!mapped.ok()) return mapped.status();
    std::shared_ptr<EngineFile> file(new EngineFile(path, std::move(*mapped)));
    if (Status status = file->ReadStructure(); !status.ok()) return status;
    return std::shared_ptr<const EngineFile>(std::move(file));
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("Out of memory while opening ", path, ". Free memory.");
  }
}

Result<std::shared_ptr<const EngineFile>> EngineFile::Load(const std::string& path,
                                                           slipstream::Verify verify) {
  Result<std::shared_ptr<const EngineFile>> file = Open(path);
  if (!file.ok()) return file;
  Status status = CompatibilityStatus(path, CheckCompatibility((*file)->manifest()));
  if (status.ok()) status = (*file)->Verify(verify);
  if (!status.ok()) return status;
  return file;
}

Status EngineFile::ReadStructure() {
  const std::span<const std::byte> bytes = file_.bytes();
  const Result<Header> header = ParseHeader(bytes, path_);
  if (!header.ok()) return header.status();
  const auto manifest = bytes.subspan(header->manifest_offset, header->manifest_size);
  if (const auto digest = core::Sha256(manifest); digest != header->manifest_sha256) {
    return DamagedFile(path_, "the manifest has sha256 " + Hex(digest) + ", expected " +
                                  Hex(header->manifest_sha256));
  }
  manifest_json_ = {reinterpret_cast<const char*>(manifest.data()), manifest.size()};
  Result<Manifest> parsed = ParseManifest(manifest_json_, header->manifest_offset);
  if (!parsed.ok()) {
    if (parsed.status().code() != StatusCode::kCorruptFile) return parsed.status();
    // The hash was right, so the file is as it was written: copying it again would not help.
    return Status(StatusCode::kCorruptFile, path_ + " was not written by a working builder: " +
                                                parsed.status().message() + " Rebuild it.");
  }
  manifest_ = std::move(*parsed);
  if (manifest_.format.major != header->major || manifest_.format.minor != header->minor) {
    return DamagedFile(path_, "the header says format " + std::to_string(header->major) + "." +
                                  std::to_string(header->minor) + ", its manifest " +
                                  std::to_string(manifest_.format.major) + "." +
                                  std::to_string(manifest_.format.minor));
  }
  return Status::Ok();
}

std::span<const std::byte> EngineFile::Bytes(const Section& section) const {
  return file_.bytes().subspan(section.offset, section.size);
}

std::span<const std::byte> EngineFile::SectionBytes(std::string_view name) const {
  const Section* section = manifest_.FindSection(name);
  return section == nullptr ? std::span<const std::byte>() : Bytes(*section);
}

std::string_view EngineFile::SectionText(std::string_view name) const {
  const std::span<const std::byte> bytes = SectionBytes(name);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Status EngineFile::Verify(slipstream::Verify verify) const {
  if (Status status = VerifySections(); !status.ok()) return status;
  if (Status status = VerifyPadding(); !status.ok()) return status;
  return verify == Verify::kFull ? VerifyWeights() : Status::Ok();
}

Status EngineFile::VerifySections() const {
  for (const Section& section : manifest_.sections) {
    if (section.name == kWeightsSection) continue;
    const std::string found = pack::Xxh3_128(Bytes(section)).Hex();
    if (found != section.hash) {
      return DamagedFile(path_, "the section " + core::NameExcerpt(section.name) + " (bytes " +
                                    std::to_string(section.offset) + " to " +
                                    std::to_string(section.offset + section.size) +
                                    ") has XXH3-128 " + found + ", expected " + section.hash);
    }
  }
  return Status::Ok();
}

Status EngineFile::VerifyPadding() const {
  // The sections are in order and without holes (ParseManifest), so the padding is what lies
  // between their ends and starts.
  uint64_t end = kHeaderSize;
  std::string before = "the header";
  const auto check = [&](uint64_t start) {
    for (uint64_t at = end; at < start; ++at) {
      if (file_.bytes()[at] != std::byte{0}) {
        return DamagedFile(
            path_, "byte " + std::to_string(at) + " of the padding after " + before + " is " +
                       std::to_string(std::to_integer<int>(file_.bytes()[at])) + ", expected 0");
      }
    }
    return Status::Ok();
  };
  for (const Section& section : manifest_.sections) {
    if (Status status = check(section.offset); !status.ok()) return status;
    end = section.offset + section.size;
    before = "the section " + core::NameExcerpt(section.name);
  }
  return check(AlignUp(end, kSectionAlignment));
}

Status EngineFile::VerifyWeights() const {
  if (manifest_.verification.algorithm != kHashAlgorithm) {
    // ParseManifest checks the sections below only for the algorithm that it knows.
    return CompatibilityStatus(path_, CheckCompatibility(manifest_));
  }
  const std::span<const std::byte> weights = SectionBytes(kWeightsSection);
  const std::span<const std::byte> hashes = SectionBytes(manifest_.verification.section);
  const uint64_t chunk = manifest_.verification.chunk_bytes;
  const uint64_t base = manifest_.FindSection(kWeightsSection)->offset;
  for (uint64_t at = 0, index = 0; at < weights.size(); at += chunk, ++index) {
    file_.WillNeed(base + at + chunk, chunk);  // Reads ahead while this chunk is hashed.
    const auto bytes = weights.subspan(at, std::min<uint64_t>(chunk, weights.size() - at));
    pack::Hash128 expected;
    std::memcpy(expected.bytes.data(), hashes.data() + index * kHashSize, kHashSize);
    if (const pack::Hash128 found = pack::Xxh3_128(bytes); found != expected) {
      std::string tensors;
      for (const Tensor& tensor : manifest_.tensors) {
        if (tensor.offset < at + bytes.size() && tensor.offset + tensor.size > at) {
          tensors = " in or near tensor " + core::NameExcerpt(tensor.name);
          break;
        }
      }
      return DamagedFile(
          path_, "chunk " + std::to_string(index) + " of the weights (bytes " +
                     std::to_string(base + at) + " to " + std::to_string(base + at + bytes.size()) +
                     tensors + ") has XXH3-128 " + found.Hex() + ", expected " + expected.Hex());
    }
  }
  return Status::Ok();
}

}  // namespace slipstream::engine
