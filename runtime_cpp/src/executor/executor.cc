#include "executor/executor.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/resource_exhausted.h"
#include "executor/kv_transfer.h"
#include "executor/loop.h"
#include "executor/memory_budget.h"
#include "executor/request_maker.h"
#include "executor/validate.h"

namespace slipstream::executor {
namespace {

// Answers that nobody fetched: beyond this many, requests without callback are refused rather than
// old answers dropped.
constexpr size_t kMaxUnfetched = 65536;

class ExecutorImpl : public Executor {
 public:
  ExecutorImpl(ModelFacts facts, std::shared_ptr<const void> keep_alive, kv::ImageIdentity identity,
               const ExecutorConfig& config)
      : keep_alive_(std::move(keep_alive)),
        facts_(std::move(facts)),
        identity_(std::move(identity)),
        prefix_cache_(config.prefix_cache),
        kv_events_(config.max_kv_events > 0) {}
  ~ExecutorImpl() override { Shutdown(); }

  Status Start(std::unique_ptr<EngineLoop> loop, int32_t max_queued) {
    loop_ = std::move(loop);
    max_mailboxes_ = kMaxUnfetched + static_cast<size_t>(max_queued);
    return loop_->Start();
  }

  Result<RequestId> Submit(Request request, ResponseCallback callback) override;
  std::vector<Result<RequestId>> SubmitMany(std::vector<Request> requests,
                                            ResponseCallback callback) override;
  Result<Response> Next(RequestId id, std::chrono::milliseconds timeout) override;
  Status Cancel(RequestId id) override;
  void Pause() override { loop_->Pause(); }
  void Resume() override { loop_->Resume(); }
  bool Drain(std::chrono::milliseconds timeout) override { return loop_->Drain(timeout); }
  ExecutorStats Stats() const override { return loop_->Stats(); }
  std::vector<Iteration> Iterations(int64_t after_step) const override {
    return loop_->Iterations(after_step);
  }
  Result<KvImage> ExportKv(std::span<const TokenId> tokens, std::string_view cache_salt) override;
  Result<int64_t> ImportKv(std::span<const std::byte> image, std::string_view cache_salt) override;
  Status DropCache(std::string_view salt_prefix) override;
  Result<KvEvents> TakeKvEvents() override;
  void Shutdown() override {
    if (loop_) loop_->Stop();
  }

 private:
  /// A request with its id and, where there is no callback, its mailbox.
  Result<std::unique_ptr<RequestState>> Prepare(Request request, ResponseCallback callback);
  Status AddMailbox(RequestId id, const std::shared_ptr<Mailbox>& mailbox);
  void Forget(RequestId id);

