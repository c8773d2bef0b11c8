// One engine file: mapped, its structure read, its content checked.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/manifest.h"
#include "engine/mapped_file.h"
#include "slipstream/engine.h"
#include "slipstream/status.h"

namespace slipstream::engine {

/// Immutable and thread-safe. Views are valid as long as the EngineFile.
class EngineFile {
 public:
  /// Maps the file and reads header and manifest. Reads no section yet: check
  /// CheckCompatibility(manifest()), then Verify. Errors: kNotFound, kIo, kCorruptFile,
  /// kIncompatible (major version), kResourceExhausted.
  static Result<std::shared_ptr<const EngineFile>> Open(const std::string& path);

  /// Open, the compatibility list and Verify: what every user of a file that is to be run wants.
  /// Errors: those of Open and Verify, and kIncompatible with every mismatch and its fix.
  static Result<std::shared_ptr<const EngineFile>> Load(const std::string& path,
                                                        slipstream::Verify verify);

  /// kDefault: the hash of every section but the weights, and that all padding outside them is
  /// zero; touches no weight byte. kFull: also every chunk of the weights. Error: kCorruptFile
  /// naming the region, what was expected and what was found.
  Status Verify(slipstream::Verify verify) const;

  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }
  /// The manifest as it stands in the file.
  std::string_view manifest_json() const { return manifest_json_; }
  /// Bytes of a section; empty when there is none of that name.
  std::span<const std::byte> SectionBytes(std::string_view name) const;
  /// The same as text.
  std::string_view SectionText(std::string_view name) const;
  /// Size of the whole file in bytes.
  uint64_t size() const { return file_.bytes().size(); }

 private:
  EngineFile(std::string path, MappedFile file) : path_(std::move(path)), file_(std::move(file)) {}
  Status ReadStructure();
  Status VerifySections() const;
  Status VerifyPadding() const;
  Status VerifyWeights() const;
  std::span<const std::byte> Bytes(const Section& section) const;

  std::string path_;
  MappedFile file_;
  std::string_view manifest_json_;
  Manifest manifest_;
};

}  // namespace slipstream::engine
