// What the parts of the extension module share: their entry points, and how a Status becomes a
// Python exception.
#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <exception>
#include <string>
#include <utility>

#include "gil.h"
#include "slipstream/status.h"

namespace slipstream::python {

namespace py = pybind11;

/// A failed Status on its way to Python, where it becomes the subclass of
/// slipstream.errors.SlipstreamError of its code.
class StatusError : public std::exception {
 public:
  explicit StatusError(Status status) : status_(std::move(status)) {}
  const char* what() const noexcept override { return status_.message().c_str(); }
  const Status& status() const { return status_; }

 private:
  Status status_;
};

inline void ThrowIfError(const Status& status) {
  if (!status.ok()) throw StatusError(status);
}

template <class T>
T Unwrap(Result<T> result) {
  if (!result.ok()) throw StatusError(result.status());
  return *std::move(result);
}

/// `repr(value)` cut to 40 characters, for messages; of whatever class, it raises nothing.
inline std::string Shown(py::handle value) {
  return py::cast<std::string>(py::module_::import("slipstream._shown").attr("shown")(value));
}

/// An argument in its C++ form, or an InvalidArgumentError that names it: pybind11's own TypeError
/// lists signatures and the whole value instead.
template <class T>
T ArgumentAs(const char* name, py::handle value, const char* form) {
  try {
    return py::cast<T>(value);
  } catch (const py::cast_error&) {
    throw StatusError({StatusCode::kInvalidArgument,
                       std::string(name) + " is " + Shown(value) + "; it must be " + form + "."});
  }
}

/// Deleter for objects that own threads. A forked child has none of its parent's threads, so
/// joining them there would wait forever: the child leaks such an object instead.
template <class T>
struct SameProcessDelete {
  pid_t owner = getpid();
  void operator()(T* object) const {
    if (getpid() != owner) return;
    ReleaseGil release;  // the threads being joined may be waiting for the GIL
    delete object;
  }
};

void BindErrors(py::module_& m);
void BindText(py::module_& m);
void BindChat(py::module_& m);
void BindEngine(py::module_& m);
void BindConfig(py::module_& m);
void BindKvCache(py::module_& m);
void BindStats(py::module_& m);
void BindRequest(py::module_& m);
void BindExecutor(py::module_& m);
void BindPack(py::module_& m);
void BindTeacherForcing(py::module_& m);

}  // namespace slipstream::python
