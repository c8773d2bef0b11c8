// The KV cache under thousands of random operations: every position that is read holds what was
// computed for it, every account adds up, every promise is kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "kv_fake_pool.h"

namespace slipstream::kv {
namespace {

constexpr int32_t kSlots = 7;
constexpr int32_t kChunk = 9;
constexpr int64_t kLongest = 70;

struct ModelSetup {
  std::vector<GroupSpec> groups;
  std::vector<int64_t> blocks;
  bool cache = true;
  int reserving = 2;  // of 4
  bool forks = true;
  std::vector<int64_t> host_slots = {};
  bool retention = false;
};

class Simulation {
 public:
  Simulation(const ModelSetup& setup, uint32_t seed)
      : setup_(setup),
        random_(seed),
        kv_(setup.groups, setup.blocks, kSlots, kChunk,
            {.enable_cache = setup.cache,
             .max_events = 1 << 20,
             .host_slots = setup.host_slots,
             .clock = [this] { return milliseconds_; }}),
        pool_(setup.groups, setup.blocks, setup.host_slots) {
    for (const GroupSpec& group : setup.groups)
      unit_ = std::lcm(unit_, int64_t{group.block_tokens});
    for (int i = 0; i < 6; ++i) {
      std::vector<TokenId> text(Draw(kLongest));
      for (TokenId& token : text) token = static_cast<TokenId>(random_() % 3);
      texts_.push_back(std::move(text));
    }
  }

  void Run(int steps) {
    for (int step = 0; step < steps && !testing::Test::HasFatalFailure(); ++step) {
      SCOPED_TRACE(testing::Message() << "operation " << step);
      switch (random_() % 16) {
        case 0:
        case 1:
        case 2:
        case 3:
          Open();
          break;
        case 4:
          Fork();
          break;
        case 5:
          CloseOne(true);
          break;
        case 6:
          CloseOne(random_() % 3 > 0);
          break;
        case 7:
          if (random_() % 20 == 0) Drop();
          break;
        default:
          Step();
      }
      CheckAccounts();
    }
    while (!open_.empty()) CloseOne(true);
    CheckAccounts();
    EXPECT_EQ(kv_.pinned_blocks(), 0);
    EXPECT_EQ(kv_.free_blocks() + kv_.evictable_blocks(), kv_.total_blocks());
    EXPECT_EQ(kv_.Unreserved(), setup_.blocks);
    moved_out = kv_.moved_out();
    moved_in = kv_.moved_in();
    kv_.Reset();
    EXPECT_EQ(kv_.free_blocks(), kv_.total_blocks());
    EXPECT_EQ(kv_.host_used_slots(), 0);
  }

  int64_t hits = 0, hit_tokens = 0, copies = 0, refused_opens = 0, refused_extends = 0;
  int64_t adopted = 0, produced = 0, forks = 0, steps = 0, moved_out = 0, moved_in = 0;
  int64_t rooms = 0, no_rooms = 0;

 private:
  struct Sequence {
    std::string key;
    std::vector<TokenId> tokens;  // all that it will ever have
    int64_t known = 0;            // of them
    int64_t told = 0;             // known to the manager
    int64_t computed = 0;
    bool reserve = false, reads = false, stores = false, dropped = false;
    uint64_t opened = 0;
    std::vector<TokenId> Known() const { return {tokens.begin(), tokens.begin() + known}; }
  };

  int64_t Draw(int64_t most) { return 1 + static_cast<int64_t>(random_() % most); }

  std::vector<TokenId> DrawTokens() {
    std::vector<TokenId> tokens = texts_[random_() % texts_.size()];
    if (random_() % 3 == 0) tokens.resize(Draw(static_cast<int64_t>(tokens.size())));
    while (static_cast<int64_t>(tokens.size()) < kLongest && random_() % 12 != 0)
      tokens.push_back(static_cast<TokenId>(random_() % 3));
    return tokens;
  }

