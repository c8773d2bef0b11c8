// Chat templates without Python: what renders, what is refused, and where errors point.
#include <gtest/gtest.h>

#include <string>

#include "slipstream/chat.h"

namespace slipstream {
namespace {

std::string Render(const std::string& source, const std::string& messages = "[]",
                   const ChatOptions& options = {}) {
  auto parsed = ChatTemplate::Parse(source);
  if (!parsed.ok()) return "parse: " + parsed.status().message();
  auto rendered = parsed->Render(messages, options);
  return rendered.ok() ? *rendered : "render: " + rendered.status().message();
}

TEST(ChatTemplateTest, RendersAConversation) {
  const std::string source =
      "{%- for m in messages %}\n<{{ m.role }}>{{ m['content'] | trim }}\n{% endfor %}\n"
      "{%- if add_generation_prompt %}<assistant>{{ bos_token }}{% endif %}";
  ChatOptions options;
  options.variables_json = R"({"bos_token": "[B]"})";
  EXPECT_EQ(Render(source, R"([{"role": "user", "content": " Grüße "}])", options),
            "<user>Grüße\n<assistant>[B]");
  options.add_generation_prompt = false;
  EXPECT_EQ(Render(source, R"([{"role": "user", "content": "x"}])", options), "<user>x\n");
}

TEST(ChatTemplateTest, KeepsTheOrderOfKeysAndPythonsSpelling) {
  EXPECT_EQ(Render("{{ messages | tojson }} {{ messages }}", R"([{"b": 1.0, "a": [null, true]}])"),
            R"([{"b": 1.0, "a": [null, true]}] [{'b': 1.0, 'a': [None, True]}])");
}

TEST(ChatTemplateTest, TakesTheClockOfTheCaller) {
  ChatOptions options;
  options.clock = [] {
    std::tm time{};
    time.tm_year = 126;
    time.tm_mon = 2;
    time.tm_mday = 7;
    return time;
  };
  EXPECT_EQ(Render("{{ strftime_now('%d %b %Y') }}", "[]", options), "07 Mar 2026");
}

TEST(ChatTemplateTest, ErrorsSayWhere) {
  EXPECT_EQ(Render("a\n{% if %}"),
            "parse: The chat template cannot be parsed: Expected an expression, found '%}' (line "
            "2, column 7).");
  EXPECT_EQ(Render("{{ raise_exception('roles must alternate') }}"),
            "render: The chat template cannot be rendered: roles must alternate (line 1, column "
            "19).");
}

TEST(ChatTemplateTest, RefusesWhatItDoesNotKnow) {
  auto parsed = ChatTemplate::Parse("{{ messages | groupby('role') }}");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->Render("[]").status().code(), StatusCode::kIncompatible);
  EXPECT_EQ(ChatTemplate::Parse("{% include 'x' %}").status().code(), StatusCode::kIncompatible);
}

TEST(ChatTemplateTest, BadInputIsAnError) {
  auto parsed = ChatTemplate::Parse("x");
  ASSERT_TRUE(parsed.ok());
  for (const char* messages : {"", "{", "{}", "[1]", R"([{"a": 1, "a": 2}])", "[\"\xff\"]"}) {
    EXPECT_EQ(parsed->Render(messages).status().code(), StatusCode::kInvalidArgument) << messages;
  }
  const std::string deep = std::string(5000, '[') + std::string(5000, ']');
  EXPECT_EQ(parsed->Render(deep).status().code(), StatusCode::kLimitExceeded);
  EXPECT_EQ(ChatTemplate::Parse("\xff").status().code(), StatusCode::kInvalidArgument);
}

TEST(ChatTemplateTest, HostileTemplatesEnd) {
  for (const char* source :
       {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 10 ** 12 }}", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set n = namespace(x=[]) %}{% for i in range(999) %}{% set n.x = [n.x] %}{% endfor "
        "%}"}) {
    auto parsed = ChatTemplate::Parse(source);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed->Render("[]").status().code(), StatusCode::kLimitExceeded) << source;
  }
}

TEST(ChatTemplateTest, ANamespaceMayHoldItself) {
  EXPECT_EQ(Render("{% set n = namespace() %}{% set n.x = [n] %}{{ n.x | length }}"), "1");
}

}  // namespace
}  // namespace slipstream
