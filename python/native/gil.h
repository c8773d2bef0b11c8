// How the bindings give up the GIL, so that the end of the interpreter can wait for them.
//
// A thread that asks for the GIL after the interpreter has gone is killed by CPython where it
// stands; C++ frames do not survive that. So every region without the GIL is counted, the exit
// handler waits for the count to reach zero, and from then on the bindings keep the GIL: what they
// call has been shut down and no longer waits.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>

namespace slipstream::python {

/// True once the interpreter is going down: no thread but the main one may ask for the GIL any
/// more. Set with the GIL.
extern std::atomic<bool> interpreter_closing;

/// Threads inside a ReleaseGil. It grows only with the GIL held.
extern std::atomic<int> regions_without_gil;

/// Gives the GIL up until the end of the scope. Requires the GIL.
class ReleaseGil {
 public:
  ReleaseGil() {
    if (interpreter_closing) return;
    ++regions_without_gil;
    state_ = PyEval_SaveThread();
  }
  ~ReleaseGil() {
    if (state_ == nullptr) return;
    PyEval_RestoreThread(state_);
    --regions_without_gil;  // after the GIL was taken again
  }
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

}  // namespace slipstream::python
