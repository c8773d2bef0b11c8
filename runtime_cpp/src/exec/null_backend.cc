#include "exec/null_backend.h"

#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "core/resource_exhausted.h"
#include "exec/block_access.h"
#include "exec/cpu/prepared_step.h"

namespace slipstream::exec {
namespace {

/// A 64-bit finalizer: every input bit changes about half of the output bits.
uint64_t Mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// In [-8, 8).
float ToValue(uint64_t hash) { return static_cast<float>(hash >> 40) * 0x1p-20f - 8.0f; }

engine::Manifest MakeManifest(const NullBackendConfig& config) {
  engine::Manifest manifest;
  manifest.limits = config.limits;
  for (const KvGroupInfo& info : config.groups) {
    engine::KvGroup group;
    group.window = info.window;
    group.kv_heads = 1;
    manifest.kv_groups.push_back(group);
  }
  return manifest;
}

cpu::CpuPlan MakePlan(const NullBackendConfig& config) {
  cpu::CpuPlan plan;
  plan.max_tokens = config.limits.max_num_tokens;
  plan.max_outputs = config.limits.max_batch_size;
  return plan;
}

class NullBackend final : public Backend {
 public:
  explicit NullBackend(const NullBackendConfig& config)
      : config_(config), step_(MakeManifest(config), MakePlan(config), 1) {}

  std::span<const KvGroupInfo> kv_groups() const override { return config_.groups; }

  Status AllocateKv(std::span<const int64_t> blocks) override {
    if (!pools_.empty() || blocks.size() != config_.groups.size()) {
      return {StatusCode::kInvalidArgument,
              "The KV pools are allocated once, one size for each cache group."};
    }
    try {
      for (int64_t count : blocks) {
        if (count < 1) return {StatusCode::kInvalidArgument, "A KV pool needs at least 1 block."};
        pools_.emplace_back(static_cast<size_t>(count) * cpu::kKvBlockTokens, kEmpty);
      }
      blocks_.assign(blocks.begin(), blocks.end());
    } catch (const std::bad_alloc&) {
      return core::ResourceExhausted("Not enough memory for the KV pools of the null backend.");
    }
    return Status::Ok();
  }

  Result<StepHandle> Submit(const StepBatch& batch) override {
    if (in_flight_)
      return Status(StatusCode::kInvalidArgument,
                    "The previous step must be released before the next is submitted.");
    if (pools_.size() != config_.groups.size()) {
      return Status(StatusCode::kInvalidArgument,
                    "The KV pools must be allocated before the first step.");
    }
    if (Status status = step_.Prepare(batch, blocks_); !status.ok()) return status;
    try {
      Run(batch);
    } catch (const std::bad_alloc&) {
      return core::ResourceExhausted("Not enough memory for a step of the null backend.");
    }
    in_flight_ = true;
    return ++handle_;
  }

  Result<RowsView> Read(StepHandle step, OutputKind kind) override {
    if (!in_flight_ || step != handle_)
      return Status(StatusCode::kInvalidArgument,
                    "The step to read was released or never submitted.");
    const bool hidden = kind == OutputKind::kHidden;
    RowsView view;
    view.cols = hidden ? config_.hidden_size : config_.limits.vocab_size;
    view.stride = view.cols;
    view.rows = hidden ? step_.output_rows() - step_.logits_rows() : step_.logits_rows();
    view.data = hidden ? hidden_.data() : logits_.data();
    return view;
  }

  void Release(StepHandle step) override {
    if (step == handle_) in_flight_ = false;
  }

  Status CopyBlocks(std::span<const BlockCopy> copies) override {
    if (Status status = CheckCopies(Pools(), copies); !status.ok()) return status;
    for (const BlockCopy& copy : copies) {
      std::memmove(Block(copy.group, copy.target), Block(copy.group, copy.source), kImageBytes);
    }
    return Status::Ok();
  }

  Status ReadBlock(int32_t group, int32_t block, std::span<std::byte> image) override {
    if (Status status = CheckTokensFit(group, block, image.size()); !status.ok()) return status;
    std::memset(image.data(), 0, image.size());
    std::memcpy(image.data(), Block(group, block), kImageBytes);
    return Status::Ok();
  }

  Status WriteBlock(int32_t group, int32_t block, std::span<const std::byte> image) override {
    if (Status status = CheckTokensFit(group, block, image.size()); !status.ok()) return status;
    std::memcpy(Block(group, block), image.data(), kImageBytes);
    return Status::Ok();
  }

