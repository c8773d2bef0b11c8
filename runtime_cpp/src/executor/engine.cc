// Engine: composes the engine file with the tokenizer that it carries.
#include "slipstream/engine.h"

#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/excerpt.h"
#include "core/json_util.h"
#include "core/resource_exhausted.h"
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
    if (tokenizer.status().code() == StatusCode::kResourceExhausted) return tokenizer.status();
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
    return core::ResourceExhausted("Out of memory while loading ", path, ". Free memory.");
  }
}

const std::string& Engine::path() const { return impl_->file->path(); }

const std::string& Engine::model_name() const { return impl_->file->manifest().model_name; }

const std::string& Engine::build_id() const { return impl_->file->manifest().build_id; }

const std::string& Engine::manifest_json() const { return impl_->manifest_json; }

const EngineLimits& Engine::limits() const { return impl_->file->manifest().limits; }

const Tokenizer& Engine::tokenizer() const { return impl_->tokenizer; }

const std::string& Engine::chat_template() const { return impl_->chat_template; }

Result<std::string> Engine::ApplyChatTemplate(std::string_view messages_json,
                                              const ChatOptions& options) const {
  try {
    if (chat_template().empty()) {
      return Status(StatusCode::kNotFound, "The model " + core::Excerpt(model_name()) +
                                               " has no chat template; give it a plain prompt.");
    }
    auto chat = ChatTemplate::Parse(chat_template());
    if (!chat.ok()) return chat.status();
    core::JsonTree variables(nlohmann::json::object());
    if (bos_token_id() >= 0) variables["bos_token"] = tokenizer().IdToToken(bos_token_id());
    if (!eos_token_ids().empty()) {
      variables["eos_token"] = tokenizer().IdToToken(eos_token_ids().front());
    }
    auto config = core::ParseJson(tokenizer_config_json(), "tokenizer_config.json");
    // Anything but JSON gives no variables; memory that runs out must not do the same silently.
    if (config.status().code() == StatusCode::kResourceExhausted) return config.status();
    if (config.ok() && config->is_object()) {
      for (const auto& [name, value] : config->items()) {
        if (!name.ends_with("_token")) continue;
        const bool object = value.is_object() && value.contains("content");
        const nlohmann::json& token = object ? value["content"] : value;
        if (token.is_string()) variables[name] = token;
      }
    }
    bool own_variables = false;
    if (!options.variables_json.empty()) {
      auto own = core::ParseJson(options.variables_json, "variables_json");
      if (!own.ok()) return own.status();
      if (!own->is_object()) {
        return Status(StatusCode::kInvalidArgument, std::string("variables_json holds a JSON ") +
                                                        own->type_name() + "; give an object.");
      }
      for (const auto& item : own->items()) variables.erase(item.key());
      own_variables = !own->empty();
    }
    ChatOptions all = options;
    all.variables_json = variables.dump();
    if (own_variables) {
      // Joined as text, which keeps the order of the caller's keys.
      const std::string& own = options.variables_json;
      all.variables_json.back() = variables.empty() ? ' ' : ',';
      all.variables_json += own.substr(own.find('{') + 1);
    }
    return chat->Render(messages_json, all);
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("Out of memory while rendering a conversation.");
  }
}

const std::string& Engine::tokenizer_config_json() const { return impl_->tokenizer_config; }

const std::string& Engine::generation_config_json() const { return impl_->generation_config; }

const std::vector<TokenId>& Engine::eos_token_ids() const {
  return impl_->file->manifest().eos_token_ids;
}

TokenId Engine::bos_token_id() const { return impl_->file->manifest().bos_token_id; }

}  // namespace slipstream
