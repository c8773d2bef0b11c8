#include "text/decoder.h"

#include <algorithm>

#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace slipstream::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

class Output final : public PartSink {
 public:
  explicit Output(std::string* out) : out_(out) {}
  void Part(std::string_view text, bool) override { out_->append(text); }
  void Finish() override {}

 private:
  std::string* out_;
};

class Stage : public PartSink {
 public:
  Stage(const DecoderStage& config, PartSink* next) : config_(config), next_(next) {}
  void Finish() override { next_->Finish(); }

 protected:
  const DecoderStage& config_;
  PartSink* next_;
};

// Stages that need whole tokens.
class TokenStage : public Stage {
 public:
  using Stage::Stage;
  void Part(std::string_view text, bool ends_token) final {
    if (!ends_token) {
      token_.append(text);
      return;
    }
    if (token_.empty()) return Token(text);
    const std::string token = std::move(token_.append(text));
    token_.clear();
    Token(token);
  }

 protected:
  virtual void Token(std::string_view token) = 0;
  size_t count_ = 0;  // tokens before, for those who count

 private:
  std::string token_;
};

class ByteLevelStage final : public TokenStage {
 public:
  using TokenStage::TokenStage;
  void Finish() override {
    std::string text;
    utf8_.Flush(&text);
    next_->Part(text, true);
    next_->Finish();
  }

 private:
  void Token(std::string_view token) override {
    std::string bytes;
    std::string text;
    utf8_.Push(AppendSpelledBytes(token, &bytes) ? std::string_view(bytes) : token, &text);
    next_->Part(text, false);
  }

  LossyUtf8Decoder utf8_;
};

// The byte that <0x..> names; -1 for other tokens. As in Hugging Face, a sign counts as a digit.
int ByteOf(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
  int value = 0;
  for (size_t i = 3; i < 5; ++i) {
    const char c = token[i];
    const char lower = static_cast<char>(c | 0x20);
    if (c >= '0' && c <= '9') {
      value = value * 16 + (c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + (lower - 'a' + 10);
    } else if (i != 3 || c != '+') {
      return -1;
    }
  }
  return value;
}

// A run of byte tokens is text when all of it is valid UTF-8; else each byte becomes U+FFFD. So the
// run is held until it ends.
class ByteFallbackStage final : public TokenStage {
 public:
  using TokenStage::TokenStage;
  void Finish() override {
    Release();
    next_->Finish();
  }

 private:
  void Token(std::string_view token) override {
    if (const int byte = ByteOf(token); byte >= 0) {
      held_.push_back(static_cast<char>(byte));
      return;
    }
    Release();
    next_->Part(token, true);
  }
  void Release() {
    if (held_.empty()) return;
    if (FindInvalidUtf8(held_) == std::string_view::npos) {
      next_->Part(held_, true);
    } else {
      for (size_t i = 0; i < held_.size(); ++i) next_->Part(kReplacement, true);
    }
    held_.clear();
  }

  std::string held_;
};

class FuseStage final : public Stage {
 public:
  using Stage::Stage;
  void Part(std::string_view text, bool) override { next_->Part(text, false); }
  void Finish() override {
    next_->Part({}, true);
    next_->Finish();
  }
};

// Works on growing tokens: counts what it has taken from the front, and holds back what may be
// the end.
class StripStage final : public Stage {
 public:
  using Stage::Stage;
  void Part(std::string_view text, bool ends_token) override {
    const std::string& content = config_.content;
    while (at_front_ && taken_ < config_.start && text.starts_with(content)) {
      text.remove_prefix(content.size());
      ++taken_;
    }
    if (!text.empty() || taken_ == config_.start) at_front_ = false;
    size_t end = text.size();
    while (text.substr(0, end).ends_with(content)) end -= content.size();
    if (end > 0 && held_ > 0) Give(held_);
    if (end > 0) held_ = 0;
    next_->Part(text.substr(0, end), false);
    held_ += (text.size() - end) / content.size();
    const size_t keep = ends_token ? std::min(held_, config_.stop) : config_.stop;
    if (held_ > keep) Give(held_ - keep);
    held_ = std::min(held_, keep);
    if (!ends_token) return;
    next_->Part({}, true);
    at_front_ = true;
    taken_ = held_ = 0;
  }

 private:
  void Give(size_t count) {
    for (size_t i = 0; i < count; ++i) next_->Part(config_.content, false);
  }

  bool at_front_ = true;
  size_t taken_ = 0;
  size_t held_ = 0;  // characters `content` at the end so far
};

// Works on growing tokens: gives out what no match can change any more. A pattern that needs too
// many steps changes nothing.
class ReplaceStage final : public Stage {
 public:
  using Stage::Stage;
  void Part(std::string_view text, bool ends_token) override {
    held_.append(text);
    std::string out;
    any_text_ |= !text.empty();
    if (any_text_) Replace(ends_token, &out);
    if (ends_token) {
      out.append(held_, done_);
      held_.clear();
      done_ = from_ = 0;
      last_end_ = kNone;
      any_text_ = false;
    } else if (!config_.pattern->LooksBack()) {
      held_.erase(0, done_);
      from_ -= done_;
      last_end_ = last_end_ == done_ ? 0 : kNone;
      done_ = 0;
    }
    if (ends_token || !out.empty()) next_->Part(out, ends_token);
  }

 private:
  static constexpr size_t kNone = std::string::npos;

  // As ForEachMatch goes, but for the end that may not have come.
  void Replace(bool ended, std::string* out) {
    const SplitPattern& pattern = *config_.pattern;
    size_t steps = StepsFor(held_.size());
    while (from_ <= held_.size()) {
      Span match{from_, from_};
      const FindResult found = ended ? pattern.Find(held_, from_, &steps, &match)
                                     : pattern.FindInStream(held_, from_, &steps, &match);
      if (found == FindResult::kMore) {
        out->append(held_, done_, match.begin - done_);
        done_ = from_ = match.begin;
      }
      if (found != FindResult::kFound) return;
      if (match.begin == match.end && match.end == last_end_) {
        if (!ended && from_ == held_.size()) return;  // the character to skip has not come
        from_ = NextStart(held_, from_);
        continue;
      }
      out->append(held_, done_, match.begin - done_).append(config_.content);
      done_ = from_ = last_end_ = match.end;
    }
  }

  std::string held_;         // the token from a place on before which nothing counts any more
  size_t done_ = 0;          // up to here it has been given out
  size_t from_ = 0;          // from here on matches are looked for
  size_t last_end_ = kNone;  // end of the last match
  bool any_text_ = false;    // of an empty token nothing is replaced, even by an empty match
};

class MetaspaceStage final : public Stage {
 public:
  using Stage::Stage;
  void Part(std::string_view text, bool ends_token) override {
    std::string out;
    while (true) {
      const size_t mark = text.find(config_.content);
      out.append(text, 0, mark);
      if (mark == std::string_view::npos) break;
      if (!first_ || !config_.flag) out.push_back(' ');
      text.remove_prefix(mark + config_.content.size());
    }
    next_->Part(out, ends_token);
    if (ends_token) first_ = false;
  }

 private:
  bool first_ = true;
};

void ReplaceAll(std::string_view from, std::string_view to, std::string* text) {
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at + to.size()))
    text->replace(at, from.size(), to);
}

