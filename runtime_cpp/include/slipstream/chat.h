// Conversations to prompts: the chat template of a model, without Python.
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "slipstream/export.h"
#include "slipstream/status.h"

namespace slipstream {

namespace text {
class ChatTemplateImpl;
}  // namespace text

/// What a template sees beside the messages. JSON texts are UTF-8; an empty text means absent.
struct ChatOptions {
  /// Ends the prompt with the opening of the assistant's answer.
  bool add_generation_prompt = true;
  std::string tools_json;      ///< A list of function schemas: `tools`.
  std::string documents_json;  ///< A list of {title, text}: `documents`.
  /// An object of further variables: "bos_token", "enable_thinking", ...
  std::string variables_json;
  /// Local time for `strftime_now`; the system's clock when empty. Called while rendering.
  std::function<std::tm()> clock;
};

/// A parsed Jinja chat template: the subset of the language that chat templates use, rendered as
/// Hugging Face transformers renders it (jinja2's immutable sandbox, trim_blocks, lstrip_blocks).
/// Immutable, thread-safe, cheap to copy.
///
///     auto chat = ChatTemplate::Parse(engine.chat_template());
///     auto prompt = chat->Render(R"([{"role": "user", "content": "Hello"}])");
///
/// A rendering is bounded in steps, text and nesting, whatever the template says.
class SLIPSTREAM_API ChatTemplate {
 public:
  /// Errors: kInvalidArgument (not Jinja; the message names line and column), kIncompatible (Jinja
  /// beyond the subset), kLimitExceeded (nested too deep, larger than 4 MiB).
  static Result<ChatTemplate> Parse(std::string_view source);

  /// The prompt of a conversation: `messages_json` is a list of {"role", "content", ...}, where the
  /// content is a text or a list of parts. Tokenize it without adding special tokens.
  /// Errors: kInvalidArgument (bad JSON; what the template itself refuses with raise_exception; an
  /// operation that fails), kIncompatible (a function, filter or value beyond the subset),
  /// kLimitExceeded (the template does not come to an end within its bounds).
  Result<std::string> Render(std::string_view messages_json, const ChatOptions& options = {}) const;

 private:
  explicit ChatTemplate(std::shared_ptr<const text::ChatTemplateImpl> impl)
      : impl_(std::move(impl)) {}
  std::shared_ptr<const text::ChatTemplateImpl> impl_;
};

}  // namespace slipstream
