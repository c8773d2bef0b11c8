// SamplingParams, Request and Response: the value types of a request's life.
#include "slipstream/request.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <chrono>
#include <type_traits>

#include "bindings.h"
#include "callback.h"
#include "slipstream/response.h"

namespace slipstream::python {
namespace {

/// The fields of SamplingParams by name; the constructor takes each as a keyword.
template <class Visit>
void ForEachField(const Visit& visit) {
  visit("max_tokens", &SamplingParams::max_tokens);
  visit("min_tokens", &SamplingParams::min_tokens);
  visit("temperature", &SamplingParams::temperature);
  visit("top_k", &SamplingParams::top_k);
  visit("top_p", &SamplingParams::top_p);
  visit("min_p", &SamplingParams::min_p);
  visit("typical_p", &SamplingParams::typical_p);
  visit("repetition_penalty", &SamplingParams::repetition_penalty);
  visit("presence_penalty", &SamplingParams::presence_penalty);
  visit("frequency_penalty", &SamplingParams::frequency_penalty);
  visit("no_repeat_ngram_size", &SamplingParams::no_repeat_ngram_size);
  visit("logit_bias", &SamplingParams::logit_bias);
  visit("allowed_token_ids", &SamplingParams::allowed_token_ids);
  visit("bad_words", &SamplingParams::bad_words);
  visit("bad_words_ids", &SamplingParams::bad_words_ids);
  visit("seed", &SamplingParams::seed);
  visit("n", &SamplingParams::n);
  visit("best_of", &SamplingParams::best_of);
  visit("stop", &SamplingParams::stop);
  visit("stop_token_ids", &SamplingParams::stop_token_ids);
  visit("include_stop_str_in_output", &SamplingParams::include_stop_str_in_output);
  visit("ignore_eos", &SamplingParams::ignore_eos);
  visit("skip_special_tokens", &SamplingParams::skip_special_tokens);
  visit("logprobs", &SamplingParams::logprobs);
  visit("prompt_logprobs", &SamplingParams::prompt_logprobs);
  visit("return_logits", &SamplingParams::return_logits);
}

SamplingParams MakeSamplingParams(const py::kwargs& values) {
  SamplingParams params;
  size_t used = 0;
  ForEachField([&](const char* name, auto field) {
    const py::handle value = PyDict_GetItemString(values.ptr(), name);  // borrowed
    if (!value) return;
    using Value = std::remove_reference_t<decltype(params.*field)>;
    try {
      params.*field = py::cast<Value>(value);
    } catch (const py::cast_error&) {
      throw py::type_error(std::string("SamplingParams: ") + name + " is " + Shown(value) +
                           ", which does not have its type.");
    }
    ++used;
  });
  if (used == values.size()) return params;
  for (const auto& [name, value] : values) {
    bool known = false;
    ForEachField([&](const char* field, auto) { known |= py::cast<std::string>(name) == field; });
    if (!known) {
      throw py::type_error("SamplingParams has no field " + py::cast<std::string>(py::str(name)) +
                           ".");
    }
  }
  return params;
}

std::vector<std::pair<TokenId, float>> TopOf(const TokenLogprobs& scores) {
  std::vector<std::pair<TokenId, float>> top;
  top.reserve(scores.top.size());
  for (const TokenLogprob& token : scores.top) top.emplace_back(token.id, token.logprob);
  return top;
}

/// float32 [tokens, vocab_size] that owns its values; None where they were not asked for.
py::object LogitsOf(const Response& response) {
  if (response.logits.empty()) return py::none();
  const auto rows = static_cast<py::ssize_t>(response.token_ids.size());
  const auto cols = static_cast<py::ssize_t>(response.logits.size()) / rows;
  return py::array_t<float>({rows, cols}, response.logits.data());
}

std::optional<std::string> FinishReasonOrNone(const Response& response) {
  if (!response.finished()) return std::nullopt;
  return FinishReasonName(response.finish_reason);
}

void RaiseForStatus(const Response& response) { ThrowIfError(response.status); }

}  // namespace

void BindRequest(py::module_& m) {
  py::class_<SamplingParams> params(m, "SamplingParams",
                                    "The native form of slipstream.SamplingParams.");
  params.def(py::init(&MakeSamplingParams));
  ForEachField([&](const char* name, auto field) { params.def_readwrite(name, field); });

  py::class_<Request>(m, "Request", "One prompt to be continued: text, or ready token ids.")
      .def(py::init([](std::string prompt, std::vector<TokenId> prompt_token_ids,
                       bool add_special_tokens, SamplingParams sampling,
                       std::vector<py::function> logits_processors, int32_t priority,
                       int64_t ttft_target_ms, int64_t tpot_target_ms, int64_t time_limit_ms,
                       std::string cache_salt, bool read_cache, bool write_cache,
                       std::vector<KvRetention> retention) {
             Request request{.prompt = std::move(prompt),
                             .prompt_token_ids = std::move(prompt_token_ids),
                             .add_special_tokens = add_special_tokens,
                             .sampling = std::move(sampling),
                             .priority = priority,
                             .ttft_target = std::chrono::milliseconds(ttft_target_ms),
                             .tpot_target = std::chrono::milliseconds(tpot_target_ms),
                             .time_limit = std::chrono::milliseconds(time_limit_ms),
                             .cache_salt = std::move(cache_salt),
                             .read_cache = read_cache,
                             .write_cache = write_cache,
                             .retention = std::move(retention)};
             for (py::function& processor : logits_processors)
               request.logits_processors.push_back(MakeLogitsProcessor(std::move(processor)));
             return request;
           }),
           py::kw_only(), py::arg("prompt") = "",
           py::arg("prompt_token_ids") = std::vector<TokenId>(),
           py::arg("add_special_tokens") = true, py::arg("sampling") = SamplingParams(),
           py::arg("logits_processors") = std::vector<py::function>(), py::arg("priority") = 0,
           py::arg("ttft_target_ms") = 0, py::arg("tpot_target_ms") = 0,
           py::arg("time_limit_ms") = 0, py::arg("cache_salt") = "", py::arg("read_cache") = true,
           py::arg("write_cache") = true, py::arg("retention") = std::vector<KvRetention>())
      .def_readwrite("prompt", &Request::prompt)
      .def_readwrite("prompt_token_ids", &Request::prompt_token_ids)
      .def_readwrite("add_special_tokens", &Request::add_special_tokens)
      .def_readwrite("sampling", &Request::sampling);

  py::class_<TokenLogprobs>(m, "TokenLogprobs",
                            "The log-probability of one token, and of the likeliest in its place.")
      .def_readonly("logprob", &TokenLogprobs::logprob)
      .def_readonly("rank", &TokenLogprobs::rank)
      .def_property_readonly("top", &TopOf, "(id, logprob) by rank.");

  py::class_<Response>(m, "Response",
                       "News of one answer of a request since its previous Response; the parts "
                       "concatenate.")
      .def_readonly("id", &Response::id)
      .def_readonly("index", &Response::index, "Which answer of its request it is about.")
      .def_readonly("last", &Response::last,
                    "Every answer of the request is finished: nothing follows.")
      .def_readonly("text", &Response::text)
      .def_readonly("token_ids", &Response::token_ids)
      .def_readonly("logprobs", &Response::logprobs,
                    "One TokenLogprobs per token id; empty unless asked for.")
      .def_readonly("prompt_logprobs", &Response::prompt_logprobs,
                    "One TokenLogprobs per prompt token after the first, with the first token id; "
                    "empty unless asked for.")
      .def_property_readonly("logits", &LogitsOf,
                             "Raw float32 [token_ids, vocab_size]; None unless asked for.")
      .def_readonly("cumulative_logprob", &Response::cumulative_logprob,
                    "Sum of the log-probabilities so far; 0 unless asked for, or best_of above n.")
      .def_property_readonly(
          "finish_reason", &FinishReasonOrNone,
          "None while more will come, else 'stop', 'length', 'cancelled', 'time_limit' or 'error'.")
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
      .def_readonly("preemptions", &Response::preemptions)
      .def_readonly("queued_us", &Response::queued_us)
      .def_readonly("first_token_us", &Response::first_token_us)
      .def_readonly("total_us", &Response::total_us)
      .def_readonly("seed", &Response::seed);
}

}  // namespace slipstream::python