  std::shared_ptr<const void> keep_alive_;  // first: released after everything that may use it
  const ModelFacts facts_;
  const kv::ImageIdentity identity_;
  const bool prefix_cache_;
  const bool kv_events_;
  size_t max_mailboxes_ = 0;
  std::atomic<RequestId> next_id_{1};
  std::mutex mutex_;
  std::unordered_map<RequestId, std::shared_ptr<Mailbox>> mailboxes_;  // guarded by mutex_
  std::unique_ptr<EngineLoop> loop_;  // last: its thread uses the rest
};

Status ExecutorImpl::AddMailbox(RequestId id, const std::shared_ptr<Mailbox>& mailbox) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (mailboxes_.size() >= max_mailboxes_) {
    return Status(StatusCode::kResourceExhausted,
                  "The answers of " + std::to_string(mailboxes_.size()) +
                      " requests were not fetched. Fetch each with Next until it is "
                      "finished, or submit with a callback.");
  }
  mailboxes_.emplace(id, mailbox);
  return Status::Ok();
}

void ExecutorImpl::Forget(RequestId id) {
  std::lock_guard<std::mutex> guard(mutex_);
  mailboxes_.erase(id);
}

Result<std::unique_ptr<RequestState>> ExecutorImpl::Prepare(Request request,
                                                            ResponseCallback callback) {
  Result<std::unique_ptr<RequestState>> state =
      MakeRequest(facts_, *loop_, std::move(request), std::move(callback));
  if (!state.ok()) return state;
  RequestState& made = **state;
  const auto answers = static_cast<RequestId>(1 + made.siblings.size());
  made.id = next_id_.fetch_add(answers);  // each answer has a rank of its own
  made.place.rank.arrival = made.id;
  if (!made.callback)
    made.mailbox = std::make_shared<Mailbox>(made.family ? made.family->wanted : 1);
  for (const auto& sibling : made.siblings) {
    sibling->id = made.id;
    sibling->place.rank.arrival = made.id + sibling->index;
    sibling->mailbox = made.mailbox;
  }
  if (made.callback) return state;
  if (Status status = AddMailbox(made.id, made.mailbox); !status.ok()) return status;
  return state;
}

Result<RequestId> ExecutorImpl::Submit(Request request, ResponseCallback callback) {
  RequestId listed = 0;  // no id: they begin at 1
  try {
    if (Status status = loop_->Accepting(); !status.ok()) return status;
    Result<std::unique_ptr<RequestState>> state = Prepare(std::move(request), std::move(callback));
    if (!state.ok()) return state.status();
    const RequestId id = listed = (*state)->id;
    Requests one;
    one.push_back(*std::move(state));
    if (Status status = std::move(loop_->Enqueue(std::move(one)).front()); !status.ok()) {
      Forget(listed);
      return status;
    }
    return id;
  } catch (const std::bad_alloc&) {
    Forget(listed);
    return NoMemoryToQueue();
  }
}

std::vector<Result<RequestId>> ExecutorImpl::SubmitMany(std::vector<Request> requests,
                                                        ResponseCallback callback) {
  std::vector<Result<RequestId>> results;
  std::vector<size_t> queued;  // indices of the results of those that are handed to the loop
  try {
    // Each result is that of a lack of memory until it is known better.
    results.assign(requests.size(), NoMemoryToQueue());
    queued.reserve(requests.size());
    const Status accepting = loop_->Accepting();
    Requests states;
    for (size_t i = 0; i < requests.size(); ++i) {
      Result<std::unique_ptr<RequestState>> state =
          accepting.ok() ? Prepare(std::move(requests[i]), callback)
                         : Result<std::unique_ptr<RequestState>>(accepting);
      results[i] = state.ok() ? Result<RequestId>((*state)->id) : state.status();
      if (!state.ok()) continue;
      queued.push_back(i);
      states.push_back(*std::move(state));
    }
    std::vector<Status> statuses = loop_->Enqueue(std::move(states));
    for (size_t q = 0; q < queued.size(); ++q) {
      if (statuses[q].ok()) continue;
      Forget(*results[queued[q]]);
      results[queued[q]] = std::move(statuses[q]);
    }
  } catch (const std::bad_alloc&) {
    for (const size_t i : queued) {
      Forget(*results[i]);
      results[i] = NoMemoryToQueue();
    }
  }
  return results;
}

Result<Response> ExecutorImpl::Next(RequestId id, std::chrono::milliseconds timeout) {
  const auto unknown = [id] {
    return Status(StatusCode::kNotFound,
                  "Request " + std::to_string(id) +
                      " is unknown, was fetched to its end, or has a callback.");
  };
  if (loop_->OnOwnThread()) {
    return Status(
        StatusCode::kInvalidArgument,
        "Next was called from a callback or a logits processor, which holds up the step "
        "that it would wait for. Submit with a callback, or call it from another thread.");
  }
  try {
    std::shared_ptr<Mailbox> mailbox;
    {
      std::lock_guard<std::mutex> guard(mutex_);
      const auto found = mailboxes_.find(id);
      if (found == mailboxes_.end()) return unknown();
      mailbox = found->second;
    }
    std::optional<Response> response = mailbox->Take(timeout);
    if (!response) return unknown();  // another thread fetched the end
    response->id = id;
    if (response->last) Forget(id);
    return *std::move(response);
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted(
        "No memory is left to tell of the request. Call Next again later.");
  }
}

Status ExecutorImpl::Cancel(RequestId id) {
  try {
    return loop_->Cancel(id);
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted(
        "No memory is left to cancel the request. Cancel it again later.");
  }
}

Status NoCache() {
  return Status(StatusCode::kInvalidArgument,
                "prefix_cache is off: no KV is kept, and none would be found. Turn it on.");
}

// Runs `work`, which gives a Result<T>, on the loop's thread.
template <class T, class Work>
Result<T> CallFor(EngineLoop& loop, const Work& work) {
  try {
    std::optional<Result<T>> result;
    Status status = loop.Call([&](Batcher& batcher, StepRunner& runner) {
      result = work(batcher, runner);
      return result->status();
    });
    if (!status.ok()) return status;
    return *std::move(result);
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("No memory is left for this call. Free memory.");
  }
}

Result<KvImage> ExecutorImpl::ExportKv(std::span<const TokenId> tokens,
                                       std::string_view cache_salt) {
  if (tokens.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "ExportKv was given no tokens. Give the prompt and the answer of a request.");
  }
  if (!prefix_cache_) return NoCache();
  if (Status status = ValidateSalt(cache_salt); !status.ok()) return status;
  if (Status status = ValidateTokenIds(tokens, facts_.limits.vocab_size, "tokens"); !status.ok())
    return status;
  return CallFor<KvImage>(*loop_, [&](Batcher& batcher, StepRunner& runner) {
    return executor::ExportKv(batcher, runner, tokens, cache_salt, identity_);
  });
}