  void Open() {
    const int32_t slot = static_cast<int32_t>(random_() % kSlots);
    if (open_.contains(slot)) return;
    Sequence sequence;
    sequence.key = random_() % 4 == 0 ? "b/1" : "a/1";
    sequence.tokens = DrawTokens();
    sequence.known = Draw(static_cast<int64_t>(sequence.tokens.size()));
    sequence.reserve = static_cast<int>(random_() % 4) < setup_.reserving;
    sequence.reads = random_() % 8 > 0;
    sequence.stores = random_() % 8 > 0;
    const auto before = Snapshot();
    const std::vector<TokenId> known = sequence.Known();
    const int64_t match = kv_.Match(sequence.key, known);
    const auto spare = static_cast<int64_t>(random_() % setup_.blocks[0]);
    const bool room =
        kv_.HasRoom({.cache_key = sequence.key, .tokens = known, .read_cache = sequence.reads},
                    sequence.known + 1, spare);
    milliseconds_ += static_cast<int64_t>(random_() % 5);
    std::vector<KvRetention> retention;
    if (setup_.retention && random_() % 3 == 0) {
      retention.push_back({.first = Draw(20),
                           .priority = static_cast<int32_t>(random_() % 100),
                           .duration = std::chrono::milliseconds(random_() % 200)});
    }
    const Result<int64_t> hit =
        kv_.Open(slot, {.cache_key = sequence.key,
                        .tokens = known,
                        .total_tokens = static_cast<int64_t>(sequence.tokens.size()),
                        .reserve = sequence.reserve,
                        .read_cache = sequence.reads,
                        .write_cache = sequence.stores,
                        .retention = retention});
    if (!hit.ok()) {
      ASSERT_EQ(hit.status().code(), StatusCode::kResourceExhausted) << hit.status().message();
      ASSERT_EQ(Snapshot(), before);
      ++refused_opens;
      return;
    }
    ASSERT_GE(*hit, 0);
    ASSERT_LT(*hit, sequence.known);
    ASSERT_LE(*hit, match);
    if (!sequence.reads || !setup_.cache) {
      ASSERT_EQ(*hit, 0);
    }
    if (*hit == match && sequence.reads) {
      // Opening has taken what it could share; the rest must be free or evictable.
      bool fits = true;
      for (size_t g = 0; g < setup_.groups.size(); ++g) {
        const auto group = static_cast<int32_t>(g);
        const int64_t lacks =
            PeakBlocks(setup_.groups[g], sequence.known + 1, kChunk) - kv_.Held(slot, group);
        fits = fits && lacks + spare <= kv_.free_blocks(group) + kv_.evictable_blocks(group);
      }
      ASSERT_EQ(room, fits);
      ++(room ? rooms : no_rooms);
    }
    hits += *hit > 0;
    hit_tokens += *hit;
    sequence.computed = *hit;
    sequence.told = sequence.known;
    sequence.opened = ++opened_;
    open_[slot] = std::move(sequence);
    if (random_() % 2) CarryOutCopies();  // else the next step does
  }

  void Fork() {
    if (open_.empty() || !setup_.forks) return;
    const auto parent = std::next(open_.begin(), random_() % open_.size());
    const int32_t slot = static_cast<int32_t>(random_() % kSlots);
    if (open_.contains(slot)) return;
    Sequence child = parent->second;
    // The child goes on in its own way after what is computed.
    const size_t kept = static_cast<size_t>(std::max<int64_t>(child.computed, 1));
    while (child.tokens.size() > kept) child.tokens.pop_back();
    while (static_cast<int64_t>(child.tokens.size()) < kLongest && random_() % 12 != 0)
      child.tokens.push_back(static_cast<TokenId>(random_() % 3));
    if (child.tokens.size() == static_cast<size_t>(child.computed)) child.tokens.push_back(1);
    child.known = child.computed;
    child.reserve = static_cast<int>(random_() % 4) < setup_.reserving;
    const auto before = Snapshot();
    const Status status =
        kv_.Fork(parent->first, slot, static_cast<int64_t>(child.tokens.size()), child.reserve);
    if (!status.ok()) {
      ASSERT_EQ(status.code(), StatusCode::kResourceExhausted) << status.message();
      ASSERT_EQ(Snapshot(), before);
      return;
    }
    child.told = child.computed;
    child.known = child.computed + 1;
    child.opened = ++opened_;
    child.stores = child.stores && !parent->second.dropped;
    open_[slot] = std::move(child);
    ++forks;
  }

  void CloseOne(bool keep) {
    if (open_.empty()) return;
    const auto victim = std::next(open_.begin(), random_() % open_.size());
    const Sequence& sequence = victim->second;
    kv_.Close(victim->first, sequence.Known(), sequence.computed, keep);
    ASSERT_FALSE(kv_.is_open(victim->first));
    open_.erase(victim);
  }

