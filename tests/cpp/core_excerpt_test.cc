#include <gtest/gtest.h>

#include "core/excerpt.h"

namespace slipstream::core {
namespace {

TEST(Excerpt, KeepsWhatIsShortAndCutsTheRest) {
  EXPECT_EQ(Excerpt(""), "");
  EXPECT_EQ(Excerpt(std::string(40, 'x')), std::string(40, 'x'));
  EXPECT_EQ(Excerpt(std::string(41, 'x')), std::string(40, 'x') + "...");
  EXPECT_EQ(Excerpt("abcdef", 5), "abcde...");
  EXPECT_EQ(NameExcerpt(std::string(100, 'x')), std::string(100, 'x'));
  EXPECT_EQ(NameExcerpt(std::string(101, 'x')), std::string(100, 'x') + "...");
}

TEST(Excerpt, SplitsNoCharacter) {
  EXPECT_EQ(Excerpt(std::string(39, 'a') + "\xC3\xA9"), std::string(39, 'a') + "...");
  const std::string emoji = "\xF0\x9F\x99\x82";
  std::string text;
  for (int i = 0; i < 20; ++i) text += emoji;
  for (size_t longest = 0; longest < text.size(); ++longest) {
    const std::string cut = Excerpt(text, longest);
    EXPECT_LE(cut.size(), longest + 3);
    EXPECT_EQ(cut, text.substr(0, longest / 4 * 4) + "...");
  }
  // Bytes that are no UTF-8 at all end somewhere, too.
  EXPECT_EQ(Excerpt(std::string(100, '\x80')), "...");
}

}  // namespace
}  // namespace slipstream::core
