#include "callback.h"

#include <memory>
#include <stdexcept>
#include <string>

#include "bindings.h"

namespace slipstream::python {

ResponseCallback MakeCallback(py::function callable) {
  // The executor drops its callback on its own thread, without the GIL. A callable that outlives
  // the interpreter is leaked: there is nobody left to free it.
  std::shared_ptr<py::function> shared(new py::function(std::move(callable)),
                                       [](py::function* function) {
                                         if (interpreter_closing) return;
                                         py::gil_scoped_acquire gil;
                                         delete function;
                                       });
  return [shared](const Response& response) {
    if (interpreter_closing) return;
    py::gil_scoped_acquire gil;
    try {
      (*shared)(py::cast(response, py::return_value_policy::copy));
    } catch (py::error_already_set& error) {
      std::string what = "The response callback raised ";
      what += py::cast<std::string>(error.type().attr("__name__"));
      what += ": ";
      what += py::cast<std::string>(py::str(error.value()));
      error.discard_as_unraisable("slipstream response callback");
      throw std::runtime_error(what);
    }
  };
}

}  // namespace slipstream::python