  void Drop() {
    const std::string prefix = random_() % 2 ? "a/" : "";
    kv_.DropKey(prefix);
    for (auto& [slot, sequence] : open_) {
      if (sequence.key.starts_with(prefix)) sequence.dropped = true;
    }
    for (const auto& text : texts_) ASSERT_EQ(kv_.Match("a/1", text), 0);
  }

  void CarryOutCopies() {
    const std::vector<BlockCopy> list = kv_.TakeCopies();
    copies += static_cast<int64_t>(list.size());
    pool_.Copy(list);
  }

  // A step of a random part of the sequences.
  void Step() {
    struct Entry {
      int32_t slot;
      int64_t rows;
    };
    std::vector<Entry> entries;
    for (auto& [slot, sequence] : open_) {
      if (random_() % 3 == 0) continue;
      if (sequence.computed + 1 < sequence.known) {
        CheckProducer(slot);
        const int64_t now = kv_.Adopt(slot, sequence.Known(), sequence.computed);
        ASSERT_TRUE(now == sequence.computed || (now > sequence.computed && now % unit_ == 0));
        ASSERT_LT(now, sequence.known);
        adopted += now - sequence.computed;
        if (now > sequence.computed) sequence.told = sequence.known;
        sequence.computed = now;
      }
      if (sequence.computed == sequence.known) {
        if (sequence.known == static_cast<int64_t>(sequence.tokens.size())) continue;
        ++sequence.known;
      }
      const int64_t rows = std::min(sequence.known - sequence.computed, Draw(kChunk));
      const auto before = Snapshot();
      const Status status = kv_.Extend(slot, sequence.computed, rows);
      if (!status.ok()) {
        ASSERT_FALSE(sequence.reserve) << status.message();
        ASSERT_EQ(status.code(), StatusCode::kResourceExhausted) << status.message();
        ASSERT_EQ(Snapshot(), before);
        ++refused_extends;
        continue;
      }
      entries.push_back({slot, rows});
    }
    if (entries.empty()) return;
    ++steps;
    CarryOutCopies();
    for (const auto& [slot, rows] : entries) CheckExclusive(slot, rows);
    for (const auto& [slot, rows] : entries) {
      const Sequence& s = open_[slot];
      pool_.Write(kv_, slot, s.key, s.tokens, s.computed, rows);
    }
    for (const auto& [slot, rows] : entries) {
      Sequence& s = open_[slot];
      pool_.CheckReads(kv_, slot, s.key, s.tokens, s.computed);
      s.computed += rows;
      kv_.Commit(slot, s.Known(), s.computed);
      s.told = s.known;
    }
    for (const auto& [slot, s] : open_) pool_.CheckReads(kv_, slot, s.key, s.tokens, s.computed);
  }

  // What is written belongs to one sequence alone.
  void CheckExclusive(int32_t slot, int64_t rows) {
    const Sequence& sequence = open_[slot];
    for (size_t g = 0; g < setup_.groups.size(); ++g) {
      const int32_t tokens = setup_.groups[g].block_tokens;
      for (int64_t b = sequence.computed / tokens; b <= (sequence.computed + rows - 1) / tokens;
           ++b) {
        const int32_t block = kv_.Table(slot, static_cast<int32_t>(g))[b];
        for (const auto& [other, ignored] : open_) {
          if (other == slot) continue;
          for (const int32_t held : kv_.Table(other, static_cast<int32_t>(g)))
            ASSERT_NE(held, block) << "slots " << slot << " and " << other;
        }
      }
    }
  }

  void CheckProducer(int32_t slot) {
    const Sequence& self = open_[slot];
    int32_t want = -1;
    const int64_t through = (self.computed / unit_ + 1) * unit_;
    if (self.reads && setup_.cache && self.told >= through) {
      const Sequence* best = &self;
      for (const auto& [other, s] : open_) {
        if (other == slot || s.key != self.key || !s.stores || s.dropped || s.told < through ||
            s.computed / unit_ != self.computed / unit_ ||
            !std::equal(self.tokens.begin(), self.tokens.begin() + through, s.tokens.begin()))
          continue;
        if (s.computed > best->computed ||
            (s.computed == best->computed && s.opened < best->opened)) {
          best = &s;
          want = other;
        }
      }
    }
    ASSERT_EQ(kv_.Producer(slot), want);
    produced += want >= 0;
  }

