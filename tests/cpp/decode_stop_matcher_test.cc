// Stop strings against a definition that sees the whole text at once.
#include <gtest/gtest.h>

#include <random>

#include "decode/stop_matcher.h"

namespace slipstream::decode {
namespace {

struct Answer {
  std::string text;
  int match = -1;
};

// The definition: the least end beyond the first `free` bytes at which a stop string ends; the
// longest of those that end there.
Answer Reference(const std::string& text, const std::vector<std::string>& stops, bool include,
                 size_t free) {
  for (size_t end = free + 1; end <= text.size(); ++end) {
    int best = -1;
    for (size_t i = 0; i < stops.size(); ++i) {
      if (std::string_view(text).substr(0, end).ends_with(stops[i]) &&
          (best < 0 || stops[i].size() > stops[best].size())) {
        best = static_cast<int>(i);
      }
    }
    if (best >= 0) return {text.substr(0, include ? end : end - stops[best].size()), best};
  }
  return {text, -1};
}

TEST(StopMatcherTest, HoldsOnlyWhatMayBecomeAStop) {
  StopMatcher matcher({"</end>", "STOP"});
  EXPECT_EQ(matcher.Push("hello <"), "hello ");
  EXPECT_EQ(matcher.Push("/e"), "");
  EXPECT_EQ(matcher.Push("x ST"), "</ex ");
  EXPECT_EQ(matcher.Push("OP tail"), "");
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.matched_index(), 1);
  EXPECT_EQ(matcher.Push("more"), "");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcherTest, FlushGivesThePartialStop) {
  StopMatcher matcher({"abc"});
  EXPECT_EQ(matcher.Push("xab"), "x");
  EXPECT_EQ(matcher.Push(""), "");
  EXPECT_EQ(matcher.Flush(), "ab");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcherTest, IncludesTheStopWhenAsked) {
  StopMatcher matcher({"\n\n"}, true);
  EXPECT_EQ(matcher.Push("a\n"), "a");
  EXPECT_EQ(matcher.Push("\nb"), "\n\n");
  EXPECT_TRUE(matcher.matched());
}

TEST(StopMatcherTest, AStopThatMayNotEndIsText) {
  StopMatcher matcher({"abab"});
  EXPECT_EQ(matcher.Push("xabab", false), "xab");
  EXPECT_FALSE(matcher.matched());
  EXPECT_EQ(matcher.Push("ab"), "");
  EXPECT_TRUE(matcher.matched()) << "a stop that overlaps the first one counts";
}

TEST(StopMatcherTest, WithoutStopsEverythingPasses) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.Push("abc"), "abc");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcherTest, NeverCutsACharacter) {
  // The stop begins with the same lead byte (E2 82) as the text.
  StopMatcher matcher({"€€"});
  EXPECT_EQ(matcher.Push("₣"), "₣");
  EXPECT_EQ(matcher.Push("a€"), "a");
  EXPECT_EQ(matcher.Push("₤"), "€₤");
}

// Random texts over few characters, random stops, random cuts at character borders: the joined
// pieces equal the definition, no piece is ever told that a stop takes back, and nothing is held
// that could not become a stop.
TEST(StopMatcherTest, StreamEqualsWholeForRandomSplits) {
  const uint32_t seed = 99;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::vector<std::string> alphabet = {"a", "b", "é", "è", "€", "\U0001F600"};
  const auto word = [&](size_t length, size_t letters) {
    std::vector<std::string> characters;
    for (size_t i = 0; i < length; ++i) characters.push_back(alphabet[random() % letters]);
    return characters;
  };
  const auto join = [](const std::vector<std::string>& characters) {
    std::string text;
    for (const std::string& character : characters) text += character;
    return text;
  };
  int matches = 0;
  for (int round = 0; round < 20000; ++round) {
    const size_t letters = 2 + random() % (alphabet.size() - 1);
    const auto characters = word(random() % 24, letters);
    std::vector<std::string> stops;
    for (size_t i = random() % 4; i > 0; --i)
      stops.push_back(join(word(1 + random() % 5, letters)));
    const bool include = random() % 2;
    const std::string text = join(characters);
    // Stops in the first characters do not count.
    const size_t free_characters = round % 2 == 0 ? 0 : random() % (characters.size() + 1);
    const size_t free = join({characters.begin(),
                              characters.begin() + static_cast<std::ptrdiff_t>(free_characters)})
                            .size();
    const Answer want = Reference(text, stops, include, free);

    StopMatcher matcher(stops, include);
    std::string told, given;
    for (size_t i = 0; i < characters.size() && !matcher.matched();) {
      std::string piece;
      const bool may_end = i >= free_characters;
      const size_t end = may_end ? characters.size() : free_characters;
      for (size_t n = random() % 5; n > 0 && i < end; --n) piece += characters[i++];
      given += piece;
      const std::string certain = matcher.Push(piece, may_end);
      ASSERT_TRUE(certain.empty() || (static_cast<uint8_t>(certain[0]) & 0xC0) != 0x80)
          << "a character was cut";
      told += certain;
      ASSERT_TRUE(want.text.starts_with(told)) << "told too much";
      if (!matcher.matched()) {
        size_t hold = 0;
        for (const std::string& stop : stops) {
          for (size_t n = 1; n < stop.size(); ++n) {
            if (given.ends_with(stop.substr(0, n))) hold = std::max(hold, n);
          }
        }
        ASSERT_EQ(told.size(), given.size() - hold) << "held too much";
      }
    }
    if (!matcher.matched()) told += matcher.Flush();
    ASSERT_EQ(told, want.text) << text;
    ASSERT_EQ(matcher.matched(), want.match >= 0);
    if (matcher.matched()) {
      ASSERT_EQ(stops[matcher.matched_index()], stops[want.match]);
      ++matches;
    }
  }
  EXPECT_GT(matches, 3000);
}

}  // namespace
}  // namespace slipstream::decode
