#include "sched/rank.h"

namespace slipstream::sched {

bool ServedBefore(const Rank& a, const Rank& b) {
  if (a.level != b.level) return a.level > b.level;
  if (a.deadline_us != b.deadline_us) return a.deadline_us < b.deadline_us;
  return a.arrival < b.arrival;
}

int64_t AgedLevel(int32_t priority, int64_t waited_us, int64_t ageing_us) {
  if (ageing_us <= 0 || waited_us <= 0) return priority;
  return priority + waited_us / ageing_us;
}

bool MayPreempt(const Rank& waiting, const Rank& running) {
  return waiting.priority > running.priority && waiting.level > running.level;
}

}  // namespace slipstream::sched
