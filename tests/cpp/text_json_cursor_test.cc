// The pull reader of JSON: values, escapes, errors with their place, and hostile nesting.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/json_cursor.h"

namespace slipstream::text {
namespace {

std::string Text(std::string_view json) {
  JsonCursor cursor(json);
  std::string_view value;
  return cursor.ReadString(&value) ? std::string(value) : "error: " + cursor.error();
}

TEST(JsonCursor, ReadsNestedContainers) {
  JsonCursor json(R"( { "a" : [1, -2 , [] , {}], "b":{"c":"d"} } )");
  std::string_view key;
  ASSERT_TRUE(json.EnterObject());
  ASSERT_TRUE(json.NextKey(&key));
  EXPECT_EQ(key, "a");
  ASSERT_TRUE(json.EnterArray());
  int64_t number = 0;
  ASSERT_TRUE(json.NextElement() && json.ReadInteger(&number));
  EXPECT_EQ(number, 1);
  ASSERT_TRUE(json.NextElement() && json.ReadInteger(&number));
  EXPECT_EQ(number, -2);
  ASSERT_TRUE(json.NextElement() && json.EnterArray());
  EXPECT_FALSE(json.NextElement());
  ASSERT_TRUE(json.NextElement() && json.EnterObject());
  EXPECT_FALSE(json.NextKey(&key));
  EXPECT_FALSE(json.NextElement());
  ASSERT_TRUE(json.NextKey(&key));
  std::string_view raw;
  ASSERT_TRUE(json.Skip(&raw));
  EXPECT_EQ(raw, R"({"c":"d"})");
  EXPECT_FALSE(json.NextKey(&key));
  EXPECT_TRUE(json.AtEnd()) << json.error();
}

TEST(JsonCursor, UnescapesStrings) {
  EXPECT_EQ(Text(R"("plain")"), "plain");
  EXPECT_EQ(Text(R"("a\"\\\/\b\f\n\r\tz")"), "a\"\\/\b\f\n\r\tz");
  EXPECT_EQ(Text(R"("\u0120\u4e00\ud83d\ude42")"), "\xC4\xA0\xE4\xB8\x80\xF0\x9F\x99\x82");
}

TEST(JsonCursor, RefusesWrongStrings) {
  for (const char* json :
       {R"("\ud83d")", R"("\ud83dx")", R"("\ude42")", R"("\ud83d\u0041")", R"("\u12")", R"("\x")",
        R"("\)", R"("open)", "\"tab\tinside\"", "1", ""}) {
    EXPECT_TRUE(Text(json).starts_with("error: ")) << json;
  }
}

TEST(JsonCursor, RefusesWrongNumbers) {
  for (const char* json : {"1.5", "1e3", "99999999999999999999", "-", "+1", "0x1", "\"1\"", ""}) {
    JsonCursor cursor(json);
    int64_t value = 0;
    EXPECT_FALSE(cursor.ReadInteger(&value)) << json;
    EXPECT_FALSE(cursor.error().empty());
  }
}

TEST(JsonCursor, RefusesWrongPunctuation) {
  for (const char* json : {"[1,]", "[1 2]", "[,1]", "[1"}) {
    JsonCursor cursor(json);
    int64_t value = 0;
    cursor.EnterArray();
    while (cursor.NextElement() && cursor.ReadInteger(&value)) {
    }
    EXPECT_FALSE(cursor.ok()) << json;
  }
  for (const char* json :
       {"{\"a\":1,}", "{\"a\" 1}", "{\"a\":1 \"b\":2}", "{1:2}", "{", "{\"a\""}) {
    JsonCursor cursor(json);
    std::string_view key;
    cursor.EnterObject();
    while (cursor.NextKey(&key) && cursor.Skip()) {
    }
    EXPECT_FALSE(cursor.ok()) << json;
  }
}

TEST(JsonCursor, SkipStopsAtDeepNestingAndAtUnbalancedBrackets) {
  const std::string deep = std::string(1000000, '[');
  JsonCursor cursor(deep);
  EXPECT_FALSE(cursor.Skip());
  EXPECT_NE(cursor.error().find("64 levels"), std::string::npos);
  for (const char* json : {"[}", "{]", "[", "{\"a\":", "]", "@"}) {
    JsonCursor wrong(json);
    EXPECT_FALSE(wrong.Skip()) << json;
  }
}

TEST(JsonCursor, NothingFollowsTheFirstError) {
  JsonCursor cursor("[?");
  ASSERT_TRUE(cursor.EnterArray());
  int64_t value = 0;
  ASSERT_TRUE(cursor.NextElement());
  EXPECT_FALSE(cursor.ReadInteger(&value));
  const std::string first = cursor.error();
  std::string_view text;
  EXPECT_FALSE(cursor.ReadString(&text));
  EXPECT_FALSE(cursor.NextElement());
  EXPECT_FALSE(cursor.AtEnd());
  EXPECT_EQ(cursor.error(), first);
}

}  // namespace
}  // namespace slipstream::text
