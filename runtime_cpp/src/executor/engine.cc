// Engine: composes the engine file with the tokenizer that it carries.
#include "slipstream/engine.h"

#include <new>
#include <utility>

#include "executor/engine_impl.h"

namespace slipstream {

Result<Engine> Engine::Load(const std::string& path, Verify verify) {
  try {
    auto file = engine::EngineFile::Load(path, verify);
    if (!file.ok()) return file.status();
    auto weights = engine::MapWeights(*file);
    if (!weights.ok()) return weights.status();
    auto tokenizer =
        Tokenizer::FromJson((*file)->SectionText((*file)->manifest().tokenizer_section));
    if (!tokenizer.ok()) {
      // Its hash was right: this is what the checkpoint holds, so a newer version may read it.
      return Status(StatusCode::kIncompatible,
                    path + " carries a tokenizer that this version cannot run: " +
                        tokenizer.status().message());
    }
    Engine engine;
    engine.impl_ =
        std::make_shared<const Impl>(std::move(*file), std::move(*weights), std::move(*tokenizer));
    return engine;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "Out of memory while loading " + path + ".");
  }
}

const std::string& Engine::path() const { return impl_->file->path(); }

const std::string& Engine::model_name() const { return impl_->file->manifest().model_name; }

const std::string& Engine::build_id() const { return impl_->file->manifest().build_id; }

const std::string& Engine::manifest_json() const { return impl_->manifest_json; }

const EngineLimits& Engine::limits() const { return impl_->file->manifest().limits; }

const Tokenizer& Engine::tokenizer() const { return impl_->tokenizer; }

const std::string& Engine::chat_template() const { return impl_->chat_template; }

const std::string& Engine::tokenizer_config_json() const { return impl_->tokenizer_config; }

const std::string& Engine::generation_config_json() const { return impl_->generation_config; }

const std::vector<TokenId>& Engine::eos_token_ids() const {
  return impl_->file->manifest().eos_token_ids;
}

TokenId Engine::bos_token_id() const { return impl_->file->manifest().bos_token_id; }

}  // namespace slipstream
