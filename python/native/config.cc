// ExecutorConfig: the settings of an executor, field by field as in slipstream/config.h.
#include "slipstream/config.h"

#include <pybind11/stl.h>

#include <chrono>

#include "bindings.h"

namespace slipstream::python {

void BindConfig(py::module_& m) {
  py::enum_<CapacityPolicy>(m, "CapacityPolicy", "Who may start while others run.")
      .value("GUARANTEED_NO_EVICT", CapacityPolicy::kGuaranteedNoEvict)
      .value("MAX_UTILIZATION", CapacityPolicy::kMaxUtilization);
  py::enum_<ChunkingPolicy>(m, "ChunkingPolicy", "How a step's token budget goes to prompts.")
      .value("FIRST_COME", ChunkingPolicy::kFirstCome)
      .value("EQUAL_PROGRESS", ChunkingPolicy::kEqualProgress);
  py::class_<ExecutorConfig>(m, "ExecutorConfig",
                             "Settings of an Executor. Zero takes the default: a quarter of free "
                             "memory for the KV pool, the engine's limits, no bound of the queue.")
      .def(py::init<>())
      .def_readwrite("kv_memory_bytes", &ExecutorConfig::kv_memory_bytes)
      .def_readwrite("max_num_tokens", &ExecutorConfig::max_num_tokens)
      .def_readwrite("max_batch_size", &ExecutorConfig::max_batch_size)
      .def_readwrite("max_queued_requests", &ExecutorConfig::max_queued_requests)
      .def_readwrite("max_queued_tokens", &ExecutorConfig::max_queued_tokens)
      .def_readwrite("max_queued_bytes", &ExecutorConfig::max_queued_bytes)
      .def_readwrite("capacity", &ExecutorConfig::capacity)
      .def_readwrite("chunking", &ExecutorConfig::chunking)
      .def_property(
          "ageing_ms", [](const ExecutorConfig& self) { return self.ageing.count(); },
          [](ExecutorConfig& self, int64_t ms) { self.ageing = std::chrono::milliseconds(ms); })
      .def_readwrite("prefix_cache", &ExecutorConfig::prefix_cache)
      .def_readwrite("host_kv_bytes", &ExecutorConfig::host_kv_bytes)
      .def_readwrite("host_kv_dir", &ExecutorConfig::host_kv_dir)
      .def_readwrite("max_kv_events", &ExecutorConfig::max_kv_events)
      .def_readwrite("iteration_history", &ExecutorConfig::iteration_history);
}

}  // namespace slipstream::python
