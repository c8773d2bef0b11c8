#include "executor/kv_transfer.h"

#include <string>
#include <utility>
#include <vector>

namespace slipstream::executor {
namespace {

/// Closes the spare slot however its use ends.
class SpareSequence {
 public:
  explicit SpareSequence(Batcher& batcher) : kv_(batcher.kv()), slot_(batcher.spare_slot()) {}
  ~SpareSequence() {
    if (kv_.is_open(slot_)) kv_.Close(slot_, tokens_, static_cast<int64_t>(tokens_.size()), true);
  }
  SpareSequence(const SpareSequence&) = delete;
  SpareSequence& operator=(const SpareSequence&) = delete;

  int32_t slot() const { return slot_; }
  /// What it has, to be kept as cache.
  void Keep(std::span<const TokenId> tokens) { tokens_ = tokens; }

 private:
  kv::KvManager& kv_;
  const int32_t slot_;
  std::span<const TokenId> tokens_;
};

Status NoRoom(const char* what, const Status& why) {
  if (why.code() != StatusCode::kResourceExhausted) return why;
  return Status(StatusCode::kResourceExhausted,
                std::string("The KV pool has no room to ") + what +
                    " beside what runs. Try again when fewer requests run, or raise "
                    "kv_memory_bytes.");
}

}  // namespace

Result<KvImage> ExportKv(Batcher& batcher, StepRunner& runner, std::span<const TokenId> tokens,
                         std::string_view cache_salt, const kv::ImageIdentity& identity) {
  // Open leaves a row to compute, the last of its tokens: one more than those that are looked for.
  std::vector<TokenId> known(tokens.begin(), tokens.end());
  known.push_back(0);
  SpareSequence sequence(batcher);
  const Result<int64_t> found =
      batcher.kv().Open(sequence.slot(), {.cache_key = cache_salt,
                                          .tokens = known,
                                          .total_tokens = static_cast<int64_t>(known.size()),
                                          .reserve = false,
                                          .write_cache = false});
  if (!found.ok()) return NoRoom("hold the cached tokens", found.status());
  if (*found == 0) {
    return Status(StatusCode::kNotFound,
                  "Nothing of these " + std::to_string(tokens.size()) +
                      " tokens is cached under this cache_salt. Run a request with them first.");
  }
  sequence.Keep(std::span(known).first(*found));
  if (Status status = runner.CopyBlocks(&batcher); !status.ok()) return status;
  Result<std::vector<std::byte>> bytes =
      kv::ExportImage(batcher.kv(), sequence.slot(), known, *found, identity, runner.mover());
  if (!bytes.ok()) return bytes.status();
  return KvImage{*std::move(bytes), *found};
}

Result<int64_t> ImportKv(Batcher& batcher, StepRunner& runner, std::span<const std::byte> image,
                         std::string_view cache_salt, const kv::ImageIdentity& identity) {
  // Looked at first: what is wrong with it must not cost the cache a block.
  Result<std::vector<TokenId>> tokens = kv::ReadImageTokens(batcher.kv(), image, identity);
  if (!tokens.ok()) return tokens.status();
  SpareSequence sequence(batcher);
  const kv::OpenRequest opening{.cache_key = cache_salt,
                                .tokens = *tokens,
                                .total_tokens = static_cast<int64_t>(tokens->size()) + 1,
                                .reserve = false,
                                .read_cache = false};
  // The blocks that make room are moved out before they are written.
  if (Status status = runner.CopyBlocks(&batcher); !status.ok()) return status;
  const Result<int64_t> computed =
      kv::ImportImage(batcher.kv(), sequence.slot(), opening, image, identity, runner.mover());
  if (!computed.ok()) {
    // Where blocks did not get to the host tier, the index must not say that they are there.
    if (computed.status().code() != StatusCode::kResourceExhausted) batcher.kv().Reset();
    return NoRoom("take the image", computed.status());
  }
  sequence.Keep(*tokens);
  return computed;
}

}  // namespace slipstream::executor
