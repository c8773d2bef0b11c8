#include "kv/kv_image.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "kv/chain_hash.h"

namespace slipstream::kv {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::string_view kMagic("\x89SLIPKV\n", 8);
constexpr uint32_t kVersion = 1;

uint64_t Checksum(Bytes bytes) {
  uint64_t hash = bytes.size();
  for (; !bytes.empty(); bytes = bytes.subspan(std::min<size_t>(8, bytes.size()))) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), std::min<size_t>(8, bytes.size()));
    hash = MixHash(hash, word);
  }
  return hash;
}

class Writer {
 public:
  template <class T>
  void Put(T value) {
    static_assert(std::is_integral_v<T>);
    PutBytes(std::as_bytes(std::span(&value, 1)));
  }
  void PutText(std::string_view text) {
    PutBytes(std::as_bytes(std::span(text.data(), text.size())));
  }
  void PutBytes(Bytes bytes) {
    const size_t before = out.size();
    out.resize(before + bytes.size());
    std::copy(bytes.begin(), bytes.end(), out.begin() + static_cast<int64_t>(before));
  }

  std::vector<std::byte> out;
};

Status Corrupt(const std::string& what) {
  return Status(StatusCode::kCorruptFile,
                "The KV image is damaged: " + what + ". Export it again or compute the prompt.");
}

Status Foreign(const std::string& what, std::string_view has, std::string_view wants) {
  return Status(StatusCode::kIncompatible,
                "The KV image has " + what + " '" + std::string(has.substr(0, 40)) +
                    "'; this engine has '" + std::string(wants.substr(0, 40)) +
                    "'. Compute the prompt instead.");
}

class Reader {
 public:
  explicit Reader(Bytes bytes) : rest_(bytes) {}

  template <class T>
  bool Get(T* value) {
    Bytes bytes;
    if (!GetBytes(sizeof(T), &bytes)) return false;
    std::memcpy(value, bytes.data(), sizeof(T));
    return true;
  }
  bool GetText(uint64_t size, std::string_view* text) {
    Bytes bytes;
    if (!GetBytes(size, &bytes)) return false;
    *text = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    return true;
  }
  bool GetBytes(uint64_t size, Bytes* bytes) {
    if (size > rest_.size()) return false;
    *bytes = rest_.first(size);
    rest_ = rest_.subspan(size);
    return true;
  }
  bool empty() const { return rest_.empty(); }

 private:
  Bytes rest_;
};

struct Parsed {
  std::vector<TokenId> tokens;
  std::vector<Bytes> blocks;  // of each group, one after the other
};

Result<Parsed> Parse(const KvManager& kv, Bytes image, const ImageIdentity& identity) {
  Reader reader(image);
  std::string_view magic, build_id;
  uint32_t version = 0, groups = 0, id_size = 0;
  uint64_t size = 0, count = 0;
  if (!reader.GetText(kMagic.size(), &magic) || magic != kMagic)
    return Corrupt("it does not begin like one");
  if (!reader.Get(&version) || !reader.Get(&groups) || !reader.Get(&size) || !reader.Get(&count) ||
      !reader.Get(&id_size))
    return Corrupt("its header is cut");
  if (version != kVersion)
    return Foreign("version", std::to_string(version), std::to_string(kVersion));
  if (size != image.size() || size < kMagic.size() + sizeof(uint64_t)) {
    return Corrupt("it has " + std::to_string(image.size()) + " bytes and says " +
                   std::to_string(size));
  }
  uint64_t checksum = 0;
  std::memcpy(&checksum, image.data() + size - sizeof(checksum), sizeof(checksum));
  if (checksum != Checksum(image.first(size - sizeof(checksum))))
    return Corrupt("its checksum is wrong");
  if (!reader.GetText(id_size, &build_id)) return Corrupt("its build_id is cut");
  if (build_id != identity.build_id) return Foreign("build_id", build_id, identity.build_id);
  if (groups != static_cast<uint32_t>(kv.num_groups())) {
    return Foreign("cache groups", std::to_string(groups), std::to_string(kv.num_groups()));
  }
  // Token ids take four bytes each, so a count beyond the stream is refused before it is used.
  if (count == 0 || count > size / sizeof(TokenId))
    return Corrupt("it says " + std::to_string(count) + " tokens");
  const auto tokens = static_cast<int64_t>(count);
  std::vector<uint64_t> image_bytes;
  for (int32_t g = 0; g < kv.num_groups(); ++g) {
    const GroupSpec& spec = kv.group(g);
    uint32_t block_tokens = 0, window = 0, layout_size = 0;
    uint64_t bytes_per_block = 0, first = 0, blocks = 0;
    std::string_view layout;
    if (!reader.Get(&block_tokens) || !reader.Get(&window) || !reader.Get(&bytes_per_block) ||
        !reader.Get(&first) || !reader.Get(&blocks) || !reader.Get(&layout_size) ||
        !reader.GetText(layout_size, &layout))
      return Corrupt("the description of cache group " + std::to_string(g) + " is cut");
    if (layout != identity.layouts[g]) return Foreign("the layout", layout, identity.layouts[g]);
    if (block_tokens != static_cast<uint32_t>(spec.block_tokens) ||
        window != static_cast<uint32_t>(spec.window) ||
        bytes_per_block != static_cast<uint64_t>(spec.bytes_per_block)) {
      return Foreign("block_tokens/window/bytes_per_block of a cache group",
                     std::to_string(block_tokens) + "/" + std::to_string(window) + "/" +
                         std::to_string(bytes_per_block),
                     std::to_string(spec.block_tokens) + "/" + std::to_string(spec.window) + "/" +
                         std::to_string(spec.bytes_per_block));
    }
    const int64_t cover = BlocksToCover(spec, tokens);
    const int64_t live = std::min(FirstLiveBlock(spec, tokens), cover);
    if (first != static_cast<uint64_t>(live) || blocks != static_cast<uint64_t>(cover - live)) {
      return Corrupt("cache group " + std::to_string(g) + " has " + std::to_string(blocks) +
                     " blocks from " + std::to_string(first) + " on");
    }
    if (blocks > size / bytes_per_block) return Corrupt("its blocks are cut");
    image_bytes.push_back(blocks * bytes_per_block);
  }
  Parsed parsed;
  Bytes ids;
  if (!reader.GetBytes(count * sizeof(TokenId), &ids)) return Corrupt("its tokens are cut");
  parsed.tokens.resize(count);
  std::memcpy(parsed.tokens.data(), ids.data(), ids.size());
  for (const uint64_t bytes : image_bytes) {
    if (!reader.GetBytes(bytes, &parsed.blocks.emplace_back()))
      return Corrupt("its blocks are cut");
  }
  if (!reader.Get(&checksum) || !reader.empty()) return Corrupt("something follows its blocks");
  return parsed;
}

}  // namespace