  std::vector<std::vector<int32_t>> Snapshot() const {
    std::vector<std::vector<int32_t>> all;
    for (size_t g = 0; g < setup_.groups.size(); ++g) {
      const auto group = static_cast<int32_t>(g);
      for (int32_t slot = 0; slot < kSlots; ++slot) {
        const auto table = kv_.Table(slot, group);
        all.emplace_back(table.begin(), table.end());
      }
      all.push_back({static_cast<int32_t>(kv_.free_blocks(group)),
                     static_cast<int32_t>(kv_.cached_blocks(group)),
                     static_cast<int32_t>(kv_.Unreserved()[g])});
    }
    return all;
  }

  // What the events say is where must be what the gauges count: a content is in one place only.
  void CheckEvents() {
    for (const KvEvent& event : kv_.TakeEvents()) {
      for (const uint64_t hash : event.hashes) {
        std::map<uint64_t, Tier>& places = places_[event.group];
        const auto place = places.find(hash);
        if (event.kind == KvEvent::Kind::kStored) {
          ASSERT_EQ(place, places.end());
          places[hash] = Tier::kDevice;
          continue;
        }
        ASSERT_NE(place, places.end());
        if (event.kind == KvEvent::Kind::kRemoved) {
          places.erase(place);
          continue;
        }
        ASSERT_EQ(place->second, event.from);
        ASSERT_NE(event.from, event.to);
        place->second = event.to;
      }
    }
    ASSERT_EQ(kv_.dropped_events(), 0);
    int64_t on_host = 0;
    for (size_t g = 0; g < setup_.groups.size(); ++g) {
      const auto group = static_cast<int32_t>(g);
      int64_t on_device = 0;
      for (const auto& [hash, tier] : places_[group])
        ++(tier == Tier::kDevice ? on_device : on_host);
      ASSERT_EQ(on_device, kv_.cached_blocks(group));
    }
    ASSERT_EQ(on_host, kv_.host_used_slots());
  }

  void CheckAccounts() {
    CheckEvents();
    for (size_t g = 0; g < setup_.groups.size(); ++g) {
      const auto group = static_cast<int32_t>(g);
      const GroupSpec& spec = setup_.groups[g];
      std::map<int32_t, std::vector<int32_t>> holders;
      int64_t promised = 0, debt = 0;
      std::map<int32_t, int64_t> tails;
      for (const auto& [slot, sequence] : open_) {
        int64_t held = 0;
        const auto table = kv_.Table(slot, group);
        for (size_t b = 0; b < table.size(); ++b) {
          if (table[b] < 0) continue;
          holders[table[b]].push_back(slot);
          ++held;
          if (static_cast<int64_t>(b) == sequence.computed / spec.block_tokens &&
              sequence.computed % spec.block_tokens != 0)
            ++tails[table[b]];
        }
        ASSERT_EQ(held, kv_.Held(slot, group));
        if (!sequence.reserve) continue;
        const int64_t need = PeakBlocks(spec, static_cast<int64_t>(sequence.tokens.size()), kChunk);
        ASSERT_LE(held, need);
        promised += need - (spec.window == 0 ? held : 0);
      }
      if (spec.window > 0) {
        for (const auto& [block, slots] : holders)
          promised -= slots.size() == 1 && open_[slots[0]].reserve;
      } else {
        for (const auto& [block, sharers] : tails) debt += sharers - 1;
      }
      const auto pinned = static_cast<int64_t>(holders.size());
      ASSERT_EQ(kv_.pinned_blocks(group), pinned);
      ASSERT_EQ(kv_.free_blocks(group) + kv_.evictable_blocks(group) + pinned, setup_.blocks[g]);
      const int64_t unreserved = kv_.Unreserved()[g];
      ASSERT_EQ(unreserved, setup_.blocks[g] - pinned - promised - debt) << "group " << g;
      ASSERT_GE(unreserved, 0) << "group " << g;
      if (!setup_.cache) {
        ASSERT_EQ(kv_.cached_blocks(group), 0);
      }
    }
  }

