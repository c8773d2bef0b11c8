// What an Engine holds: the file, its weights, its tokenizer.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "engine/engine_file.h"
#include "engine/weight_store.h"
#include "slipstream/engine.h"
#include "slipstream/text.h"

namespace slipstream {

/// Immutable after Engine::Load; shared by every copy of the Engine and by the models made from it.
struct Engine::Impl {
  Impl(std::shared_ptr<const engine::EngineFile> engine_file,
       std::shared_ptr<const engine::WeightStore> weight_store, Tokenizer loaded_tokenizer)
      : file(std::move(engine_file)),
        weights(std::move(weight_store)),
        tokenizer(std::move(loaded_tokenizer)),
        manifest_json(file->manifest_json()),
        chat_template(file->SectionText("chat_template")),
        tokenizer_config(file->SectionText("tokenizer_config")),
        generation_config(file->SectionText("generation_config")) {}

  std::shared_ptr<const engine::EngineFile> file;
  std::shared_ptr<const engine::WeightStore> weights;
  Tokenizer tokenizer;
  std::string manifest_json;
  std::string chat_template;
  std::string tokenizer_config;
  std::string generation_config;
};

}  // namespace slipstream
