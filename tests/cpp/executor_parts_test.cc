// Memory budget, KV split, response joining, Runtime.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "executor/mailbox.h"
#include "executor/memory_budget.h"
#include "slipstream/engine.h"

namespace slipstream::executor {
namespace {

class MemoryBudgetTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() /
            ("slipstream_memory_" + std::to_string(reinterpret_cast<uintptr_t>(this)));
    std::filesystem::create_directories(root_);
    sources_ = {root_ / "meminfo", root_ / "cgroup", root_ / "fs"};
    Write("meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\nSwapFree: 1 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::filesystem::path root_;
  MemorySources sources_;
};

TEST_F(MemoryBudgetTest, WithoutLimitsItIsMemAvailable) {
  EXPECT_EQ(AvailableMemory(sources_), 8000u * 1024);
}

TEST_F(MemoryBudgetTest, NothingKnownIsZero) {
  Write("meminfo", "");
  EXPECT_EQ(AvailableMemory(sources_), 0u);
}

TEST_F(MemoryBudgetTest, Version2TakesTheTightestParentAndCountsCacheAsFree) {
  Write("cgroup", "0::/a/b\n");
  Write("fs/a/b/memory.max", "max\n");
  Write("fs/a/memory.max", "1000000\n");
  Write("fs/a/memory.current", "700000\n");
  Write("fs/a/memory.stat", "anon 5\ninactive_file 200000\n");
  EXPECT_EQ(AvailableMemory(sources_), 500000u);
  Write("fs/a/b/memory.max", "900000\n");
  Write("fs/a/b/memory.current", "850000\n");
  EXPECT_EQ(AvailableMemory(sources_), 50000u);
  Write("fs/a/b/memory.current", "950000\n");
  EXPECT_EQ(AvailableMemory(sources_), 0u);
}

TEST_F(MemoryBudgetTest, ContainerSeesItsGroupAtTheMount) {
  Write("cgroup", "0::/\n");
  Write("fs/memory.max", "600000\n");
  Write("fs/memory.current", "100000\n");
  EXPECT_EQ(AvailableMemory(sources_), 500000u);
}

TEST_F(MemoryBudgetTest, Version1) {
  Write("cgroup", "5:cpu,cpuacct:/x\n4:memory:/box/inner\n");
  Write("fs/memory/box/memory.limit_in_bytes", "400000\n");
  Write("fs/memory/box/memory.usage_in_bytes", "300000\n");
  Write("fs/memory/box/memory.stat", "total_inactive_file 100000\n");
  EXPECT_EQ(AvailableMemory(sources_), 200000u);
}

TEST(PlanKvBlocksTest, SplitsInProportionAndNeverBeyondNeed) {
  const std::vector<kv::GroupSpec> groups = {
      {.block_tokens = 32, .window = 0, .bytes_per_block = 1000},
      {.block_tokens = 32, .window = 64, .bytes_per_block = 3000}};
  const EngineLimits limits{
      .max_seq_len = 1024, .max_batch_size = 10, .max_num_tokens = 64, .vocab_size = 8};
  const std::vector<int64_t> most = {10 * 32, 10 * kv::PeakBlocks(groups[1], 1024, 64)};
  EXPECT_EQ(*PlanKvBlocks(groups, limits, uint64_t{1} << 40), most);
  for (const uint64_t budget : {4000u, 4999u, 50000u, 200000u, 449999u}) {
    const auto blocks = PlanKvBlocks(groups, limits, budget);
    ASSERT_TRUE(blocks.ok());
    const uint64_t bytes = (*blocks)[0] * 1000 + (*blocks)[1] * 3000;
    EXPECT_LE(bytes, budget);
    EXPECT_GE((*blocks)[0], 1);
    EXPECT_GE((*blocks)[1], 1);
    EXPECT_GE(bytes + 4000, std::min<uint64_t>(budget, most[0] * 1000 + most[1] * 3000))
        << "what is given is used";
    EXPECT_NEAR(static_cast<double>((*blocks)[0]) / most[0],
                static_cast<double>((*blocks)[1]) / most[1], 0.03);
  }
  const auto refused = PlanKvBlocks(groups, limits, 3999);
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().message().find("4000"), std::string::npos);
}

TEST(MailboxTest, JoinedDeltasEqualOneResponse) {
  Mailbox mailbox;
  mailbox.Post({.id = 3,
                .text = "ab",
                .token_ids = {1, 2},
                .logprobs = {{-1, 1}, {-2, 2, {{5, -1}}}},
                .prompt_logprobs = {{-4, 1}},
                .logits = {1, 2, 3, 4},
                .prompt_tokens = 4,
                .seed = 9});
  mailbox.Post({.id = 3,
                .last = true,
                .text = "c",
                .token_ids = {3},
                .logprobs = {{-3, 7}},
                .logits = {5, 6},
                .finish_reason = FinishReason::kStop,
                .stop_string = "!",
                .stop_token = 3,
                .prompt_tokens = 4,
                .seed = 9});
  const std::optional<Response> all = mailbox.Take(std::chrono::milliseconds(0));
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->text, "abc");
  EXPECT_EQ(all->token_ids, (std::vector<TokenId>{1, 2, 3}));
  EXPECT_EQ(all->logprobs,
            (std::vector<TokenLogprobs>{{-1, 1, {}}, {-2, 2, {{5, -1}}}, {-3, 7, {}}}));
  EXPECT_EQ(all->prompt_logprobs, (std::vector<TokenLogprobs>{{-4, 1, {}}}));
  EXPECT_EQ(all->logits, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(all->stop_string, "!");
  EXPECT_TRUE(all->finished());
  EXPECT_FALSE(mailbox.Take(std::chrono::milliseconds(0)).has_value())
      << "nothing comes after the end";
}

TEST(MailboxTest, AnswersTakeTurnsAndTheLastOneIsMarked) {
  Mailbox mailbox(3);
  const auto now = std::chrono::milliseconds(0);
  const auto post = [&](int32_t index, TokenId token, FinishReason reason, bool last) {
    Response news;
    news.index = index;
    news.token_ids = {token};
    news.finish_reason = reason;
    news.last = last;
    mailbox.Post(std::move(news));
  };
  for (const TokenId token : {1, 2}) {
    for (const int32_t index : {0, 1, 2}) post(index, token, FinishReason::kNone, false);
  }
  EXPECT_EQ(mailbox.Take(now)->index, 0);
  post(0, 3, FinishReason::kNone, false);
  for (const int32_t index : {1, 2, 0}) {
    const std::optional<Response> news = mailbox.Take(now);
    ASSERT_TRUE(news.has_value());
    EXPECT_EQ(news->index, index);
    EXPECT_EQ(news->token_ids.size(), index == 0 ? 1u : 2u);
    EXPECT_FALSE(news->last);
  }
  EXPECT_FALSE(mailbox.Take(now)->finished());  // no news
  post(2, 4, FinishReason::kStop, false);
  post(0, 4, FinishReason::kStop, false);
  post(1, 4, FinishReason::kLength, true);
  // The last one that is taken ends the request, whichever was posted last.
  EXPECT_FALSE(mailbox.Take(now)->last);
  EXPECT_FALSE(mailbox.Take(now)->last);
  const std::optional<Response> end = mailbox.Take(now);
  EXPECT_TRUE(end->last && end->finished());
  EXPECT_FALSE(mailbox.Take(now).has_value());
}

TEST(MailboxTest, ExtremeTimeoutsDoNotOverflow) {
  Mailbox mailbox;
  EXPECT_TRUE(mailbox.Take(std::chrono::milliseconds::min()).has_value());
  std::thread poster([&] { mailbox.Post({.id = 1, .token_ids = {7}}); });
  EXPECT_EQ(mailbox.Take(std::chrono::milliseconds::max())->token_ids, std::vector<TokenId>{7});
  poster.join();
}

TEST(RuntimeTest, ThreadsAndPaths) {
  const auto runtime = Runtime::Create({.threads = 3, .cpu_path = CpuPath::kScalar});
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  EXPECT_EQ(runtime->threads(), 3);
  EXPECT_STREQ(runtime->cpu_path(), "scalar");
  EXPECT_GE(Runtime::Create()->threads(), 1);
  for (const int32_t threads : {-1, 1025}) {
    const auto refused = Runtime::Create({.threads = threads});
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(refused.status().message().find(std::to_string(threads)), std::string::npos);
  }
}

TEST(FinishReasonTest, Names) {
  EXPECT_STREQ(FinishReasonName(FinishReason::kNone), "");
  EXPECT_STREQ(FinishReasonName(FinishReason::kStop), "stop");
  EXPECT_STREQ(FinishReasonName(FinishReason::kLength), "length");
  EXPECT_STREQ(FinishReasonName(FinishReason::kCancelled), "cancelled");
  EXPECT_STREQ(FinishReasonName(FinishReason::kError), "error");
}

}  // namespace
}  // namespace slipstream::executor
