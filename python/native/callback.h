// Python callables as C++ ones, and what must hold when the interpreter goes down under them.
#pragma once

#include <pybind11/pybind11.h>

#include "slipstream/executor.h"
#include "slipstream/sampling.h"

namespace slipstream::python {

/// Takes the GIL once per call. A callable that raises reports through sys.unraisablehook and ends
/// its own request with an error (the executor's rule for callbacks that throw); the loop goes on.
/// Requires the GIL.
ResponseCallback MakeCallback(pybind11::function callable);

/// `callable(token_ids: list[int], logits: numpy float32 [vocab_size])` changes the row in place,
/// or returns one of that shape. Takes the GIL once per call. The array is the callable's own: it
/// may be kept. What the callable raises, or returns in another shape, ends its own request with an
/// error. Requires the GIL.
LogitsProcessor MakeLogitsProcessor(pybind11::function callable);

}  // namespace slipstream::python
