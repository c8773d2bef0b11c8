// The host tier below an executor: idle conversations and preempted requests go on without being
// computed again, and a move that fails gives nobody a wrong token.
#include <gtest/gtest.h>

#include "executor_fixture.h"

namespace slipstream::executor {
namespace {

constexpr uint64_t kPair = 64 + 32;  // bytes of a block of each group
constexpr uint64_t kHost = 700 * kPair;

Fixture SmallPool(uint64_t host_bytes) {
  Fixture fixture;
  fixture.limits.max_seq_len = 200;
  fixture.fake.window = 200;
  // 40 blocks of 4 positions in each of the two groups.
  fixture.config.kv_memory_bytes = 40 * kPair;
  fixture.config.host_kv_bytes = host_bytes;
  return fixture;
}

Request Conversation(int32_t name, int32_t tokens, int32_t max_tokens = 4) {
  Request request;
  for (int32_t i = 0; i < tokens; ++i)
    request.prompt_token_ids.push_back(1 + (name * 13 + i * 7 + i / 11) % (kFakeVocab - 1));
  request.sampling = {.max_tokens = max_tokens, .temperature = 0.0f, .seed = 0, .ignore_eos = true};
  return request;
}

Response Ask(const Fixture& fixture, Executor& executor, const Request& request) {
  const Result<RequestId> id = executor.Submit(request);
  if (!id.ok()) {
    ADD_FAILURE() << id.status().message();
    return {};
  }
  const Response answer = Collect(executor, *id);
  EXPECT_EQ(answer.token_ids, Alone(fixture, request).token_ids);
  return answer;
}

TEST(ExecutorHostTierTest, AnIdleConversationGoesOn) {
  for (const uint64_t host_bytes : {uint64_t{0}, kHost}) {
    Fixture fixture = SmallPool(host_bytes);
    const auto executor = fixture.Make();
    Request first = Conversation(0, 120);
    const Response turn = Ask(fixture, *executor, first);
    for (int32_t other = 1; other < 4; ++other) Ask(fixture, *executor, Conversation(other, 130));
    first.prompt_token_ids.insert(first.prompt_token_ids.end(), turn.token_ids.begin(),
                                  turn.token_ids.end());
    first.prompt_token_ids.push_back(5);
    const ExecutorStats before = executor->Stats();
    const Response next = Ask(fixture, *executor, first);
    const ExecutorStats after = executor->Stats();
    // All but the last token of the answer, which was not computed, and the new one.
    EXPECT_EQ(next.cached_tokens, host_bytes > 0 ? 123 : 0);
    EXPECT_EQ(after.prefill_tokens_computed - before.prefill_tokens_computed,
              host_bytes > 0 ? 2 : 125);
    EXPECT_EQ(after.blocks_swapped_in - before.blocks_swapped_in, host_bytes > 0 ? 2 * 31 : 0);
    EXPECT_EQ(after.blocks_swapped_out > 0, host_bytes > 0);
    EXPECT_EQ(after.host_blocks_used > 0, host_bytes > 0);
    EXPECT_EQ(after.host_blocks_total, static_cast<int64_t>(2 * host_bytes / kPair));
    EXPECT_EQ(after.kv_blocks_free + after.kv_blocks_cached, after.kv_blocks_total);
  }
}

TEST(ExecutorHostTierTest, PreemptedRequestsFindWhatTheyComputed) {
  int64_t recomputed[2];
  for (const bool tier : {false, true}) {
    Fixture fixture = SmallPool(tier ? kHost : 0);
    fixture.config.capacity = CapacityPolicy::kMaxUtilization;
    const auto executor = fixture.Make();
    std::vector<Request> requests;
    for (int32_t name = 0; name < 12; ++name) requests.push_back(Conversation(name, 40, 60));
    const auto ids = executor->SubmitMany(requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(Collect(*executor, *ids[i]).token_ids, Alone(fixture, requests[i]).token_ids);
    }
    const ExecutorStats stats = executor->Stats();
    EXPECT_GT(stats.preemptions, 3);
    recomputed[tier] = stats.recomputed_tokens;
    EXPECT_EQ(stats.kv_blocks_free + stats.kv_blocks_cached, stats.kv_blocks_total);
  }
  EXPECT_GT(recomputed[0], 50);
  // A resumed request computes the last token that it knows, and nothing else again.
  EXPECT_LT(recomputed[1] * 4, recomputed[0]);
}

TEST(ExecutorHostTierTest, AMoveThatFailsGivesNobodyAWrongToken) {
  for (const bool out : {true, false}) {
    Fixture fixture = SmallPool(kHost);
    const auto executor = fixture.Make();
    const Request first = Conversation(0, 120);
    Ask(fixture, *executor, first);
    if (!out) Ask(fixture, *executor, Conversation(1, 130));
    (out ? fixture.watch->fail_reads : fixture.watch->fail_writes) = true;
    const Request unlucky = out ? Conversation(1, 130) : first;
    const Response failed = Collect(*executor, *executor->Submit(unlucky));
    EXPECT_EQ(failed.finish_reason, FinishReason::kError);
    EXPECT_EQ(failed.status.message(), "the fake was told to fail");
    EXPECT_FALSE(out ? fixture.watch->fail_reads : fixture.watch->fail_writes);
    const ExecutorStats stats = executor->Stats();
    EXPECT_EQ(stats.host_blocks_used, 0);
    EXPECT_EQ(stats.kv_blocks_free, stats.kv_blocks_total);
    EXPECT_EQ(Ask(fixture, *executor, first).cached_tokens, 0);
    EXPECT_EQ(Ask(fixture, *executor, unlucky).finish_reason, FinishReason::kLength);
    Ask(fixture, *executor, Conversation(2, 130));
    EXPECT_GT(Ask(fixture, *executor, first).cached_tokens, 0) << "the tier goes on";
  }
}

TEST(ExecutorHostTierTest, SaysWhyItCannotBeMade) {
  Fixture fixture = SmallPool(20);
  const auto message = [&fixture] { return fixture.TryMake().status().message(); };
  EXPECT_NE(message().find("host_kv_bytes is 20"), std::string::npos) << message();
  fixture.config.host_kv_bytes = kHost;
  fixture.config.host_kv_dir = "/nowhere/at/all";
  EXPECT_NE(message().find("(host_kv_dir)"), std::string::npos) << message();
  fixture.config.host_kv_dir = "";
  fixture.config.prefix_cache = false;
  EXPECT_NE(message().find("prefix_cache is off"), std::string::npos) << message();
}

}  // namespace
}  // namespace slipstream::executor
