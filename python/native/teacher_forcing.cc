// The verification door: logits of given tokens, for the builder and for tests.
#include "executor/teacher_forcing.h"

#include <pybind11/stl.h>

#include <vector>

#include "bindings.h"

namespace slipstream::python {
namespace {

/// f32 [rows, vocab_size], read through the buffer protocol: numpy is not needed here.
struct Logits {
  std::vector<float> data;
  py::ssize_t rows;
  py::ssize_t vocab_size;
};

Logits Run(executor::TeacherForcing& self, const std::vector<TokenId>& tokens, int32_t chunk_tokens,
           int32_t vocab_size) {
  ReleaseGil release;
  std::vector<float> data = Unwrap(self.Logits(tokens, chunk_tokens));
  return {std::move(data), static_cast<py::ssize_t>(tokens.size()), vocab_size};
}

/// Binds the vocabulary size to the runner, so that a result knows its shape.
struct Runner {
  explicit Runner(const Model& model)
      : forcing(Unwrap(executor::TeacherForcing::Create(model))),
        vocab_size(model.engine().limits().vocab_size) {}
  executor::TeacherForcing forcing;
  int32_t vocab_size;
};

}  // namespace

void BindTeacherForcing(py::module_& m) {
  py::class_<Logits>(m, "Logits", py::buffer_protocol(),
                     "f32 [tokens, vocab_size] through the buffer protocol.")
      .def_buffer([](Logits& self) {
        return py::buffer_info(
            self.data.data(), {self.rows, self.vocab_size},
            {self.vocab_size * py::ssize_t{sizeof(float)}, py::ssize_t{sizeof(float)}},
            /*readonly=*/true);
      });
  py::class_<Runner>(m, "TeacherForcing",
                     "Logits after each of given tokens, by the same steps as generation. Owns a "
                     "KV cache of one sequence. Not thread-safe.")
      .def(py::init<const Model&>(), py::arg("model"))
      .def(
          "logits",
          [](Runner& self, const std::vector<TokenId>& tokens, int32_t chunk_tokens) {
            return Run(self.forcing, tokens, chunk_tokens, self.vocab_size);
          },
          py::arg("tokens"), py::arg("chunk_tokens"),
          "Starts a new sequence with each call; `chunk_tokens` rows are computed per step.");
}

}  // namespace slipstream::python