Result<std::vector<std::byte>> ExportImage(KvManager& kv, int32_t slot,
                                           std::span<const TokenId> tokens, int64_t computed,
                                           const ImageIdentity& identity, BlockStore& store) {
  if (computed < 1 || computed > static_cast<int64_t>(tokens.size())) {
    return Status(StatusCode::kInvalidArgument,
                  "A KV image of " + std::to_string(computed) + " computed tokens of " +
                      std::to_string(tokens.size()) + " cannot be made; compute at least one.");
  }
  if (Status status = store.Copy(kv.TakeCopies()); !status.ok()) return status;
  Writer writer;
  writer.PutText(kMagic);
  writer.Put(kVersion);
  writer.Put(static_cast<uint32_t>(kv.num_groups()));
  const size_t size_at = writer.out.size();
  writer.Put(uint64_t{0});
  writer.Put(static_cast<uint64_t>(computed));
  writer.Put(static_cast<uint32_t>(identity.build_id.size()));
  writer.PutText(identity.build_id);
  const auto live = [&](int32_t g) {
    return std::min(FirstLiveBlock(kv.group(g), computed), BlocksToCover(kv.group(g), computed));
  };
  for (int32_t g = 0; g < kv.num_groups(); ++g) {
    const GroupSpec& spec = kv.group(g);
    writer.Put(static_cast<uint32_t>(spec.block_tokens));
    writer.Put(static_cast<uint32_t>(spec.window));
    writer.Put(static_cast<uint64_t>(spec.bytes_per_block));
    writer.Put(static_cast<uint64_t>(live(g)));
    writer.Put(static_cast<uint64_t>(BlocksToCover(spec, computed) - live(g)));
    writer.Put(static_cast<uint32_t>(identity.layouts[g].size()));
    writer.PutText(identity.layouts[g]);
  }
  writer.PutBytes(std::as_bytes(tokens.first(computed)));
  for (int32_t g = 0; g < kv.num_groups(); ++g) {
    const auto bytes = static_cast<size_t>(kv.group(g).bytes_per_block);
    for (int64_t b = live(g); b < BlocksToCover(kv.group(g), computed); ++b) {
      writer.out.resize(writer.out.size() + bytes);
      if (Status status = store.Read(g, kv.Table(slot, g)[b], std::span(writer.out).last(bytes));
          !status.ok())
        return status;
    }
  }
  const uint64_t size = writer.out.size() + sizeof(uint64_t);
  std::memcpy(writer.out.data() + size_at, &size, sizeof(size));
  writer.Put(Checksum(writer.out));
  return std::move(writer.out);
}

Result<std::vector<TokenId>> ReadImageTokens(const KvManager& kv, Bytes image,
                                             const ImageIdentity& identity) {
  Result<Parsed> parsed = Parse(kv, image, identity);
  if (!parsed.ok()) return parsed.status();
  return std::move(parsed->tokens);
}

Result<int64_t> ImportImage(KvManager& kv, int32_t slot, const OpenRequest& request, Bytes image,
                            const ImageIdentity& identity, BlockStore& store) {
  const Result<Parsed> parsed = Parse(kv, image, identity);
  if (!parsed.ok()) return parsed.status();
  const auto computed = static_cast<int64_t>(parsed->tokens.size());
  if (computed > request.total_tokens) {
    return Status(StatusCode::kLimitExceeded, "The KV image has " + std::to_string(computed) +
                                                  " tokens; the sequence may have " +
                                                  std::to_string(request.total_tokens) +
                                                  ". Raise its limit.");
  }
  OpenRequest opening = request;
  opening.tokens = parsed->tokens;
  if (Status status = kv.OpenEmpty(slot, opening); !status.ok()) return status;
  Status status = store.Copy(kv.TakeCopies());
  for (int32_t g = 0; g < kv.num_groups(); ++g) {
    const auto bytes = static_cast<size_t>(kv.group(g).bytes_per_block);
    Bytes rest = parsed->blocks[g];
    for (const int32_t block : kv.Table(slot, g)) {
      if (block < 0 || !status.ok()) continue;
      status = store.Write(g, block, rest.first(bytes));
      rest = rest.subspan(bytes);
    }
  }
  if (!status.ok()) {
    kv.Close(slot, {}, 0, false);
    return status;
  }
  kv.Commit(slot, parsed->tokens, computed);
  return computed;
}

}  // namespace slipstream::kv
