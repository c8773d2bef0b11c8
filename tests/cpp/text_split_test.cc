// Split patterns: the hand-written matchers against the general matcher on the same expressions,
// and both against examples; behaviours of Split; what the general matcher refuses.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "text/pre_tokenizer.h"
#include "text/regex_program.h"

namespace slipstream::text {
namespace {

constexpr std::string_view kKnown[] = {
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
};

std::vector<std::string> Words(const SplitPattern& pattern, std::string_view text) {
  std::vector<std::string> words;
  Span match{0, 0};
  for (size_t at = 0; pattern.Find(text, at, &match) == FindResult::kFound; at = match.end) {
    EXPECT_LT(match.begin, match.end);
    words.emplace_back(text.substr(match.begin, match.end - match.begin));
  }
  return words;
}

std::unique_ptr<SplitPattern> Compile(std::string_view regex) {
  Result<std::unique_ptr<SplitPattern>> pattern = MakeRegexPattern(regex);
  EXPECT_TRUE(pattern.ok()) << pattern.status().message();
  return pattern.ok() ? std::move(*pattern) : nullptr;
}

using Strings = std::vector<std::string>;

TEST(KnownPatterns, Examples) {
  const auto words = [](int i, std::string_view text) {
    return Words(*MakeKnownPattern(kKnown[i]), text);
  };
  EXPECT_EQ(words(0, "It's 1234  é!?\n\n x"),
            (Strings{"It", "'s", " 1234", " ", " é", "!?", "\n\n", " x"}));
  EXPECT_EQ(words(0, "'S a  "), (Strings{"'", "S", " a", "  "}));
  EXPECT_EQ(words(1, "IT'S 12345\n\n\t (x)\r\n y"),
            (Strings{"IT", "'S", " ", "123", "45", "\n\n", "\t", " (", "x", ")\r\n", " y"}));
  EXPECT_EQ(words(1,
                  "a'\xC5\xBF"
                  "b"),
            (Strings{"a", "'\xC5\xBF", "b"}));
  EXPECT_EQ(words(2, "12 3"), (Strings{"1", "2", " ", "3"}));
  EXPECT_EQ(words(3, "HelloWORLDfoo don'T a/b//\n"),
            (Strings{"Hello", "WORLDfoo", " don'T", " a", "/b", "//\n"}));
  EXPECT_EQ(MakeKnownPattern("\\s+"), nullptr);
}

TEST(KnownPatterns, AgreeWithTheGeneralMatcher) {
  const char* const kPool[] = {
      "a",         "B",  "ʰ",  "ǅ",    "一",     "\xCC\x81", "1", "٣",    "½",   " ",
      "  ",        "\t", "\n", "\r\n", "\u00A0", "\u3000",   "'", "'s",   "'LL", "'re",
      "'\xC5\xBF", ".",  "/",  "-",    "🙂",   "\u200D",   "_", "\x01", "é",   "ß"};
  std::mt19937 random(11);
  for (const std::string_view regex : kKnown) {
    const std::unique_ptr<SplitPattern> known = MakeKnownPattern(regex);
    const std::unique_ptr<SplitPattern> general = Compile(regex);
    ASSERT_NE(known, nullptr);
    for (int round = 0; round < 3000; ++round) {
      std::string text;
      for (size_t n = random() % 24; n > 0; --n) text += kPool[random() % std::size(kPool)];
      ASSERT_EQ(Words(*known, text), Words(*general, text)) << text;
    }
  }
}

TEST(KnownPatterns, LongRunsTakeLinearTime) {
  for (const std::string_view regex : kKnown) {
    const std::unique_ptr<SplitPattern> known = MakeKnownPattern(regex);
    for (const char c : {'a', 'A', ' ', '\n', '.', '\''}) {
      const std::string text(2'000'000, c);
      size_t bytes = 0;
      for (const std::string& word : Words(*known, text)) bytes += word.size();
      EXPECT_EQ(bytes, text.size());
    }
  }
}

TEST(GeneralMatcher, Examples) {
  EXPECT_EQ(Words(*Compile("a(?=b)|c(?!d)"), "abacdcx"), (Strings{"a", "c"}));
  EXPECT_EQ(Words(*Compile("(?:ab|c(?:d|e)?)z"), "abzczcezcfz"), (Strings{"abz", "cz", "cez"}));
  EXPECT_EQ(Words(*Compile("\\d{2,3}"), "1 12 1234567 ٣٣"), (Strings{"12", "123", "456", "٣٣"}));
  EXPECT_EQ(Words(*Compile("[a-c\\]x-]+"), "ab]-xz-"), (Strings{"ab]-x", "-"}));
  EXPECT_EQ(Words(*Compile("\\s*x"), "   y  x"), (Strings{"  x"}));
  EXPECT_EQ(Words(*Compile(" ?+a"), " a a"), (Strings{" a", " a"}));
  EXPECT_EQ(Words(*Compile("a?+ab"), "ab aab"),
            (Strings{"aab"}));  // possessive: nothing is given back
  EXPECT_EQ(Words(*Compile("[\\u4e00-\\u9fa5]+"), "a一二b"), (Strings{"一二"}));
  EXPECT_EQ(Words(*Compile("(?i:k)[^\\S\\n]"), "K \nk\nk\t"), (Strings{"K ", "k\t"}));
  EXPECT_EQ(Words(*Compile("\\P{L}."), "a1b2"), (Strings{"1b"}));
}

TEST(GeneralMatcher, RefusesWhatItDoesNotKnow) {
  for (const char* regex :
       {"a*?",       "a**",    "(?<=a)b",     "(?<n>a)", "^a",    "a$",      "\\w",    "\\b",
        "\\p{Han}",  "\\p{L",  "[[:alpha:]]", "[a&&b]",  "[a",    "[]",      "(a",     "a)",
        "a{3,2}",    "a{",     "a{9999}",     "*a",      "\\",    "(ab)+",   "(?i:é)", "(?i:ss)",
        "(?i:[^a])", "(?=a)+", "[z-a]",       "a{1,2}+", "\\xff", "\\ud800", "\\1",    "(?m:a)"}) {
    const Result<std::unique_ptr<SplitPattern>> pattern = MakeRegexPattern(regex);
    ASSERT_FALSE(pattern.ok()) << regex;
    EXPECT_EQ(pattern.status().code(), StatusCode::kInvalidArgument);
    EXPECT_FALSE(pattern.status().message().empty());
  }
  for (const char* regex : {"a*", "", "a|", "(?=a)", "a?b*"}) {
    EXPECT_NE(MakeRegexPattern(regex).status().message().find("empty string"), std::string::npos)
        << regex;
  }
}

TEST(GeneralMatcher, BoundsWorkAndMemory) {
  EXPECT_FALSE(MakeRegexPattern(std::string(100000, '(')).ok());
  EXPECT_FALSE(MakeRegexPattern(std::string(100000, 'a')).ok());
  // Cubic backtracking gives up instead of hanging.
  const std::unique_ptr<SplitPattern> hard = Compile("a+a+a+a+b");
  Span match{0, 0};
  EXPECT_EQ(hard->Find(std::string(3000, 'a'), 0, &match), FindResult::kTooHard);
  EXPECT_EQ(Words(*Compile("a+"), std::string(1000000, 'a')).size(), 1u);
}

Strings Pieces(SplitBehavior behavior, bool invert, std::string_view text) {
  PreTokenizer pre_tokenizer;
  PreTokenizerStage stage;
  stage.pattern = MakeLiteralPattern("-");
  stage.behavior = behavior;
  stage.invert = invert;
  pre_tokenizer.stages.push_back(std::move(stage));
  Strings words;
  EXPECT_EQ(pre_tokenizer.Run({text, true},
                              [&](std::string_view word) {
                                words.emplace_back(word);
                                return FindResult::kFound;
                              }),
            FindResult::kFound);
  return words;
}

// The example of Hugging Face's documentation.
TEST(SplitBehavior, TheFiveOfThem) {
  const std::string_view text = "the-final--countdown";
  EXPECT_EQ(Pieces(SplitBehavior::kRemoved, false, text), (Strings{"the", "final", "countdown"}));
  EXPECT_EQ(Pieces(SplitBehavior::kIsolated, false, text),
            (Strings{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(Pieces(SplitBehavior::kMergedWithPrevious, false, text),
            (Strings{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(Pieces(SplitBehavior::kMergedWithNext, false, text),
            (Strings{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(Pieces(SplitBehavior::kContiguous, false, text),
            (Strings{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(Pieces(SplitBehavior::kRemoved, true, text), (Strings{"-", "-", "-"}));
}

TEST(Digits, AloneAndInRuns) {
  EXPECT_EQ(Words(*MakeDigitsPattern(true), "a12½"), (Strings{"1", "2", "½"}));
  EXPECT_EQ(Words(*MakeDigitsPattern(false), "a12½ 3"), (Strings{"12½", "3"}));
}

}  // namespace
}  // namespace slipstream::text
