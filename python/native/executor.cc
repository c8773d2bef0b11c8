// Executor: the GIL is released around every call that works or waits, signals are looked at ten
// times a second, and every executor is shut down before the interpreter is.
#include "slipstream/executor.h"

#include <pthread.h>
#include <pybind11/stl.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bindings.h"
#include "callback.h"

namespace slipstream::python {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How long a wait may keep Ctrl-C from being seen.
constexpr milliseconds kSignalPeriod{100};
/// How long the end of the interpreter waits for threads that are inside a call, after every
/// executor was shut down.
constexpr std::chrono::seconds kExitGrace{5};

/// The executors that the end of the interpreter must shut down. A forked child leaves those of its
/// parent alone.
struct Registered {
  pid_t owner;
  std::weak_ptr<Executor> executor;
};
std::mutex registry_mutex;
std::vector<Registered> registry;
bool registry_closed = false;  // guarded by registry_mutex

/// Runs Python's signal handlers; throws what they raise. Takes the GIL.
void CheckSignals() {
  py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

/// The executor of a Python object, with its process: threads do not survive a fork.
class PyExecutor {
 public:
  PyExecutor(const Model& model, const ExecutorConfig& config) {
    executor_ = Unwrap(Executor::Create(model, config));
    std::lock_guard lock(registry_mutex);
    if (registry_closed) {
      throw StatusError(
          {StatusCode::kUnavailable, "The interpreter is exiting; no executor can be started."});
    }
    std::erase_if(registry, [](const Registered& entry) { return entry.executor.expired(); });
    registry.push_back({owner_, executor_});
  }

  Executor& get() const {
    if (getpid() != owner_) {
      throw StatusError({StatusCode::kUnavailable,
                         "This executor was created in process " + std::to_string(owner_) +
                             " and its threads do not exist in a forked one; create it "
                             "after the fork, or use the 'spawn' start method."});
    }
    return *executor_;
  }

 private:
  std::shared_ptr<Executor> executor_;
  pid_t owner_ = getpid();
};

using ExecutorHolder = std::unique_ptr<PyExecutor, SameProcessDelete<PyExecutor>>;

ExecutorHolder MakeExecutor(const Model& model, const ExecutorConfig& config) {
  ReleaseGil release;
  return ExecutorHolder(new PyExecutor(model, config));
}

RequestId Submit(const PyExecutor& self, const Request& request,
                 std::optional<py::function> callable, std::optional<py::list> submitted) {
  Executor& executor = self.get();
  ResponseCallback callback;
  if (callable) callback = MakeCallback(*std::move(callable));
  callable.reset();
  const RequestId id = [&] {
    ReleaseGil release;
    return Unwrap(executor.Submit(request, std::move(callback)));
  }();
  if (submitted) submitted->append(id);
  return id;
}

/// Calls `wait(slice)` until it returns true, or `timeout_s` has passed, and looks for Ctrl-C in
/// between; whether it returned true. Called without the GIL.
template <class Wait>
bool WaitInSlices(std::optional<double> timeout_s, const Wait& wait) {
  const auto start = Clock::now();
  for (;;) {
    milliseconds slice = kSignalPeriod;
    bool last = false;
    if (timeout_s) {
      const double left = *timeout_s - std::chrono::duration<double>(Clock::now() - start).count();
      last = !(left > 0.1);
      if (last) slice = milliseconds(left > 0 ? static_cast<int64_t>(left * 1000 + 0.999) : 0);
    }
    if (wait(slice)) return true;
    if (last) return false;
    CheckSignals();
  }
}

Response Next(const PyExecutor& self, RequestId id, std::optional<double> timeout_s) {
  Executor& executor = self.get();
  ReleaseGil release;
  Response response;
  WaitInSlices(timeout_s, [&](milliseconds slice) {
    response = Unwrap(executor.Next(id, slice));
    return response.finished() || !response.token_ids.empty() || !response.text.empty();
  });
  return response;
}

std::vector<std::vector<Response>> Collect(const PyExecutor& self,
                                           const std::vector<RequestId>& ids) {
  Executor& executor = self.get();
  ReleaseGil release;
  auto checked = Clock::now();
  std::vector<std::vector<Response>> requests;
  requests.reserve(ids.size());
  for (RequestId id : ids) {
    std::vector<Response> answers;
    for (bool last = false; !last;) {
      Response news = Unwrap(executor.Next(id, kSignalPeriod));
      last = news.last;
      const auto index = static_cast<size_t>(news.index);
      if (answers.size() <= index) answers.resize(index + 1);
      answers[index].Join(std::move(news));
      if (Clock::now() - checked >= kSignalPeriod) {
        CheckSignals();
        checked = Clock::now();
      }
    }
    requests.push_back(std::move(answers));
  }
  return requests;
}

void Cancel(const PyExecutor& self, RequestId id) {
  Executor& executor = self.get();
  ReleaseGil release;
  ThrowIfError(executor.Cancel(id));
}

ExecutorStats Stats(const PyExecutor& self) {
  Executor& executor = self.get();
  ReleaseGil release;
  return executor.Stats();
}

std::vector<Iteration> Iterations(const PyExecutor& self, int64_t after_step) {
  Executor& executor = self.get();
  ReleaseGil release;
  return executor.Iterations(after_step);
}

void Pause(const PyExecutor& self) {
  Executor& executor = self.get();
  ReleaseGil release;
  executor.Pause();
}

void Resume(const PyExecutor& self) {
  Executor& executor = self.get();
  ReleaseGil release;
  executor.Resume();
}

bool Drain(const PyExecutor& self, std::optional<double> timeout_s) {
  Executor& executor = self.get();
  ReleaseGil release;
  return WaitInSlices(timeout_s, [&](milliseconds slice) { return executor.Drain(slice); });
}

py::bytes ExportKv(const PyExecutor& self, const std::vector<TokenId>& token_ids,
                   const std::string& cache_salt) {
  Executor& executor = self.get();
  const KvImage image = [&] {
    ReleaseGil release;
    return Unwrap(executor.ExportKv(token_ids, cache_salt));
  }();
  return py::bytes(reinterpret_cast<const char*>(image.bytes.data()), image.bytes.size());
}

int64_t ImportKv(const PyExecutor& self, const py::bytes& image, const std::string& cache_salt) {
  Executor& executor = self.get();
  char* data = nullptr;
  py::ssize_t size = 0;
  if (PyBytes_AsStringAndSize(image.ptr(), &data, &size) != 0) throw py::error_already_set();
  ReleaseGil release;  // the caller holds the bytes
  return Unwrap(executor.ImportKv(
      {reinterpret_cast<const std::byte*>(data), static_cast<size_t>(size)}, cache_salt));
}

void DropCache(const PyExecutor& self, const std::string& salt_prefix) {
  Executor& executor = self.get();
  ReleaseGil release;
  ThrowIfError(executor.DropCache(salt_prefix));
}

std::pair<std::vector<KvEvent>, int64_t> TakeKvEvents(const PyExecutor& self) {
  Executor& executor = self.get();
  ReleaseGil release;
  KvEvents taken = Unwrap(executor.TakeKvEvents());
  return {std::move(taken.events), taken.dropped};
}

void Shutdown(const PyExecutor& self) {
  Executor& executor = self.get();
  ReleaseGil release;
  executor.Shutdown();
}

void ShutDownExecutors() {
  std::vector<std::shared_ptr<Executor>> live;
  {
    std::lock_guard lock(registry_mutex);
    registry_closed = true;
    for (const Registered& entry : registry) {
      if (entry.owner != getpid()) continue;
      if (auto executor = entry.executor.lock()) live.push_back(std::move(executor));
    }
  }
  for (const auto& executor : live) executor->Shutdown();
}

/// Registered with atexit, which runs while other threads can still take the GIL.
void CloseAll() {
  const auto deadline = Clock::now() + kExitGrace;
  {
    py::gil_scoped_release release;
    ShutDownExecutors();
  }
  // Checked with the GIL held: nobody can start a call between the check and the flag.
  while (regions_without_gil > 0 && Clock::now() < deadline) {
    py::gil_scoped_release release;
    std::this_thread::sleep_for(milliseconds(1));
  }
  interpreter_closing = true;
}

}  // namespace

void BindExecutor(py::module_& m) {
  // The threads that were inside a call do not exist in a forked child.
  pthread_atfork(nullptr, nullptr, [] { regions_without_gil = 0; });
  py::module_::import("atexit").attr("register")(py::cpp_function(&CloseAll));

  py::class_<PyExecutor, ExecutorHolder>(m, "Executor",
                                         "The in-flight batching loop on one Model. Thread-safe. "
                                         "Ending the interpreter cancels what still runs.")
      .def(py::init(&MakeExecutor), py::arg("model"), py::arg("config") = ExecutorConfig())
      .def("submit", &Submit, py::arg("request"), py::arg("callback") = py::none(),
           py::arg("submitted") = py::none(),
           "Checks and queues a request; a bad one is refused here. With a callback, it gets every "
           "Response on the "
           "executor's thread; without, use next() or collect(). The id is also appended to "
           "`submitted`, before a signal can take it from the caller.")
      .def("next", &Next, py::arg("id"), py::arg("timeout") = py::none(),
           "Waits for news of a request, at most `timeout` seconds (None: until there is some). On "
           "timeout the "
           "Response is empty. Ctrl-C interrupts the wait.")
      .def("collect", &Collect, py::arg("ids"),
           "Waits until every request has finished; for each, in order, a whole Response of every "
           "answer. Ctrl-C "
           "interrupts the wait, "
           "and the requests then run on until they are cancelled.")
      .def("cancel", &Cancel, py::arg("id"), "Ends a request at the next step border.")
      .def("stats", &Stats)
      .def("iterations", &Iterations, py::arg("after_step") = 0,
           "The latest steps, oldest first, whose number is above `after_step`.")
      .def("pause", &Pause, "No step begins until resume(); returns when the one in flight ended.")
      .def("resume", &Resume)
      .def("drain", &Drain, py::arg("timeout") = py::none(),
           "Refuses new requests and waits until all others are finished, at most `timeout` "
           "seconds; False when that came first. Ctrl-C interrupts the wait.")
      .def("export_kv", &ExportKv, py::arg("token_ids"), py::arg("cache_salt") = "",
           "The cached KV of the longest cached prefix, as bytes; waits for a step border.")
      .def("import_kv", &ImportKv, py::arg("image"), py::arg("cache_salt") = "",
           "Puts what export_kv gave into the cache; the number of its tokens.")
      .def("drop_cache", &DropCache, py::arg("salt_prefix") = "",
           "Forgets what is cached under the salts that begin so.")
      .def("take_kv_events", &TakeKvEvents,
           "The events since the last call, and how many were ever dropped.")
      .def("shutdown", &Shutdown,
           "Refuses new requests, cancels the others, waits for the loop. Idempotent.");
}

}  // namespace slipstream::python
