// KvRetention and KvEvent: what callers say and learn about cached KV.
#include "slipstream/kv_cache.h"

#include <pybind11/stl.h>

#include <chrono>
#include <string>

#include "bindings.h"

namespace slipstream::python {
namespace {

const char* KindName(const KvEvent& event) {
  switch (event.kind) {
    case KvEvent::Kind::kStored:
      return "stored";
    case KvEvent::Kind::kRemoved:
      return "removed";
    default:
      return "moved";
  }
}

const char* TierName(KvTier tier) { return tier == KvTier::kDevice ? "device" : "host"; }

}  // namespace

void BindKvCache(py::module_& m) {
  py::class_<KvRetention>(m, "KvRetention", "The native form of slipstream.KvRetention.")
      .def(py::init([](int64_t first, int64_t end, int32_t priority, int64_t duration_ms) {
             return KvRetention{first, end, priority, std::chrono::milliseconds(duration_ms)};
           }),
           py::arg("first"), py::arg("end"), py::arg("priority"), py::arg("duration_ms"));

  py::class_<KvEvent>(
      m, "KvEvent",
      "What happened to cached blocks. Blocks are named by a hash of their salt and "
      "of all tokens up to their last.")
      .def_property_readonly("kind", &KindName, "'stored', 'removed' or 'moved'.")
      .def_readonly("group", &KvEvent::group, "Cache group of the engine.")
      .def_readonly("hashes", &KvEvent::hashes, "Of the blocks; those stored follow each other.")
      .def_readonly("parent", &KvEvent::parent, "Stored: the block that they continue.")
      .def_readonly("token_ids", &KvEvent::token_ids, "Stored: the tokens of these blocks.")
      .def_property_readonly(
          "cache_salt", [](const KvEvent& self) { return py::bytes(self.cache_salt); },
          "Stored: the salt of the request, as UTF-8.")
      .def_property_readonly(
          "source", [](const KvEvent& self) { return TierName(self.from); },
          "Moved: 'device' or 'host'.")
      .def_property_readonly(
          "target", [](const KvEvent& self) { return TierName(self.to); },
          "Moved: 'device' or 'host'.");
}

}  // namespace slipstream::python
