// Turns the spellings of tokens back into text: the decoder section of a tokenizer.json. Made for
// streams: every stage gives out what has become certain and holds back the rest.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/split_pattern.h"

namespace slipstream::text {

struct DecoderStage {
  enum Kind : uint8_t {
    kByteLevel,     ///< spelled bytes become text, and all tokens one
    kByteFallback,  ///< <0x00> to <0xFF> become bytes
    kFuse,          ///< all tokens become one
    kStrip,         ///< up to `start` and `stop` characters `content` at the ends of every token
    kReplace,       ///< `pattern` becomes `content`
    kMetaspace,     ///< the character `content` becomes a space; in the first token it may vanish
    kWordPiece,     ///< tokens without the prefix `content` get a space in front
    kBpeSuffix,     ///< the suffix `content` becomes a space
    kJoin,          ///< a space between tokens: what is done without a decoder
  };
  Kind kind;
  std::string content;
  std::shared_ptr<const SplitPattern> pattern;
  size_t start = 0;
  size_t stop = 0;
  bool flag = false;  ///< kMetaspace: the first token loses its marks; kWordPiece: clean up
};

/// Where a stage puts its output: parts of tokens, the last part of each marked.
class PartSink {
 public:
  virtual ~PartSink() = default;
  virtual void Part(std::string_view text, bool ends_token) = 0;
  /// No more parts come.
  virtual void Finish() = 0;
};

/// One decoding under way. `stages` must outlive it.
class DecodeChain {
 public:
  explicit DecodeChain(const std::vector<DecoderStage>& stages);

  /// Appends to `out` the text that became certain.
  void Push(std::string_view token, std::string* out);
  void Finish(std::string* out);

 private:
  std::unique_ptr<std::string> out_;  // where the last stage writes; its address must not change
  std::vector<std::unique_ptr<PartSink>> sinks_;  // the last one writes to out_
};

}  // namespace slipstream::text
