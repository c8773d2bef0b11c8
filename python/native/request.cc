// SamplingParams, Request, Response and ExecutorStats: the value types of a request's life.
#include "slipstream/request.h"

#include <pybind11/stl.h>

#include "bindings.h"
#include "slipstream/response.h"
#include "slipstream/stats.h"

namespace slipstream::python {
namespace {

SamplingParams MakeSamplingParams(int32_t max_tokens, float temperature, int32_t top_k, float top_p,
                                  float min_p, std::optional<uint64_t> seed,
                                  std::vector<std::string> stop,
                                  std::vector<TokenId> stop_token_ids,
                                  bool include_stop_str_in_output, bool ignore_eos,
                                  bool skip_special_tokens, bool logprobs) {
  return {.max_tokens = max_tokens,
          .temperature = temperature,
          .top_k = top_k,
          .top_p = top_p,
          .min_p = min_p,
          .seed = seed,
          .stop = std::move(stop),
          .stop_token_ids = std::move(stop_token_ids),
          .include_stop_str_in_output = include_stop_str_in_output,
          .ignore_eos = ignore_eos,
          .skip_special_tokens = skip_special_tokens,
          .logprobs = logprobs};
}

std::optional<std::string> FinishReasonOrNone(const Response& response) {
  if (!response.finished()) return std::nullopt;
  return FinishReasonName(response.finish_reason);
}

void RaiseForStatus(const Response& response) { ThrowIfError(response.status); }

}  // namespace

void BindRequest(py::module_& m) {
  py::class_<SamplingParams>(m, "SamplingParams", "The native form of slipstream.SamplingParams.")
      .def(py::init(&MakeSamplingParams), py::kw_only(), py::arg("max_tokens") = 16,
           py::arg("temperature") = 1.0f, py::arg("top_k") = 0, py::arg("top_p") = 1.0f,
           py::arg("min_p") = 0.0f, py::arg("seed") = py::none(),
           py::arg("stop") = std::vector<std::string>(),
           py::arg("stop_token_ids") = std::vector<TokenId>(),
           py::arg("include_stop_str_in_output") = false, py::arg("ignore_eos") = false,
           py::arg("skip_special_tokens") = true, py::arg("logprobs") = false)
      .def_readwrite("max_tokens", &SamplingParams::max_tokens)
      .def_readwrite("temperature", &SamplingParams::temperature)
      .def_readwrite("top_k", &SamplingParams::top_k)
      .def_readwrite("top_p", &SamplingParams::top_p)
      .def_readwrite("min_p", &SamplingParams::min_p)
      .def_readwrite("seed", &SamplingParams::seed)
      .def_readwrite("stop", &SamplingParams::stop)
      .def_readwrite("stop_token_ids", &SamplingParams::stop_token_ids)
      .def_readwrite("include_stop_str_in_output", &SamplingParams::include_stop_str_in_output)
      .def_readwrite("ignore_eos", &SamplingParams::ignore_eos)
      .def_readwrite("skip_special_tokens", &SamplingParams::skip_special_tokens)
      .def_readwrite("logprobs", &SamplingParams::logprobs);

  py::class_<Request>(m, "Request", "One prompt to be continued: text, or ready token ids.")
      .def(py::init([](std::string prompt, std::vector<TokenId> prompt_token_ids,
                       bool add_special_tokens, SamplingParams sampling) {
             return Request{.prompt = std::move(prompt),
                            .prompt_token_ids = std::move(prompt_token_ids),
                            .add_special_tokens = add_special_tokens,
                            .sampling = std::move(sampling)};
           }),
           py::kw_only(), py::arg("prompt") = "",
           py::arg("prompt_token_ids") = std::vector<TokenId>(),
           py::arg("add_special_tokens") = true, py::arg("sampling") = SamplingParams())
      .def_readwrite("prompt", &Request::prompt)
      .def_readwrite("prompt_token_ids", &Request::prompt_token_ids)
      .def_readwrite("add_special_tokens", &Request::add_special_tokens)
      .def_readwrite("sampling", &Request::sampling);

  py::class_<Response>(m, "Response",
                       "News of one request since its previous Response; the parts concatenate.")
      .def_readonly("id", &Response::id)
      .def_readonly("text", &Response::text)
      .def_readonly("token_ids", &Response::token_ids)
      .def_readonly("logprobs", &Response::logprobs,
                    "Natural log, one per token id; empty unless asked for.")
      .def_property_readonly(
          "finish_reason", &FinishReasonOrNone,
          "None while more will come, else 'stop', 'length', 'cancelled' or 'error'.")
      .def_property_readonly("finished", &Response::finished)
      .def("raise_for_status", &RaiseForStatus,
           "Raises the SlipstreamError of a request that failed.")
      .def_readonly("stop_string", &Response::stop_string)
      .def_property_readonly("stop_token",
                             [](const Response& self) -> std::optional<TokenId> {
                               if (self.stop_token < 0) return std::nullopt;
                               return self.stop_token;
                             })
      .def_readonly("prompt_tokens", &Response::prompt_tokens)
      .def_readonly("cached_tokens", &Response::cached_tokens)
      .def_readonly("seed", &Response::seed);

  py::class_<ExecutorStats>(m, "ExecutorStats",
                            "A consistent snapshot of an executor's counters and gauges.")
      .def_readonly("steps", &ExecutorStats::steps)
      .def_readonly("prefill_tokens_computed", &ExecutorStats::prefill_tokens_computed)
      .def_readonly("generated_tokens", &ExecutorStats::generated_tokens)
      .def_readonly("requests_submitted", &ExecutorStats::requests_submitted)
      .def_readonly("requests_finished", &ExecutorStats::requests_finished)
      .def_readonly("running", &ExecutorStats::running)
      .def_readonly("waiting", &ExecutorStats::waiting)
      .def_readonly("kv_blocks_total", &ExecutorStats::kv_blocks_total)
      .def_readonly("kv_blocks_free", &ExecutorStats::kv_blocks_free);
}

}  // namespace slipstream::python
