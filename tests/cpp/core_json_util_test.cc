#include <gtest/gtest.h>

#include <string>

#include "core/json_util.h"

namespace slipstream::core {
namespace {

using nlohmann::json;

void ExpectRefused(std::string_view text, const std::string& part, const JsonLimits& limits = {}) {
  auto parsed = ParseJson(text, "the test", limits);
  ASSERT_FALSE(parsed.ok()) << text;
  EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(parsed.status().message().find("the test"), std::string::npos);
  EXPECT_NE(parsed.status().message().find(part), std::string::npos) << parsed.status().message();
}

TEST(ParseJson, EqualsTheLibrarysParserOnGoodInput) {
  for (const char* text : {R"({"a":[1,-2,3.5,{"b":null,"c":[true,false,[]]},"x\u00e9\n"]})",
                           R"({"z":{},"y":18446744073709551615})", "[[[1],2],3]", "\"alone\"",
                           " 12 ", "[]", "{\"\":{\"\":0}}", "1e3"}) {
    auto parsed = ParseJson(text, "the test");
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(*parsed, json::parse(text)) << text;
  }
}

TEST(ParseJson, RefusesDuplicateKeysAtEveryLevel) {
  ExpectRefused(R"({"a":1,"b":2,"a":3})", "\"a\" appears twice");
  ExpectRefused(R"([{"x":{"k":1,"k":1}}])", "\"k\" appears twice");
  ExpectRefused(R"({"a":1,"\u0061":3})", "\"a\" appears twice");
  EXPECT_TRUE(ParseJson(R"([{"a":1},{"a":{"a":2}}])", "the test").ok());
}

TEST(ParseJson, RefusesBadSyntax) {
  for (const char* text :
       {"", "{", "[1,]", "{\"a\" 1}", "nul", "[1] 2", "{} {}", "NaN", "[Infinity]", "'a'",
        "\"\xff\"", "\"\\ud800\"", "01", "[1e999]", "// c\n1", "{a:1}"}) {
    ExpectRefused(text, "not valid JSON");
  }
  ExpectRefused(std::string_view("1\0", 2), "not valid JSON");
}

TEST(ParseJson, BoundsDepthAndSize) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(ParseJson(nested(64), "the test").ok());
  ExpectRefused(nested(65), "deeper than 64");
  ExpectRefused(std::string(10000000, '['), "deeper than 64");
  ExpectRefused("[1,2,3]", "limit is 6", {.max_bytes = 6});
}

TEST(JsonReader, ReadsEveryType) {
  const json value = json::parse(
      R"({"i":-3,"u":7,"n":2.5,"b":true,"s":"x","ss":["a","b"],"is":[1,2],"o":{"in":1},
          "l":[{"v":1},{"v":2}],"null":null})");
  JsonReader reader(value, "the test");
  EXPECT_EQ(reader.Int("i", -5, 5), -3);
  EXPECT_EQ(reader.UInt("u"), 7u);
  EXPECT_EQ(reader.Number("n"), 2.5);
  EXPECT_TRUE(reader.Bool("b"));
  EXPECT_EQ(reader.String("s"), "x");
  EXPECT_EQ(reader.Strings("ss"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(reader.Ints("is", 0, 9), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(reader.Object("o").Int("in", 0, 9), 1);
  int64_t sum = 0;
  reader.Objects("l", [&](JsonReader& element) { sum += element.Int("v", 0, 9); });
  EXPECT_EQ(sum, 3);
  EXPECT_TRUE(reader.Has("null"));
  EXPECT_TRUE(reader.IsNull("null"));
  EXPECT_FALSE(reader.Has("nothing"));
  EXPECT_TRUE(reader.ok());
}

TEST(JsonReader, KeepsTheFirstErrorWithItsPath) {
  const auto problem = [](const char* text, auto read) {
    const json value = json::parse(text);
    JsonReader reader(value, "the test", StatusCode::kCorruptFile);
    read(reader);
    EXPECT_EQ(reader.status().code(), StatusCode::kCorruptFile);
    return reader.status().message();
  };
  EXPECT_EQ(problem("{}", [](JsonReader& r) { r.Int("a", 0, 1); }), "the test: a is missing.");
  EXPECT_EQ(problem(R"({"o":{"a":9}})", [](JsonReader& r) { r.Object("o").Int("a", 0, 8); }),
            "the test: o.a is 9; it must be between 0 and 8.");
  EXPECT_EQ(problem(R"({"l":[{"v":1},{"v":"x"}]})",
                    [](JsonReader& r) {
                      r.Objects("l", [](JsonReader& e) { e.Int("v", 0, 9); });
                      r.String("missing");  // Comes second.
                    }),
            "the test: l[1].v must be an integer, but is string.");
  EXPECT_EQ(problem(R"({"a":18446744073709551615})", [](JsonReader& r) { r.UInt("a"); }),
            "the test: a is 18446744073709551615; it must be between 0 and 9223372036854775807.");
  EXPECT_EQ(problem(R"({"a":[1,-1]})", [](JsonReader& r) { r.Ints("a", 0, 9); }),
            "the test: a[1] is -1; it must be between 0 and 9.");
  EXPECT_EQ(problem("[1]", [](JsonReader& r) { r.Int("a", 0, 1); }),
            "the test must be a JSON object, but is array.");
  EXPECT_EQ(problem(R"({"o":3})", [](JsonReader& r) { r.Object("o").Object("p").Int("q", 0, 1); }),
            "the test: o must be an object, but is number.");
}

}  // namespace
}  // namespace slipstream::core
