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
    R"(\p{N}{1,3})",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    "[!\"#$%&'()*+,\\-./"
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
};

std::vector<std::string> Words(const SplitPattern& pattern, std::string_view text) {
  std::vector<std::string> words;
  const FindResult found = ForEachMatch(pattern, text, [&](Span match) {
    words.emplace_back(text.substr(match.begin, match.end - match.begin));
    return FindResult::kFound;
  });
  EXPECT_EQ(found, FindResult::kFound);
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
  size_t steps = 0;  // none is needed
  Span match{0, 0};
  for (const std::string_view regex : kKnown) {
    const std::unique_ptr<SplitPattern> known = MakeKnownPattern(regex);
    for (const char c : {'a', 'A', ' ', '\n', '.', '\''}) {
      const std::string text(2'000'000, c);
      size_t bytes = 0;
      for (const std::string& word : Words(*known, text)) bytes += word.size();
      const bool takes_all = known->Find(text, 0, &steps, &match) == FindResult::kFound;
      EXPECT_EQ(bytes, takes_all ? text.size() : 0);
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

TEST(GeneralMatcher, Lookbehind) {
  EXPECT_EQ(Words(*Compile("(?<=a|bc)d"), "ad bcd cd"), (Strings{"d", "d"}));
  EXPECT_EQ(Words(*Compile("(?<!a)b"), "ab bb"), (Strings{"b", "b"}));
  EXPECT_EQ(Words(*Compile("(?<=é{1,2})x"), "éx x ééx"), (Strings{"x", "x"}));
}

TEST(GeneralMatcher, LazyPossessiveAtomicAndLoops) {
  EXPECT_EQ(Words(*Compile("<.+?>"), "<a><b>"), (Strings{"<a>", "<b>"}));
  EXPECT_EQ(Words(*Compile("a{1,2}?"), "aaa"), (Strings{"a", "a", "a"}));
  EXPECT_EQ(Words(*Compile("(?:ab|c)+"), "abcab ba"), (Strings{"abcab"}));
  EXPECT_EQ(Words(*Compile("a{1,2}+b|a{2}?c"), "aaaaab c"), (Strings{"aaaaab", "c"}));
  EXPECT_EQ(Words(*Compile("(ab){2,3}"), "ab abab abababab"), (Strings{"abab", "ababab"}));
  EXPECT_EQ(Words(*Compile("(?>a|ab)c"), "abc ac"), (Strings{"ac"}));
  EXPECT_EQ(Words(*Compile("(?:a|ab)++c"), "abc aac"), (Strings{"aac"}));
}

TEST(GeneralMatcher, ClassesPropertiesAndAnchors) {
  EXPECT_EQ(Words(*Compile("[a-w&&[^c-g]z]+"), "abcdefz"), (Strings{"ab"}));
  EXPECT_EQ(Words(*Compile(" ?[^(\\s|[.,!?])]+"), "a b, (c|d)"), (Strings{"a", " b", "c", "d"}));
  EXPECT_EQ(Words(*Compile("[^\\W\\d_]+"), "ab1_é"), (Strings{"ab", "é"}));
  EXPECT_EQ(Words(*Compile("[\\p{Han}&&[^一]]"), "一二a"), (Strings{"二"}));
  EXPECT_EQ(Words(*Compile("[[:upper:][:digit:]]+"), "aBÉ1c"), (Strings{"BÉ1"}));
  EXPECT_EQ(Words(*Compile("^\\w+$"), "ab\nc d\nef"), (Strings{"ab", "ef"}));
  EXPECT_EQ(Words(*Compile("\\b\\d+\\b"), "1 a2 34"), (Strings{"1", "34"}));
  EXPECT_EQ(Words(*Compile("a(?i)b|c"), "aB C aC"), (Strings{"aB", "aC"}));
  EXPECT_EQ(Words(*Compile("'(?i:[sdmt]|ll|ve|re)"), "I'LL it'\xC5\xBF"),
            (Strings{"'LL", "'\xC5\xBF"}));
}

// Hugging Face cuts at an empty match, but not at one right behind another match.
TEST(GeneralMatcher, EmptyMatches) {
  EXPECT_EQ(Words(*Compile("x*"), "axxb"), (Strings{"", "xx", ""}));
  EXPECT_EQ(Words(*Compile("(?<=[a-z])(?=[A-Z])"), "aBcD"), (Strings{"", ""}));
  EXPECT_EQ(Words(*Compile(""), "é"), (Strings{"", ""}));
}

TEST(GeneralMatcher, RefusesWhatItDoesNotKnow) {
  for (const char* regex : {"a**",
                            "(?<=a+)b",
                            "\\p{Odd}",
                            "\\p{L",
                            "[[:odd:]]",
                            "[a",
                            "[]",
                            "(a",
                            "a)",
                            "a{3,2}",
                            "a{",
                            "a{9999}",
                            "*a",
                            "\\",
                            "(a?)+",
                            "(?i:é)",
                            "(?i:ss)",
                            "(?i:s)(?i:s{2})",
                            "(?i:[\\w])",
                            "(?i:[a&&b])",
                            "(?=a)+",
                            "\\b+",
                            "[z-a]",
                            "a{1,2}?+",
                            "a{,2}+",
                            "[[:word:]]",
                            "\\xff",
                            "\\ud800",
                            "\\1",
                            "\\K",
                            "\\G",
                            "\\X",
                            "(?x:a)",
                            "(?~a)",
                            "[\\w-.]",
                            "[a-\\d]",
                            "[--a]",
                            "\\x{110000}",
                            "(?#a",
                            "(?<n",
                            "[[[[[[[[[[a]]]]]]]]]]"}) {
    const Result<std::unique_ptr<SplitPattern>> pattern = MakeRegexPattern(regex);
    ASSERT_FALSE(pattern.ok()) << regex;
    EXPECT_EQ(pattern.status().code(), StatusCode::kInvalidArgument);
    EXPECT_FALSE(pattern.status().message().empty());
  }
}

TEST(GeneralMatcher, BoundsWorkAndMemory) {
  EXPECT_FALSE(MakeRegexPattern(std::string(100000, '(')).ok());
  EXPECT_FALSE(MakeRegexPattern(std::string(100000, 'a')).ok());
  // Cubic backtracking gives up instead of hanging.
  const std::unique_ptr<SplitPattern> hard = Compile("a+a+a+a+b");
  const auto run = [](const SplitPattern& pattern, std::string_view text) {
    return ForEachMatch(pattern, text, [](Span) { return FindResult::kFound; });
  };
  EXPECT_EQ(run(*hard, std::string(3000, 'a')), FindResult::kTooHard);
  EXPECT_EQ(run(*Compile("(?:a|a)+b"), std::string(100, 'a')), FindResult::kTooHard);
  // Each search alone is cheap, all together are quadratic.
  EXPECT_EQ(run(*Compile("a(?=[ab]*c)|a"), std::string(100000, 'a')), FindResult::kTooHard);
  // A loop over a group remembers a choice for each round.
  EXPECT_EQ(run(*Compile("(?:ab)+"), std::string(3'000'000, 'a')), FindResult::kFound);
  std::string rounds;
  for (int i = 0; i < 1'100'000; ++i) rounds += "ab";
  EXPECT_EQ(run(*Compile("(?:ab)+"), rounds), FindResult::kTooHard);
  EXPECT_FALSE(MakeRegexPattern("(?:(?:(?:(?:a{100}){100}){100}){100})").ok());
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
