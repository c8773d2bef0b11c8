// ChatTemplate: where the interpreter's exceptions become a Status.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <new>
#include <utility>

#include "core/resource_exhausted.h"
#include "slipstream/chat.h"
#include "text/chat/interpreter.h"
#include "text/chat/json_input.h"
#include "text/chat/parser.h"
#include "text/utf8.h"

namespace slipstream {
namespace text {

class ChatTemplateImpl {
 public:
  explicit ChatTemplateImpl(chat::Block parsed) : block(std::move(parsed)) {}
  const chat::Block block;
};

namespace {

constexpr uint64_t kMaxSourceBytes = uint64_t{4} << 20;

std::tm LocalTime() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm time{};
  localtime_r(&now, &time);
  return time;
}

/// Reasoning goes by several names; as in transformers, templates find it under two of them.
chat::Value WithReasoningNames(const chat::Value& message) {
  const chat::Dict& fields = message.as_dict();
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const chat::Value* reasoning = fields.Find(name);
    if (reasoning == nullptr || reasoning->none()) continue;
    auto named = std::make_shared<chat::Dict>();
    named->Set("thinking", *reasoning);
    for (const auto& [key, value] : fields.entries) named->Set(key, value);
    named->Set("reasoning_content", *reasoning);
    return chat::Value::Of(std::move(named));
  }
  return message;
}

Result<chat::Value> ReadMessages(std::string_view json) {
  auto messages = chat::ReadJson(json, "the messages");
  if (!messages.ok()) return messages.status();
  if (!messages->Is(chat::Kind::kList)) {
    return Status(StatusCode::kInvalidArgument,
                  std::string("The messages are a JSON ") + chat::TypeName(*messages) +
                      "; give a list of objects with 'role' and 'content'.");
  }
  std::vector<chat::Value> named;
  for (const chat::Value& message : messages->items().items) {
    if (!message.dict()) {
      return Status(StatusCode::kInvalidArgument,
                    "messages[" + std::to_string(named.size()) + "] is a JSON " +
                        chat::TypeName(message) + "; give an object with 'role' and 'content'.");
    }
    named.push_back(WithReasoningNames(message));
  }
  return chat::Value::List(std::move(named));
}

/// A list that may be absent, which templates see as none.
Result<chat::Value> ReadOptional(const std::string& json, std::string_view what) {
  if (json.empty()) return chat::Value::None();
  auto value = chat::ReadJson(json, what);
  if (!value.ok()) return value.status();
  if (!value->Is(chat::Kind::kList) && !value->none()) {
    return Status(StatusCode::kInvalidArgument, "The JSON of " + std::string(what) + " is a " +
                                                    chat::TypeName(*value) +
                                                    "; give a list of objects.");
  }
  return value;
}

Status SetVariables(const std::string& json, chat::Interpreter* interpreter) {
  if (json.empty()) return Status::Ok();
  auto variables = chat::ReadJson(json, "the variables");
  if (!variables.ok()) return variables.status();
  if (!variables->dict()) {
    return Status(StatusCode::kInvalidArgument, std::string("The JSON of the variables is a ") +
                                                    chat::TypeName(*variables) +
                                                    "; give an object.");
  }
  for (const auto& [name, value] : variables->as_dict().entries) {
    interpreter->SetGlobal(name.text(), value);
  }
  return Status::Ok();
}

Result<std::string> RenderUnchecked(const ChatTemplateImpl& impl, std::string_view messages_json,
                                    const ChatOptions& options) {
  auto messages = ReadMessages(messages_json);
  if (!messages.ok()) return messages.status();
  auto tools = ReadOptional(options.tools_json, "the tools");
  if (!tools.ok()) return tools.status();
  auto documents = ReadOptional(options.documents_json, "the documents");
  if (!documents.ok()) return documents.status();
  chat::Runtime runtime;
  runtime.clock = options.clock ? options.clock : LocalTime;
  chat::Interpreter interpreter(&runtime);
  const Status variables = SetVariables(options.variables_json, &interpreter);
  if (!variables.ok()) return variables;
  interpreter.SetGlobal("messages", *messages);
  interpreter.SetGlobal("tools", *tools);
  interpreter.SetGlobal("documents", *documents);
  interpreter.SetGlobal("add_generation_prompt", chat::Value::Bool(options.add_generation_prompt));
  try {
    return interpreter.Run(impl.block);
  } catch (const chat::ChatError& error) {
    return Status(error.code(), "The chat template cannot be rendered: " +
                                    chat::At(error.message(), interpreter.position()) + ".");
  }
}

}  // namespace
}  // namespace text

Result<ChatTemplate> ChatTemplate::Parse(std::string_view source) {
  try {
    if (source.size() > text::kMaxSourceBytes) {
      return Status(StatusCode::kLimitExceeded,
                    "The chat template has " + std::to_string(source.size()) +
                        " bytes; the limit is " + std::to_string(text::kMaxSourceBytes) + ".");
    }
    const size_t invalid = text::FindInvalidUtf8(source);
    if (invalid != std::string_view::npos) {
      return Status(StatusCode::kInvalidArgument,
                    "The chat template is not UTF-8 at byte " + std::to_string(invalid) + ".");
    }
    return ChatTemplate(
        std::make_shared<const text::ChatTemplateImpl>(text::chat::ParseTemplate(source)));
  } catch (const text::chat::ChatError& error) {
    return Status(error.code(), "The chat template cannot be parsed: " + error.message() + ".");
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("Out of memory while parsing a chat template.");
  }
}

Result<std::string> ChatTemplate::Render(std::string_view messages_json,
                                         const ChatOptions& options) const {
  try {
    return text::RenderUnchecked(*impl_, messages_json, options);
  } catch (const text::chat::ChatError& error) {
    return Status(error.code(), "The conversation cannot be read: " + error.message() + ".");
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("Out of memory while rendering a conversation.");
  }
}

}  // namespace slipstream
