// Status -> slipstream.errors.
#include "bindings.h"

namespace slipstream::python {
namespace {

/// Raises the exception class that slipstream.errors keeps for the code. If that module cannot be
/// imported (the interpreter is going down), RuntimeError carries the message.
void Raise(const Status& status) {
  try {
    py::object error_class = py::module_::import("slipstream.errors").attr("error_class");
    py::object type = error_class(static_cast<int>(status.code()));
    // Messages quote user bytes (paths, keys), which need not be UTF-8.
    PyObject* text =
        PyUnicode_DecodeUTF8(status.message().data(),
                             static_cast<Py_ssize_t>(status.message().size()), "backslashreplace");
    if (text == nullptr) throw py::error_already_set();
    py::object message = py::reinterpret_steal<py::object>(text);
    PyErr_SetObject(type.ptr(), message.ptr());
  } catch (py::error_already_set&) {
    PyErr_SetString(PyExc_RuntimeError, status.message().c_str());
  }
}

}  // namespace

void BindErrors(py::module_&) {
  py::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const StatusError& error) {
      Raise(error.status());
    }
  });
}

}  // namespace slipstream::python
