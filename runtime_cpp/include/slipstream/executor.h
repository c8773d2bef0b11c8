// The in-flight batching loop: requests join and leave between steps.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "slipstream/config.h"
#include "slipstream/engine.h"
#include "slipstream/export.h"
#include "slipstream/kv_cache.h"
#include "slipstream/request.h"
#include "slipstream/response.h"
#include "slipstream/stats.h"
#include "slipstream/status.h"
#include "slipstream/types.h"

namespace slipstream {

/// Called on the executor's own thread, once per step and answer that has news. Must not block for
/// long and must not call Shutdown; Submit and Cancel are allowed. A callback that throws ends the
/// answer that it was told of with kError, nothing else; it is called once more with that end, and
/// what it throws then is ignored.
using ResponseCallback = std::function<void(const Response&)>;

/// Serves requests on one Model. Every method is thread-safe. The destructor cancels what still
/// runs and joins the thread.
///
///     auto executor = Executor::Create(*model);
///     Request request{.prompt = "The capital of France is"};
///     auto id = (*executor)->Submit(request);
///     for (;;) {
///       auto response = (*executor)->Next(*id);
///       if (!response.ok()) return Fail(response.status());
///       std::cout << response->text << std::flush;
///       if (response->last) break;
///     }
class SLIPSTREAM_API Executor {
 public:
  /// Errors: kInvalidArgument (a config value out of range), kLimitExceeded (one above the engine's
  /// limit), kResourceExhausted (the KV pool cannot hold one sequence of one block, or cannot be
  /// allocated; no thread can start).
  static Result<std::unique_ptr<Executor>> Create(const Model& model,
                                                  const ExecutorConfig& config = {});
  virtual ~Executor() = default;

  /// Checks and queues a request. A bad request is refused here and costs nothing:
  /// kInvalidArgument, kLimitExceeded (can never fit: names the binding limit), kResourceExhausted
  /// (queue full, or more than 65536 answers beyond the queue that were never fetched with Next),
  /// kUnavailable (shut down or draining). With a callback, responses go to it; without, fetch them
  /// with Next.
  virtual Result<RequestId> Submit(Request request, ResponseCallback callback = {}) = 0;

  /// Waits for news of a request submitted without callback; deltas of an answer that arrived since
  /// the last call are joined into one. Each call gives the news of one answer, of several in turn.
  /// After the last response (Response::last) the id is forgotten (kNotFound). On
  /// timeout the Response is empty with kNone. kInvalidArgument in a callback or a logits
  /// processor: it would wait for itself.
  virtual Result<Response> Next(RequestId id,
                                std::chrono::milliseconds timeout = std::chrono::hours(24)) = 0;

  /// Ends all answers of a request at the next step border; the last response of each holds the
  /// tokens so far and kCancelled. kNotFound when it is unknown or already finished.
  virtual Status Cancel(RequestId id) = 0;

  /// Submits all of them at once: no step begins between the first and the last. Each is accepted
  /// or refused on its own, as by Submit; results are in the order of the requests. Empty
  /// where not even the results fit into memory: then none was accepted.
  virtual std::vector<Result<RequestId>> SubmitMany(std::vector<Request> requests,
                                                    ResponseCallback callback = {}) = 0;

  /// No step begins until Resume; requests keep their KV and their place, may be submitted and
  /// cancelled, and their time limits go on. Returns when the step in flight has ended (at once
  /// when called from a callback).
  virtual void Pause() = 0;
  virtual void Resume() = 0;

  /// Refuses new requests (kUnavailable) from now on and waits until all others are finished. False
  /// when the timeout came first; then call it again, or Shutdown. False at once in a callback.
  virtual bool Drain(std::chrono::milliseconds timeout = std::chrono::hours(24)) = 0;

  virtual ExecutorStats Stats() const = 0;

  /// The latest steps, oldest first: at most ExecutorConfig::iteration_history, only those whose
  /// number is above `after_step`.
  virtual std::vector<Iteration> Iterations(int64_t after_step = 0) const = 0;

  // Cached KV. Each call waits for a step border and works there, so the next step is late by it;
  // kInvalidArgument in a callback (it would wait for itself), kUnavailable after Shutdown.

  /// The cached KV of the longest prefix of `tokens` that is cached under `cache_salt`, on either
  /// tier: for a file, or for another process. kNotFound when none is, kInvalidArgument without
  /// tokens, with a salt beyond its limit or with ExecutorConfig::prefix_cache off,
  /// kResourceExhausted when the KV pool has no room to hold it for the copy.
  virtual Result<KvImage> ExportKv(std::span<const TokenId> tokens,
                                   std::string_view cache_salt = {}) = 0;

  /// Puts the KV of an image into the cache, as if a request had computed it, and gives the number
  /// of its tokens. kCorruptFile when the bytes are damaged, kIncompatible when they are of another
  /// engine file, kInvalidArgument when ExecutorConfig::prefix_cache is off, kResourceExhausted
  /// when it does not fit beside what runs. Nothing has changed after an error.
  virtual Result<int64_t> ImportKv(std::span<const std::byte> image,
                                   std::string_view cache_salt = {}) = 0;

  /// Forgets all that is cached under the salts that begin with `salt_prefix`; "" is all of it.
  /// Requests that run go on and keep nothing for others.
  virtual Status DropCache(std::string_view salt_prefix = {}) = 0;

  /// Takes the events of cached KV. kInvalidArgument when ExecutorConfig::max_kv_events is 0.
  virtual Result<KvEvents> TakeKvEvents() = 0;

  /// Refuses new requests, cancels the others, waits for the loop to end. Idempotent.
  virtual void Shutdown() = 0;
};

}  // namespace slipstream
