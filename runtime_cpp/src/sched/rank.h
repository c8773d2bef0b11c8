// Who comes first: priority, then deadline, then arrival, with ageing so that nothing starves.
#pragma once

#include <cstdint>
#include <limits>

namespace slipstream::sched {

inline constexpr int64_t kNoDeadline = std::numeric_limits<int64_t>::max();

/// Where a request stands among the others. Times are microseconds of one steady clock.
struct Rank {
  int32_t priority = 0;               ///< As the request asks; higher first.
  int64_t level = 0;                  ///< The priority, raised by ageing while it waits: AgedLevel.
  int64_t deadline_us = kNoDeadline;  ///< When its first token is due; sooner first.
  uint64_t arrival = 0;               ///< Order of submission, unique.
};

/// True when `a` is served before `b`: higher level, then sooner deadline, then earlier arrival. A
/// strict total order over requests of distinct arrival.
bool ServedBefore(const Rank& a, const Rank& b);

/// One level more for every whole `ageing_us` that a request has waited: a request of any priority
/// is first in line after a bounded time, whatever arrives. ageing_us <= 0: no ageing.
int64_t AgedLevel(int32_t priority, int64_t waited_us, int64_t ageing_us);

/// True when `waiting` may take the place of `running`: it must be above it both in what the two
/// asked for and in level. So requests of one priority never push each other out, however long
/// they wait, and a request that starved until it ran is safe from those it outgrew.
bool MayPreempt(const Rank& waiting, const Rank& running);

}  // namespace slipstream::sched