 private:
  static constexpr TokenId kEmpty = -1;
  static constexpr size_t kImageBytes = cpu::kKvBlockTokens * sizeof(TokenId);

  BlockPools Pools() const { return {config_.groups, blocks_, in_flight_}; }
  TokenId* Block(int32_t group, int32_t block) {
    return pools_[group].data() + static_cast<int64_t>(block) * cpu::kKvBlockTokens;
  }
  Status CheckTokensFit(int32_t group, int32_t block, size_t image_bytes) const {
    if (Status status = CheckImage(Pools(), group, block, image_bytes); !status.ok()) return status;
    if (image_bytes >= kImageBytes) return Status::Ok();
    return {StatusCode::kInvalidArgument,
            "A block of the null backend holds " + std::to_string(kImageBytes) +
                " bytes of tokens; its bytes_per_block is " + std::to_string(image_bytes) +
                ". Give the group at least as many."};
  }

  void Run(const StepBatch& batch) {
    for (size_t g = 0; g < pools_.size(); ++g) {
      for (int32_t r = 0; r < batch.rows(); ++r) {
        pools_[g][step_.row_blocks(static_cast<int32_t>(g))[r] * cpu::kKvBlockTokens +
                  batch.positions[r] % cpu::kKvBlockTokens] = batch.token_ids[r];
      }
    }
    logits_.clear();
    hidden_.clear();
    for (int32_t i = 0; i < step_.output_rows(); ++i) {
      const uint64_t seed = Seen(batch, step_.select()[i]);
      const bool wants_logits = i < step_.logits_rows();
      std::vector<float>& out = wants_logits ? logits_ : hidden_;
      const int32_t cols = wants_logits ? config_.limits.vocab_size : config_.hidden_size;
      for (int32_t c = 0; c < cols; ++c)
        out.push_back(ToValue(Mix(seed + static_cast<uint64_t>(c))));
    }
  }

  /// Hash of what a row sees: every token of its context in every group, and its position.
  uint64_t Seen(const StepBatch& batch, int32_t row) const {
    size_t s = 0;
    while (row >= batch.sequences[s].first_row + batch.sequences[s].num_rows) ++s;
    const int32_t query = batch.positions[row];
    uint64_t hash = Mix(static_cast<uint64_t>(query) + 1);
    for (size_t g = 0; g < pools_.size(); ++g) {
      const int32_t window = config_.groups[g].window;
      const int32_t first = window > 0 && query >= window ? query - window + 1 : 0;
      const BlockTable& table = batch.block_tables[g];
      for (int32_t p = first; p <= query; ++p) {
        const int64_t block = table.blocks[s * table.stride + p / cpu::kKvBlockTokens];
        const TokenId token = pools_[g][block * cpu::kKvBlockTokens + p % cpu::kKvBlockTokens];
        hash = Mix(hash ^
                   (static_cast<uint64_t>(static_cast<uint32_t>(token)) + 0x9e3779b97f4a7c15ULL));
      }
    }
    return hash;
  }

  NullBackendConfig config_;
  cpu::PreparedStep step_;
  std::vector<std::vector<TokenId>> pools_;  ///< Tokens by [block * 32 + position % 32].
  std::vector<int64_t> blocks_;
  std::vector<float> logits_;
  std::vector<float> hidden_;
  StepHandle handle_ = 0;
  bool in_flight_ = false;
};

}  // namespace

Result<std::unique_ptr<Backend>> CreateNullBackend(const NullBackendConfig& config) {
  const EngineLimits& limits = config.limits;
  if (limits.max_seq_len < 1 || limits.max_batch_size < 1 || limits.max_num_tokens < 1 ||
      limits.vocab_size < 1 || config.hidden_size < 1) {
    return Status(StatusCode::kInvalidArgument,
                  "The limits of a null backend must all be at least 1.");
  }
  for (const KvGroupInfo& group : config.groups) {
    if (group.block_tokens != cpu::kKvBlockTokens) {
      return Status(StatusCode::kInvalidArgument, "A null backend has blocks of 32 tokens, not " +
                                                      std::to_string(group.block_tokens) + ".");
    }
  }
  try {
    return std::unique_ptr<Backend>(std::make_unique<NullBackend>(config));
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("Not enough memory for a null backend.");
  }
}

}  // namespace slipstream::exec
