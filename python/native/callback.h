// A Python callable as a ResponseCallback, and what must hold when the interpreter goes down under
// it.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>

#include "slipstream/executor.h"

namespace slipstream::python {

/// True once the interpreter is going down: from then on no other thread may ask for the GIL.
extern std::atomic<bool> interpreter_closing;

/// Takes the GIL once per call. A callable that raises reports through sys.unraisablehook and ends
/// its own request with an error (the executor's rule for callbacks that throw); the loop goes on.
/// Requires the GIL.
ResponseCallback MakeCallback(pybind11::function callable);

}  // namespace slipstream::python
