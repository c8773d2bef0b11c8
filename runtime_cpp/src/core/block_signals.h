// Keeps the host's signals away from our threads.
#pragma once

#include <signal.h>

namespace slipstream::core {

/// Blocks every signal of the calling thread for its lifetime: threads started meanwhile inherit
/// that, so that the host's handlers (Ctrl-C in Python) keep running on the host's own threads.
class ScopedBlockSignals {
 public:
  ScopedBlockSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved_);
  }
  ~ScopedBlockSignals() { pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }
  ScopedBlockSignals(const ScopedBlockSignals&) = delete;
  ScopedBlockSignals& operator=(const ScopedBlockSignals&) = delete;

 private:
  sigset_t saved_;
};

}  // namespace slipstream::core
