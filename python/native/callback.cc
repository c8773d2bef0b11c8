#include "callback.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"

namespace slipstream::python {

namespace {

// The executor copies and drops its callables on any thread, without the GIL. One that outlives the
// interpreter is leaked: there is nobody left to free it.
std::shared_ptr<py::function> Share(py::function callable) {
  return {new py::function(std::move(callable)), [](py::function* function) {
            if (interpreter_closing) return;
            py::gil_scoped_acquire gil;
            delete function;
          }};
}

// `type: text` of a Python exception.
std::string Describe(const py::error_already_set& error) {
  return py::cast<std::string>(error.type().attr("__name__")) + ": " +
         py::cast<std::string>(py::str(error.value()));
}

// Copies what a processor returned over the row.
void TakeRow(const py::object& returned, std::span<float> logits) {
  // A conversion to floats would drop the imaginary part with no more than a warning.
  const py::array given = py::array::ensure(returned);
  if (!given) PyErr_Clear();
  if (given && given.dtype().kind() == 'c') {
    throw std::runtime_error("it returned complex numbers; return real ones, such as .real");
  }
  const auto row = py::array_t<float, py::array::c_style | py::array::forcecast>::ensure(returned);
  if (!row) {
    PyErr_Clear();
    throw std::runtime_error("it returned a " +
                             py::cast<std::string>(py::type::of(returned).attr("__name__")) +
                             "; return None after writing in place, or an array of " +
                             std::to_string(logits.size()) + " floats");
  }
  if (row.ndim() != 1 || static_cast<size_t>(row.size()) != logits.size()) {
    throw std::runtime_error("it returned an array of shape " +
                             py::cast<std::string>(py::str(row.attr("shape"))) + "; expected (" +
                             std::to_string(logits.size()) + ",)");
  }
  std::copy_n(row.data(), logits.size(), logits.begin());
}

}  // namespace

ResponseCallback MakeCallback(py::function callable) {
  return [shared = Share(std::move(callable))](const Response& response) {
    if (interpreter_closing) return;
    py::gil_scoped_acquire gil;
    try {
      (*shared)(py::cast(response, py::return_value_policy::copy));
    } catch (py::error_already_set& error) {
      const std::string what = "The response callback raised " + Describe(error);
      error.discard_as_unraisable("slipstream response callback");
      throw std::runtime_error(what);
    }
  };
}

LogitsProcessor MakeLogitsProcessor(py::function callable) {
  return [shared = Share(std::move(callable))](std::span<const TokenId> tokens,
                                               std::span<float> logits) {
    if (interpreter_closing) throw std::runtime_error("the interpreter is exiting");
    py::gil_scoped_acquire gil;
    try {
      const py::array_t<float> row(static_cast<py::ssize_t>(logits.size()), logits.data());
      py::object changed = (*shared)(std::vector<TokenId>(tokens.begin(), tokens.end()), row);
      if (changed.is_none()) changed = row;
      TakeRow(changed, logits);
    } catch (const py::error_already_set& error) {
      throw std::runtime_error("Python raised " + Describe(error));
    }
  };
}

}  // namespace slipstream::python