class WordPieceStage final : public TokenStage {
 public:
  using TokenStage::TokenStage;

 private:
  void Token(std::string_view token) override {
    constexpr std::pair<std::string_view, std::string_view> kCleanUp[] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    std::string text;
    if (count_ == 0) {
      text = token;
    } else if (token.starts_with(config_.content)) {
      text = token.substr(config_.content.size());
    } else {
      text.append(" ").append(token);
    }
    ++count_;
    if (config_.flag) {
      for (const auto& [from, to] : kCleanUp) ReplaceAll(from, to, &text);
    }
    next_->Part(text, true);
  }
};

// The suffix becomes a space, but nothing in the last token: one token is held.
class BpeSuffixStage final : public TokenStage {
 public:
  using TokenStage::TokenStage;
  void Finish() override {
    if (count_ > 0) Release("");
    next_->Finish();
  }

 private:
  void Token(std::string_view token) override {
    if (count_++ > 0) Release(" ");
    held_ = token;
  }
  void Release(std::string_view to) {
    ReplaceAll(config_.content, to, &held_);
    next_->Part(held_, true);
  }

  std::string held_;
};

class JoinStage final : public Stage {
 public:
  using Stage::Stage;
  void Part(std::string_view text, bool ends_token) override {
    if (between_) next_->Part(" ", false);
    between_ = ends_token;
    next_->Part(text, ends_token);
  }

 private:
  bool between_ = false;
};

std::unique_ptr<PartSink> MakeStage(const DecoderStage& config, PartSink* next) {
  switch (config.kind) {
    case DecoderStage::kByteLevel:
      return std::make_unique<ByteLevelStage>(config, next);
    case DecoderStage::kByteFallback:
      return std::make_unique<ByteFallbackStage>(config, next);
    case DecoderStage::kFuse:
      return std::make_unique<FuseStage>(config, next);
    case DecoderStage::kStrip:
      return std::make_unique<StripStage>(config, next);
    case DecoderStage::kReplace:
      return std::make_unique<ReplaceStage>(config, next);
    case DecoderStage::kMetaspace:
      return std::make_unique<MetaspaceStage>(config, next);
    case DecoderStage::kWordPiece:
      return std::make_unique<WordPieceStage>(config, next);
    case DecoderStage::kBpeSuffix:
      return std::make_unique<BpeSuffixStage>(config, next);
    case DecoderStage::kJoin:
      break;
  }
  return std::make_unique<JoinStage>(config, next);
}

}  // namespace

DecodeChain::DecodeChain(const std::vector<DecoderStage>& stages)
    : out_(std::make_unique<std::string>()) {
  sinks_.push_back(std::make_unique<Output>(out_.get()));
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage)
    sinks_.push_back(MakeStage(*stage, sinks_.back().get()));
  std::reverse(sinks_.begin(), sinks_.end());
}

void DecodeChain::Push(std::string_view token, std::string* out) {
  sinks_.front()->Part(token, true);
  out->append(*out_);
  out_->clear();
}

void DecodeChain::Finish(std::string* out) {
  sinks_.front()->Finish();
  out->append(*out_);
  out_->clear();
}

}  // namespace slipstream::text
