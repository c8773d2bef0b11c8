// Status -> slipstream.errors.
#include "bindings.h"

namespace slipstream::python {
namespace {

constexpr int kStatusCodes = 11;

/// The class of each StatusCode, kept for the life of the process. Looked up once: raising must run
/// no Python code, in which this thread could lose the GIL while the interpreter goes down.
PyObject* error_classes[kStatusCodes];

void Raise(const Status& status) {
  // Messages quote user bytes (paths, keys), which need not be UTF-8.
  PyObject* message =
      PyUnicode_DecodeUTF8(status.message().data(),
                           static_cast<Py_ssize_t>(status.message().size()), "backslashreplace");
  if (message == nullptr) return;  // out of memory: that error is set
  PyErr_SetObject(error_classes[static_cast<int>(status.code())], message);
  Py_DECREF(message);
}

}  // namespace

void BindErrors(py::module_&) {
  py::object error_class = py::module_::import("slipstream.errors").attr("error_class");
  for (int code = 0; code < kStatusCodes; ++code)
    error_classes[code] = error_class(code).release().ptr();
  py::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const StatusError& error) {
      Raise(error.status());
    }
  });
}

}  // namespace slipstream::python
