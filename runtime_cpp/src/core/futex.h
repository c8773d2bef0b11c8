// Waiting for an atomic word to change: a bounded spin, then sleep in the kernel.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

namespace slipstream::core {

/// One word that threads wait on, with the count of those asleep, so that a change costs a system
/// call only if one sleeps. Alone on its cache line: the word is spun on.
class alignas(64) WaitWord {
 public:
  uint32_t Load() const { return word_.load(std::memory_order_acquire); }

  /// Publishes `value` (and everything written before) and wakes the sleepers.
  void Store(uint32_t value) {
    // seq_cst here and in Wait: either the sleeper sees the new value, or we see the sleeper.
    word_.store(value, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) Syscall(FUTEX_WAKE_PRIVATE, INT_MAX);
  }

  /// Returns the word once it differs from `old`: spins at most `spin` (0: not at all), then
  /// sleeps.
  uint32_t Wait(uint32_t old, std::chrono::nanoseconds spin) {
    uint32_t value = Load();
    if (value != old) return value;
    if (spin > std::chrono::nanoseconds::zero()) {
      const auto deadline = std::chrono::steady_clock::now() + spin;
      do {
        for (int i = 0; i < kPausesPerClockRead; ++i) {
          if ((value = Load()) != old) return value;
          __builtin_ia32_pause();
        }
      } while (std::chrono::steady_clock::now() < deadline);
    }
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    while ((value = word_.load(std::memory_order_seq_cst)) == old) Syscall(FUTEX_WAIT_PRIVATE, old);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    return value;
  }

 private:
  // A pause takes 10 to 140 cycles by CPU, so time is bounded by the clock, and the clock is read
  // now and then.
  static constexpr int kPausesPerClockRead = 16;

  void Syscall(int operation, uint32_t value) {
    static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
    // Any failure (EAGAIN, EINTR) only means "look again", which every caller does.
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word_), operation, value, nullptr, nullptr, 0);
  }

  std::atomic<uint32_t> word_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace slipstream::core
