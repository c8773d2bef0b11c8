// ExecutorStats and Iteration: the counters of an executor and the steps that it ran.
#include "slipstream/stats.h"

#include <pybind11/stl.h>

#include "bindings.h"

namespace slipstream::python {

void BindStats(py::module_& m) {
  py::class_<ExecutorStats>(m, "ExecutorStats",
                            "A consistent snapshot of an executor's counters and gauges; times in "
                            "microseconds.")
      .def_readonly("steps", &ExecutorStats::steps)
      .def_readonly("prefill_tokens_computed", &ExecutorStats::prefill_tokens_computed)
      .def_readonly("cached_tokens", &ExecutorStats::cached_tokens)
      .def_readonly("recomputed_tokens", &ExecutorStats::recomputed_tokens)
      .def_readonly("generated_tokens", &ExecutorStats::generated_tokens)
      .def_readonly("requests_submitted", &ExecutorStats::requests_submitted)
      .def_readonly("requests_finished", &ExecutorStats::requests_finished)
      .def_readonly("preemptions", &ExecutorStats::preemptions)
      .def_readonly("blocks_copied", &ExecutorStats::blocks_copied)
      .def_readonly("blocks_swapped_out", &ExecutorStats::blocks_swapped_out)
      .def_readonly("blocks_swapped_in", &ExecutorStats::blocks_swapped_in)
      .def_readonly("schedule_us", &ExecutorStats::schedule_us)
      .def_readonly("model_us", &ExecutorStats::model_us)
      .def_readonly("sample_us", &ExecutorStats::sample_us)
      .def_readonly("deliver_us", &ExecutorStats::deliver_us)
      .def_readonly("running", &ExecutorStats::running)
      .def_readonly("waiting", &ExecutorStats::waiting)
      .def_readonly("waiting_tokens", &ExecutorStats::waiting_tokens)
      .def_readonly("kv_blocks_total", &ExecutorStats::kv_blocks_total)
      .def_readonly("kv_blocks_free", &ExecutorStats::kv_blocks_free)
      .def_readonly("kv_blocks_cached", &ExecutorStats::kv_blocks_cached)
      .def_readonly("host_blocks_total", &ExecutorStats::host_blocks_total)
      .def_readonly("host_blocks_used", &ExecutorStats::host_blocks_used);

  py::class_<IterationEntry>(m, "IterationEntry", "One request's part in a step.")
      .def_readonly("id", &IterationEntry::id)
      .def_readonly("first_position", &IterationEntry::first_position)
      .def_readonly("rows", &IterationEntry::rows)
      .def_readonly("prefill", &IterationEntry::prefill)
      .def_readonly("sampled", &IterationEntry::sampled)
      .def_readonly("queued_us", &IterationEntry::queued_us);

  py::class_<Iteration>(m, "Iteration",
                        "One step; times in microseconds, start_us from the executor's creation.")
      .def_readonly("step", &Iteration::step)
      .def_readonly("start_us", &Iteration::start_us)
      .def_readonly("schedule_us", &Iteration::schedule_us)
      .def_readonly("model_us", &Iteration::model_us)
      .def_readonly("sample_us", &Iteration::sample_us)
      .def_readonly("prefill_rows", &Iteration::prefill_rows)
      .def_readonly("decode_rows", &Iteration::decode_rows)
      .def_readonly("waiting", &Iteration::waiting)
      .def_readonly("preempted", &Iteration::preempted)
      .def_readonly("kv_blocks_free", &Iteration::kv_blocks_free)
      .def_readonly("kv_blocks_cached", &Iteration::kv_blocks_cached)
      .def_readonly("entries", &Iteration::entries);
}

}  // namespace slipstream::python
