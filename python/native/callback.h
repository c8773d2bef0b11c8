// A Python callable as a ResponseCallback, and what must hold when the interpreter goes down under
// it.
#pragma once

#include <pybind11/pybind11.h>

#include "slipstream/executor.h"

namespace slipstream::python {

/// Takes the GIL once per call. A callable that raises reports through sys.unraisablehook and ends
/// its own request with an error (the executor's rule for callbacks that throw); the loop goes on.
/// Requires the GIL.
ResponseCallback MakeCallback(pybind11::function callable);

}  // namespace slipstream::python
