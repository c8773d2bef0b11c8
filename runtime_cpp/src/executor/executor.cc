#include "executor/executor.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/resource_exhausted.h"
#include "executor/bad_words.h"
#include "executor/loop.h"
#include "executor/memory_budget.h"
#include "executor/validate.h"
#include "sched/admission.h"

namespace slipstream::executor {
namespace {

// Answers that nobody fetched: beyond this many, requests without callback are refused rather than
// old answers dropped.
constexpr size_t kMaxUnfetched = 65536;

Result<uint64_t> FreshSeed() {
  try {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  } catch (const std::exception& error) {
    return Status(StatusCode::kIo, std::string("The system gives no random seed: ") + error.what() +
                                       ". Set SamplingParams::seed.");
  }
}

class ExecutorImpl : public Executor {
 public:
  ExecutorImpl(ModelFacts facts, std::shared_ptr<const void> keep_alive)
      : keep_alive_(std::move(keep_alive)), facts_(std::move(facts)) {}
  ~ExecutorImpl() override { Shutdown(); }

  Status Start(std::unique_ptr<EngineLoop> loop, int32_t max_queued) {
    loop_ = std::move(loop);
    max_mailboxes_ = kMaxUnfetched + static_cast<size_t>(max_queued);
    return loop_->Start();
  }

  Result<RequestId> Submit(Request request, ResponseCallback callback) override;
  Result<Response> Next(RequestId id, std::chrono::milliseconds timeout) override;
  Status Cancel(RequestId id) override;
  ExecutorStats Stats() const override { return loop_->Stats(); }
  void Shutdown() override {
    if (loop_) loop_->Stop();
  }

 private:
  Result<std::vector<TokenId>> PromptIds(Request& request) const;
  Result<std::unique_ptr<RequestState>> MakeState(Request request, ResponseCallback callback) const;
  Status AddMailbox(RequestId id, const std::shared_ptr<Mailbox>& mailbox);
  void Forget(RequestId id);

  std::shared_ptr<const void> keep_alive_;  // first: released after everything that may use it
  const ModelFacts facts_;
  size_t max_mailboxes_ = 0;
  std::atomic<RequestId> next_id_{1};
  std::mutex mutex_;
  std::unordered_map<RequestId, std::shared_ptr<Mailbox>> mailboxes_;  // guarded by mutex_
  std::unique_ptr<EngineLoop> loop_;  // last: its thread uses the rest
};

Result<std::vector<TokenId>> ExecutorImpl::PromptIds(Request& request) const {
  if (request.prompt.empty()) return std::move(request.prompt_token_ids);
  Result<std::vector<TokenId>> ids =
      facts_.tokenizer->Encode(request.prompt, {.add_special_tokens = request.add_special_tokens});
  if (!ids.ok()) return ids;
  if (ids->empty()) {
    return Status(StatusCode::kInvalidArgument, "prompt gives no tokens. Give at least one token.");
  }
  if (Status status = ValidateTokenIds(*ids, facts_.limits.vocab_size, "tokens of prompt");
      !status.ok())
    return status;
  return ids;
}

Result<std::unique_ptr<RequestState>> ExecutorImpl::MakeState(Request request,
                                                              ResponseCallback callback) const {
  if (Status status =
          ValidateRequest(request, facts_.limits.vocab_size, facts_.tokenizer.has_value());
      !status.ok()) {
    return status;
  }
  if (facts_.tokenizer) {
    if (Status status =
            ResolveBadWords(*facts_.tokenizer, facts_.limits.vocab_size, &request.sampling);
        !status.ok())
      return status;
  }
  Result<std::vector<TokenId>> prompt = PromptIds(request);
  if (!prompt.ok()) return prompt.status();
  const int64_t prompt_tokens = static_cast<int64_t>(prompt->size());
  const int64_t max_tokens = request.sampling.max_tokens;
  const int64_t max_seq_len = facts_.limits.max_seq_len;
  std::vector<int64_t> need =
      loop_->BlocksNeeded(std::min(prompt_tokens + max_tokens, max_seq_len));
  if (Status status = sched::CheckFits({prompt_tokens, max_tokens, max_seq_len, need,
                                        loop_->total_blocks(), loop_->block_tokens()});
      !status.ok()) {
    return status;
  }
  const Result<uint64_t> seed =
      request.sampling.seed ? Result<uint64_t>(*request.sampling.seed) : FreshSeed();
  if (!seed.ok()) return seed.status();
  auto state =
      std::make_unique<RequestState>(facts_, std::move(request.sampling), *std::move(prompt), *seed,
                                     std::move(callback), std::move(request.logits_processors));
  state->blocks_needed = std::move(need);
  return state;
}

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

Result<RequestId> ExecutorImpl::Submit(Request request, ResponseCallback callback) {
  RequestId listed = 0;  // no id: they begin at 1
  try {
    if (Status status = loop_->Accepting(); !status.ok()) return status;
    Result<std::unique_ptr<RequestState>> state =
        MakeState(std::move(request), std::move(callback));
    if (!state.ok()) return state.status();
    const RequestId id = next_id_++;
    if (!(*state)->callback) {
      (*state)->mailbox = std::make_shared<Mailbox>();
      if (Status status = AddMailbox(id, (*state)->mailbox); !status.ok()) return status;
      listed = id;
    }
    if (Status status = loop_->Enqueue(id, *std::move(state)); !status.ok()) {
      Forget(listed);
      return status;
    }
    return id;
  } catch (const std::bad_alloc&) {
    Forget(listed);
    return core::ResourceExhausted("No memory is left to queue the request. Submit again later.");
  }
}

Result<Response> ExecutorImpl::Next(RequestId id, std::chrono::milliseconds timeout) {
  const auto unknown = [id] {
    return Status(StatusCode::kNotFound,
                  "Request " + std::to_string(id) +
                      " is unknown, was fetched to its end, or has a callback.");
  };
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
    if (response->finished()) Forget(id);
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

    auto kv = std::make_unique<kv::KvManager>(std::move(groups), *blocks, limits->max_batch_size,
                                              limits->max_num_tokens,
                                              kv::KvOptions{.enable_cache = false});
    auto loop = std::make_unique<EngineLoop>(
        std::move(parts.backend), std::move(kv),
        sched::Limits{limits->max_num_tokens, limits->max_batch_size}, config.max_queued_requests,
        limits->vocab_size, parts.math ? *parts.math : core::ScalarRowMath(),
        parts.turn ? std::move(parts.turn) : std::make_shared<StepTurn>());
    auto executor =
        std::make_unique<ExecutorImpl>(std::move(parts.facts), std::move(parts.keep_alive));
    if (Status status = executor->Start(std::move(loop), config.max_queued_requests); !status.ok())
      return status;
    return std::unique_ptr<Executor>(std::move(executor));
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted(
        "No memory is left to create the executor. Lower max_batch_size or free memory.");
  }
}

}  // namespace slipstream::executor
