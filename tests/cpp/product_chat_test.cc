// Engine::ApplyChatTemplate: the model's own template, with the model's own special tokens.
#include <gtest/gtest.h>

#include <string>

#include "slipstream/engine.h"
#include "tiny_engine_file.h"

namespace slipstream {
namespace {

constexpr const char* kHello = R"([{"role": "user", "content": "Grüße"}])";
constexpr const char* kAllVariables =
    "{{ bos_token }}|{{ eos_token }}|{{ pad_token }}|{{ unk_token }}|{{ mood }}";

Result<std::string> Apply(const TinyTexts& texts, const ChatOptions& options = {},
                          const char* messages = kHello) {
  const TinyEngineFile file("product_chat", 1, {}, texts);
  const auto engine = Engine::Load(file.path());
  if (!engine.ok()) return engine.status();
  return engine->ApplyChatTemplate(messages, options);
}

std::string Rendered(const TinyTexts& texts, const ChatOptions& options = {}) {
  const auto prompt = Apply(texts, options);
  return prompt.ok() ? *prompt : "error: " + prompt.status().message();
}

TEST(ApplyChatTemplate, RendersTheConversation) {
  EXPECT_EQ(Rendered({}), "<s>user: Grüße</s><s>assistant:");
  EXPECT_EQ(Rendered({}, {.add_generation_prompt = false}), "<s>user: Grüße</s>");
  EXPECT_EQ(Rendered({.chat_template = "{{ tools[0].name }} {{ documents[0].title }}"},
                     {.tools_json = R"([{"name": "f"}])", .documents_json = R"([{"title": "t"}])"}),
            "f t");
}

TEST(ApplyChatTemplate, SpecialTokensComeFromTheConfigurationElseFromTheVocabulary) {
  EXPECT_EQ(Rendered({.chat_template = kAllVariables}), "<s>|</s>|||");
  EXPECT_EQ(Rendered({.chat_template = kAllVariables, .bos_token_id = -1}), "|</s>|||");
  // As text, or as the object that some files have; what is neither is passed over.
  EXPECT_EQ(Rendered({.chat_template = kAllVariables,
                      .tokenizer_config = R"({"bos_token": {"content": "[B]", "special": true},
                          "eos_token": null, "pad_token": "[P]", "unk_token": 3, "mood": "x",
                          "add_bos_token": true})"}),
            "[B]|</s>|[P]||");
  EXPECT_EQ(Rendered({.chat_template = kAllVariables, .tokenizer_config = "[]"}), "<s>|</s>|||");
}

TEST(ApplyChatTemplate, OwnVariablesComeFirst) {
  const TinyTexts texts{.chat_template = kAllVariables,
                        .tokenizer_config = R"({"pad_token": "[P]"})"};
  EXPECT_EQ(Rendered(texts, {.variables_json = R"({"mood": "good", "bos_token": "mine"})"}),
            "mine|</s>|[P]||good");
  EXPECT_EQ(Rendered(texts, {.variables_json = R"( {"bos_token": null, "eos_token": "",
                             "pad_token": [1], "unk_token": "u"} )"}),
            "None||[1]|u|");
  EXPECT_EQ(Rendered(texts, {.variables_json = "{}"}), "<s>|</s>|[P]||");
  EXPECT_EQ(Rendered(texts, {.variables_json = " { } "}), "<s>|</s>|[P]||");
  // The order of their keys is the caller's.
  EXPECT_EQ(Rendered({.chat_template = "{{ order | tojson }}"},
                     {.variables_json = R"({"order": {"b": 1, "a": 2}})"}),
            R"({"b": 1, "a": 2})");
}

TEST(ApplyChatTemplate, BadVariablesAreErrors) {
  for (const char* variables : {"[]", "3", "null", "{", R"({"a": 1, "a": 2})", "{} {}", "\xff"}) {
    const auto prompt = Apply({}, {.variables_json = variables});
    ASSERT_FALSE(prompt.ok()) << variables;
    EXPECT_EQ(prompt.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(prompt.status().message().find("variables"), std::string::npos)
        << prompt.status().message();
  }
}

TEST(ApplyChatTemplate, BadMessagesAreErrors) {
  const auto expect = [](const char* messages, StatusCode code, const std::string& part) {
    const auto prompt = Apply({}, {}, messages);
    ASSERT_FALSE(prompt.ok()) << messages;
    EXPECT_EQ(prompt.status().code(), code);
    EXPECT_NE(prompt.status().message().find(part), std::string::npos) << prompt.status().message();
  };
  expect("", StatusCode::kInvalidArgument, "messages");
  expect("{}", StatusCode::kInvalidArgument, "list");
  expect("[3]", StatusCode::kInvalidArgument, "messages[0]");
  expect("[{\"role\": \"\xff\"}]", StatusCode::kInvalidArgument, "not UTF-8 at byte 11");
  const auto refused = Apply({.chat_template = "{{ raise_exception('no tools, please') }}"});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("no tools, please"), std::string::npos);
}

TEST(ApplyChatTemplate, AMessageQuotesAShortPartOfWhatIsWrong) {
  const std::string many(100'000, 'x');
  for (const std::string& source :
       {"{{ raise_exception('" + many + "') }}", "{{ " + many + "() }}", "{{ 1 | " + many + " }}",
        "{% " + many + " %}", "{{ messages." + many + ".b }}", "{{ '" + many + "' + 1 }}",
        "{{ 1" + std::string(100'000, '1') + " }}"}) {
    const auto prompt = Apply({.chat_template = source});
    ASSERT_FALSE(prompt.ok()) << source.substr(0, 30);
    EXPECT_LT(prompt.status().message().size(), 600u) << source.substr(0, 30);
  }
  const std::string repeated = "[{\"" + many + "\": 1, \"" + many + "\": 1}]";
  const auto prompt = Apply({}, {}, repeated.c_str());
  ASSERT_FALSE(prompt.ok());
  EXPECT_LT(prompt.status().message().size(), 200u);
}

TEST(ApplyChatTemplate, AModelWithoutTemplateIsNotFound) {
  const auto prompt = Apply({.chat_template = ""});
  ASSERT_FALSE(prompt.ok());
  EXPECT_EQ(prompt.status().code(), StatusCode::kNotFound);
  EXPECT_NE(prompt.status().message().find("tiny-1 has no chat template"), std::string::npos);
}

TEST(ApplyChatTemplate, ATemplateThatIsNoneIsAnErrorWhenItIsUsed) {
  EXPECT_EQ(Apply({.chat_template = "{% if %}"}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Apply({.chat_template = "{% include 'x' %}"}).status().code(),
            StatusCode::kIncompatible);
}

TEST(ApplyChatTemplate, TakesTheClockOfTheCaller) {
  int calls = 0;
  ChatOptions options;
  options.clock = [&calls] {
    ++calls;
    std::tm time{};
    time.tm_year = 124;
    time.tm_mon = 1;
    time.tm_mday = 29;
    return time;
  };
  const TinyTexts texts{.chat_template = "{{ strftime_now('%Y-%m-%d') }}"};
  EXPECT_EQ(Rendered(texts, options), "2024-02-29");
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(Rendered({.chat_template = "no time"}, options), "no time");
  EXPECT_EQ(calls, 1);
  // Without one, the system's: a year of this century.
  EXPECT_EQ(Rendered(texts).substr(0, 2), "20");
}

}  // namespace
}  // namespace slipstream
