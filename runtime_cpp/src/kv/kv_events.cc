#include "kv/kv_events.h"

#include <iterator>
#include <new>
#include <utility>

namespace slipstream::kv {

void EventLog::Record(KvEvent event) noexcept {
  if (!on()) return;
  if (static_cast<int64_t>(events_.size()) >= capacity_) {
    events_.pop_front();
    ++dropped_;
  }
  try {
    events_.push_back(std::move(event));
  } catch (const std::bad_alloc&) {
    ++dropped_;
  }
}

std::vector<KvEvent> EventLog::Take() {
  std::vector<KvEvent> taken;
  taken.reserve(events_.size());
  std::move(events_.begin(), events_.end(), std::back_inserter(taken));
  events_.clear();
  return taken;
}

}  // namespace slipstream::kv
