// The extension module slipstream._native. Each part of the public API has its own file.
#include "bindings.h"

namespace slipstream::python {

PYBIND11_MODULE(_native, m) {
  m.doc() = "Native runtime of Slipstream. Use slipstream.LLM; this module is its foundation.";
  m.attr("__version__") = SLIPSTREAM_VERSION;
  BindErrors(m);
  BindText(m);
  BindChat(m);
  BindEngine(m);
  BindConfig(m);
  BindStats(m);
  BindKvCache(m);
  BindRequest(m);
  BindExecutor(m);
  BindPack(m);
  BindTeacherForcing(m);
}

}  // namespace slipstream::python
