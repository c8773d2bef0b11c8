// The memory of words against a map of what was put, and with many threads at once.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "text/word_cache.h"

namespace slipstream::text {
namespace {

using Ids = std::vector<TokenId>;

TEST(WordCache, FindsWhatWasPut) {
  WordCache cache;
  Ids ids = {7};
  EXPECT_FALSE(cache.Find(WordCache::Key("word"), &ids));
  cache.Put(WordCache::Key("word"), Ids{1, 2, 3});
  cache.Put(WordCache::Key("none"), Ids{});
  EXPECT_TRUE(cache.Find(WordCache::Key("word"), &ids));
  EXPECT_TRUE(cache.Find(WordCache::Key("none"), &ids));
  EXPECT_EQ(ids, (Ids{7, 1, 2, 3}));
  EXPECT_FALSE(cache.Find(WordCache::Key(std::string_view("word\0", 5)), &ids));
  cache.Put(WordCache::Key("many"), Ids(9, 5));
  EXPECT_FALSE(cache.Find(WordCache::Key("many"), &ids));
  EXPECT_FALSE(WordCache::Key("").usable());
  EXPECT_TRUE(WordCache::Key(std::string(24, 'x')).usable());
  EXPECT_FALSE(WordCache::Key(std::string(25, 'x')).usable());
}

// A word of 0 to 24 bytes, of few different bytes, so that words share starts and ends.
std::string RandomWord(std::mt19937* random) {
  std::string word(1 + (*random)() % WordCache::kMaxBytes, 'a');
  for (char& c : word) c = "ab\0\xFF"[(*random)() % 4];
  return word;
}

// Whatever is found is what was put; a word that was just put is found.
TEST(WordCache, AgreesWithAMap) {
  std::mt19937 random(5);
  WordCache cache;
  std::map<std::string, Ids> model;
  for (int round = 0; round < 200'000; ++round) {
    const std::string word = RandomWord(&random);
    const WordCache::Key key(word);
    Ids found;
    if (cache.Find(key, &found)) {
      ASSERT_TRUE(model.contains(word));
      ASSERT_EQ(found, model[word]);
    }
    if (random() % 2 == 0) continue;
    if (!model.contains(word)) {
      Ids ids(random() % (WordCache::kMaxIds + 1));
      for (TokenId& id : ids) id = static_cast<TokenId>(random() >> 1);
      model[word] = ids;
    }
    const Ids& ids = model[word];
    cache.Put(key, ids);
    found.clear();
    ASSERT_TRUE(cache.Find(key, &found));
    ASSERT_EQ(found, ids);
  }
}

// The ids of a word are a function of the word, as for a model: no thread may see a mixture.
TEST(WordCache, ThreadsNeverSeeHalfAnEntry) {
  WordCache cache;
  std::atomic<int> wrong{0};
  std::atomic<int> hits{0};
  const auto work = [&](uint32_t seed) {
    std::mt19937 random(seed);
    for (int round = 0; round < 100'000; ++round) {
      const std::string word = "w" + std::to_string(random() % 40'000);
      Ids expected;
      for (size_t i = 0; i < word.size(); ++i) expected.push_back(word[i] * 1000 + word.back());
      const WordCache::Key key(word);
      Ids found;
      if (cache.Find(key, &found)) {
        ++hits;
        wrong += found != expected;
      } else {
        cache.Put(key, expected);
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(hits, 0);
}

}  // namespace
}  // namespace slipstream::text
