// Token ids of a text, and the text back from them: tokenize FILE.engine "TEXT"
#include <iostream>

#include "slipstream/engine.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: tokenize FILE.engine TEXT\n";
    return 2;
  }
  auto engine = slipstream::Engine::Load(argv[1]);
  if (!engine.ok()) {
    std::cerr << "tokenize: " << engine.status().message() << '\n';
    return 1;
  }
  const slipstream::Tokenizer& tokenizer = engine->tokenizer();
  auto ids = tokenizer.Encode(argv[2]);
  if (!ids.ok()) {
    std::cerr << "tokenize: " << ids.status().message() << '\n';
    return 1;
  }
  for (slipstream::TokenId id : *ids) {
    std::cout << id << '\t' << tokenizer.IdToToken(id) << '\n';
  }
  // One token at a time, as a generation would give them: a character is printed when it is whole.
  slipstream::StreamDecoder decoder(tokenizer, /*skip_special_tokens=*/false);
  for (slipstream::TokenId id : *ids) std::cout << decoder.Push(id);
  std::cout << decoder.Flush() << '\n';
}
