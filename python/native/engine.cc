// Runtime, Engine and Model.
#include "slipstream/engine.h"

#include <pybind11/stl.h>

#include <array>
#include <utility>

#include "bindings.h"
#include "chat_options.h"

namespace slipstream::python {
namespace {

constexpr std::array<std::pair<const char*, CpuPath>, 5> kCpuPaths = {{
    {"auto", CpuPath::kAuto},
    {"scalar", CpuPath::kScalar},
    {"emulated16", CpuPath::kEmulated16},
    {"avx2", CpuPath::kAvx2},
    {"avx512", CpuPath::kAvx512},
}};

CpuPath ParseCpuPath(const std::string& name) {
  std::string known;
  for (const auto& [text, path] : kCpuPaths) {
    if (name == text) return path;
    known += known.empty() ? text : std::string(", ") + text;
  }
  throw StatusError({StatusCode::kInvalidArgument,
                     "cpu_path is '" + name.substr(0, 40) + "'; use one of " + known + "."});
}

std::unique_ptr<Runtime, SameProcessDelete<Runtime>> MakeRuntime(int32_t threads,
                                                                 const std::string& cpu_path) {
  RuntimeConfig config{.threads = threads, .cpu_path = ParseCpuPath(cpu_path)};
  ReleaseGil release;
  return std::unique_ptr<Runtime, SameProcessDelete<Runtime>>(
      new Runtime(Unwrap(Runtime::Create(config))));
}

Engine LoadEngine(const std::string& path, bool verify_full) {
  ReleaseGil release;
  return Unwrap(Engine::Load(path, verify_full ? Verify::kFull : Verify::kDefault));
}

// As os.fsdecode: a path need not be UTF-8.
py::object PathOf(const Engine& engine) {
  const std::string& path = engine.path();
  PyObject* text =
      PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size()));
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(text);
}

#if defined(__clang__)
constexpr const char* kCompiler = "clang " __clang_version__;
#elif defined(__GNUC__)
constexpr const char* kCompiler = "gcc " __VERSION__;
#else
constexpr const char* kCompiler = "unknown";
#endif

}  // namespace

void BindEngine(py::module_& m) {
  m.attr("COMPILER") = kCompiler;
  py::list paths;
  for (const auto& [text, path] : kCpuPaths) {
    if (path != CpuPath::kAuto) paths.append(text);
  }
  m.attr("CPU_PATHS") = py::tuple(paths);

  py::class_<Runtime, std::unique_ptr<Runtime, SameProcessDelete<Runtime>>>(
      m, "Runtime",
      "Thread pool and CPU dispatch of a process; shared by any number of models. Thread-safe.")
      .def(py::init(&MakeRuntime), py::kw_only(), py::arg("threads") = 0,
           py::arg("cpu_path") = "auto", "threads 0: the physical cores of this process.")
      .def_property_readonly("threads", &Runtime::threads)
      .def_property_readonly("cpu_path", &Runtime::cpu_path);

  py::class_<EngineLimits>(m, "EngineLimits",
                           "The largest request and step of an engine, in tokens and sequences.")
      .def_readonly("max_seq_len", &EngineLimits::max_seq_len)
      .def_readonly("max_batch_size", &EngineLimits::max_batch_size)
      .def_readonly("max_num_tokens", &EngineLimits::max_num_tokens)
      .def_readonly("vocab_size", &EngineLimits::vocab_size);

  py::class_<Engine>(m, "Engine", "One mapped and checked .engine file. Immutable and thread-safe.")
      .def_static("load", &LoadEngine, py::arg("path"), py::kw_only(),
                  py::arg("verify_full") = false,
                  "Maps and checks a file; reads every weight byte only with verify_full.")
      .def_property_readonly("path", &PathOf)
      .def_property_readonly("model_name", &Engine::model_name)
      .def_property_readonly("build_id", &Engine::build_id)
      .def_property_readonly("manifest_json", &Engine::manifest_json,
                             "The whole manifest as canonical JSON.")
      .def_property_readonly("limits", [](const Engine& self) { return self.limits(); })
      .def_property_readonly("tokenizer", [](const Engine& self) { return self.tokenizer(); })
      .def_property_readonly("chat_template", &Engine::chat_template,
                             "The Jinja chat template, or ''.")
      .def(
          "apply_chat_template",
          [](const Engine& self, const std::string& messages_json, bool add_generation_prompt,
             const std::string& tools_json, const std::string& documents_json,
             const std::string& variables_json, const std::optional<LocalTime>& now) {
            ReleaseGil release;
            return Unwrap(self.ApplyChatTemplate(
                messages_json, MakeChatOptions(add_generation_prompt, tools_json, documents_json,
                                               variables_json, now)));
          },
          py::arg("messages_json"), py::kw_only(), py::arg("add_generation_prompt") = true,
          py::arg("tools_json") = "", py::arg("documents_json") = "",
          py::arg("variables_json") = "", py::arg("now") = py::none(),
          "The prompt of a conversation through chat_template, with the model's special tokens as "
          "variables beside those given. LLM.chat does this and what the interpreter refuses.")
      .def_property_readonly("tokenizer_config_json", &Engine::tokenizer_config_json)
      .def_property_readonly("generation_config_json", &Engine::generation_config_json)
      .def_property_readonly("eos_token_ids", &Engine::eos_token_ids)
      .def_property_readonly(
          "bos_token_id",
          [](const Engine& self) -> std::optional<TokenId> {
            if (self.bos_token_id() < 0) return std::nullopt;
            return self.bos_token_id();
          },
          "None when the model has none.");

  // A Model keeps the Runtime's threads alive, so it follows the same rule in a forked child.
  py::class_<Model, std::unique_ptr<Model, SameProcessDelete<Model>>>(
      m, "Model",
      "An Engine with its plan prepared for a Runtime. Thread-safe; executors may share it.")
      .def(py::init([](const Runtime& runtime, const Engine& engine) {
             ReleaseGil release;
             return std::unique_ptr<Model, SameProcessDelete<Model>>(
                 new Model(Unwrap(Model::Create(runtime, engine))));
           }),
           py::arg("runtime"), py::arg("engine"))
      .def_property_readonly("engine", [](const Model& self) { return self.engine(); });
}

}  // namespace slipstream::python