Result<int64_t> ExecutorImpl::ImportKv(std::span<const std::byte> image,
                                       std::string_view cache_salt) {
  if (!prefix_cache_) return NoCache();
  if (Status status = ValidateSalt(cache_salt); !status.ok()) return status;
  return CallFor<int64_t>(*loop_, [&](Batcher& batcher, StepRunner& runner) {
    return executor::ImportKv(batcher, runner, image, cache_salt, identity_);
  });
}

Status ExecutorImpl::DropCache(std::string_view salt_prefix) {
  return CallFor<bool>(*loop_,
                       [&](Batcher& batcher, StepRunner&) -> Result<bool> {
                         batcher.kv().DropKey(salt_prefix);
                         return true;
                       })
      .status();
}

Result<KvEvents> ExecutorImpl::TakeKvEvents() {
  if (!kv_events_) {
    return Status(
        StatusCode::kInvalidArgument,
        "No KV events are made: max_kv_events is 0. Set it when the executor is created.");
  }
  return CallFor<KvEvents>(*loop_, [&](Batcher& batcher, StepRunner&) -> Result<KvEvents> {
    return KvEvents{batcher.kv().TakeEvents(), batcher.kv().dropped_events()};
  });
}

Result<uint64_t> KvBudget(const ExecutorConfig& config) {
  if (config.kv_memory_bytes > 0) return config.kv_memory_bytes;
  const uint64_t available = AvailableMemory();
  if (available == 0) {
    return Status(StatusCode::kResourceExhausted,
                  "No memory is available for the KV pool, or the system does not tell. Free "
                  "memory or set kv_memory_bytes.");
  }
  return available / 4;
}

}  // namespace

Result<std::unique_ptr<Executor>> CreateExecutor(ExecutorParts parts,
                                                 const ExecutorConfig& config) {
  try {
    const Result<EngineLimits> limits = ResolveLimits(config, parts.facts.limits);
    if (!limits.ok()) return limits.status();
    parts.facts.limits = *limits;

    std::vector<kv::GroupSpec> groups;
    for (const exec::KvGroupInfo& info : parts.backend->kv_groups()) {
      Result<kv::GroupSpec> group =
          kv::MakeGroupSpec(info.window > 0 ? "window" : "full", info.block_tokens, info.window,
                            info.bytes_per_block);
      if (!group.ok()) return group.status();
      groups.push_back(*group);
    }
    const Result<uint64_t> budget = KvBudget(config);
    if (!budget.ok()) return budget.status();
    const Result<std::vector<int64_t>> blocks = PlanKvBlocks(groups, *limits, *budget);
    if (!blocks.ok()) return blocks.status();
    if (Status status = parts.backend->AllocateKv(*blocks); !status.ok()) return status;

    kv::KvOptions options{.enable_cache = config.prefix_cache, .max_events = config.max_kv_events};
    std::unique_ptr<kv::HostPool> host;
    if (config.host_kv_bytes > 0) {
      Result<std::vector<int64_t>> slots = kv::PlanHostSlots(groups, *blocks, config.host_kv_bytes);
      if (!slots.ok()) return slots.status();
      options.host_slots = *std::move(slots);
      Result<std::unique_ptr<kv::HostPool>> made =
          kv::HostPool::Create(groups, options.host_slots, config.host_kv_dir);
      if (!made.ok()) return made.status();
      host = *std::move(made);
    }
    auto kv = std::make_unique<kv::KvManager>(
        std::move(groups), *blocks, limits->max_batch_size + 1, limits->max_num_tokens, options);
    const LoopConfig loop_config{
        .limits = {limits->max_num_tokens, limits->max_batch_size},
        .batch = {config.capacity, config.chunking},
        .queue = {config.max_queued_requests, config.max_queued_tokens, config.max_queued_bytes},
        .ageing_us = std::chrono::microseconds(config.ageing).count(),
        .iteration_history = config.iteration_history,
        .vocab_size = limits->vocab_size};
    auto loop =
        std::make_unique<EngineLoop>(std::move(parts.backend), std::move(kv), std::move(host),
                                     loop_config, parts.math ? *parts.math : core::ScalarRowMath());
    auto executor = std::make_unique<ExecutorImpl>(
        std::move(parts.facts), std::move(parts.keep_alive), std::move(parts.identity), config);
    if (Status status = executor->Start(std::move(loop), config.max_queued_requests); !status.ok())
      return status;
    return std::unique_ptr<Executor>(std::move(executor));
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted(
        "No memory is left to create the executor. Lower max_batch_size or free memory.");
  }
}

}  // namespace slipstream::executor
