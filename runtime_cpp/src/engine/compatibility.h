// Whether this build of Slipstream can run an engine file: decided from the manifest alone, before
// anything is loaded.
#pragma once

#include <string>
#include <vector>

#include "engine/manifest.h"
#include "slipstream/status.h"

namespace slipstream::engine {

/// One reason why a sound file cannot run here.
struct Mismatch {
  std::string problem;  ///< What the file asks for and what is supported.
  std::string fix;      ///< What the user can do about it.
};

/// Every mismatch, in the order of the manifest; empty when the file fits. Another major version is
/// not here: its manifest cannot be read, so ParseHeader refuses it.
std::vector<Mismatch> CheckCompatibility(const Manifest& manifest);

/// Ok for an empty list, else kIncompatible with one line for each mismatch and its fix.
Status CompatibilityStatus(const std::string& path, const std::vector<Mismatch>& mismatches);

}  // namespace slipstream::engine
