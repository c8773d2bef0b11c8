// tokenizer.json, and text through whatever tokenizer came of it.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = slipstream::Tokenizer::FromJson(json);
  if (!tokenizer.ok()) return 0;
  const auto ids =
      tokenizer->Encode("Hello 123, Größe\n\n  x\t🙂 </s> \xe2\x80\x8d aaaaaaaaaaaaaaaa");
  std::vector<slipstream::TokenId> all;
  if (ids.ok()) all = *ids;
  for (slipstream::TokenId id : {-1, 0, 1, 2, 255, 256, 1 << 30}) all.push_back(id);
  slipstream::StreamDecoder decoder(*tokenizer);
  std::string text;
  for (slipstream::TokenId id : all) text += decoder.Push(id);
  text += decoder.Flush();
  if (text != tokenizer->Decode(all)) __builtin_trap();
  return 0;
}