  const ModelSetup setup_;
  std::mt19937 random_;
  KvManager kv_;
  FakePool pool_;
  int64_t unit_ = 1;
  std::vector<std::vector<TokenId>> texts_;
  std::map<int32_t, Sequence> open_;
  uint64_t opened_ = 0;
  int64_t milliseconds_ = 0;
  std::map<int32_t, std::map<uint64_t, Tier>> places_;  // of each group's cached contents
};

void RunMany(const ModelSetup& setup, uint32_t first_seed, bool expect_hits) {
  int64_t hits = 0, copies = 0, adopted = 0, produced = 0, refused_opens = 0, refused_extends = 0;
  int64_t moved_out = 0, moved_in = 0;
  for (uint32_t seed = first_seed; seed < first_seed + 6; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Simulation simulation(setup, seed);
    simulation.Run(3000);
    if (testing::Test::HasFailure()) return;
    EXPECT_GT(simulation.steps, 500);
    EXPECT_GT(simulation.rooms, 20);
    EXPECT_GT(simulation.no_rooms, 2);
    hits += simulation.hits;
    copies += simulation.copies;
    adopted += simulation.adopted;
    produced += simulation.produced;
    refused_opens += simulation.refused_opens;
    refused_extends += simulation.refused_extends;
    moved_out += simulation.moved_out;
    moved_in += simulation.moved_in;
  }
  if (setup.host_slots.empty()) {
    EXPECT_EQ(moved_out + moved_in, 0);
  } else {
    EXPECT_GT(moved_out, 500);
    EXPECT_GT(moved_in, 50);
  }
  testing::Test::RecordProperty("hits", std::to_string(hits));
  if (expect_hits) {
    EXPECT_GT(hits, 400);
    EXPECT_GT(copies, 200);
    EXPECT_GT(adopted, 50);
    if (setup.reserving > 0) {
      EXPECT_GT(refused_opens, 20);
    }
    if (setup.reserving < 4) {
      EXPECT_GT(refused_extends, 20);
    }
    EXPECT_GT(produced, setup.host_slots.empty() ? 20 : 5);
  } else {
    EXPECT_EQ(hits, 0);
    EXPECT_EQ(adopted, 0);
  }
}

TEST(KvCacheModelTest, FullGroup) {
  RunMany({.groups = {Full(4)}, .blocks = {45}}, 1, true);
  RunMany({.groups = {Full(4)}, .blocks = {45}, .forks = false}, 11, true);
}

TEST(KvCacheModelTest, WindowGroup) {
  RunMany({.groups = {Window(4, 6)}, .blocks = {17}}, 21, true);
  RunMany({.groups = {Window(4, 17)}, .blocks = {23}, .forks = false}, 31, true);
}

TEST(KvCacheModelTest, FullAndWindowGroupsOfDifferentWindowsAndBlocks) {
  const ModelSetup setup{.groups = {Full(4), Window(4, 6), Window(8, 20), Window(2, 1)},
                         .blocks = {45, 18, 14, 30}};
  RunMany(setup, 41, true);
  ModelSetup alone = setup;
  alone.forks = false;
  RunMany(alone, 51, true);
}

TEST(KvCacheModelTest, EverybodyReservesOrNobody) {
  ModelSetup setup{.groups = {Full(4), Window(4, 9)}, .blocks = {60, 30}, .reserving = 4};
  RunMany(setup, 61, true);
  setup.reserving = 0;
  setup.blocks = {40, 16};
  RunMany(setup, 71, true);
}

TEST(KvCacheModelTest, HostTier) {
  for (const int64_t slots : {3, 20, 400}) {
    SCOPED_TRACE(testing::Message() << slots << " slots");
    RunMany({.groups = {Full(4)}, .blocks = {45}, .host_slots = {slots}}, 91, true);
    RunMany({.groups = {Window(4, 6)}, .blocks = {17}, .host_slots = {slots}}, 101, true);
  }
}

TEST(KvCacheModelTest, HostTierOfSeveralGroups) {
  ModelSetup setup{.groups = {Full(4), Window(4, 6), Window(8, 20), Window(2, 1)},
                   .blocks = {45, 18, 14, 30},
                   .host_slots = {3, 5, 2, 4},
                   .retention = true};
  RunMany(setup, 111, true);
  setup.host_slots = {400, 400, 400, 400};
  setup.reserving = 0;
  setup.forks = false;
  RunMany(setup, 121, true);
  setup.host_slots = {20, 10, 10, 20};
  setup.reserving = 4;
  setup.blocks = {60, 30, 20, 40};
  RunMany(setup, 131, true);
}

TEST(KvCacheModelTest, WithoutCache) {
  RunMany({.groups = {Full(4), Window(4, 6)}, .blocks = {45, 17}, .cache = false}, 81, false);
}

}  // namespace
}  // namespace slipstream::kv
