// The build door: the weight layout and the hash of src/pack, for the builder. Everything works on
// buffers in place.
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "bindings.h"
#include "pack/hash.h"
#include "pack/n16k4.h"

namespace slipstream::python {
namespace {

/// A contiguous view of a Python buffer of any element type. Holds the buffer; create and destroy
/// it with the GIL.
class Bytes {
 public:
  Bytes(const py::buffer& object, const char* name, bool writable) {
    const int flags = (writable ? PyBUF_WRITABLE : 0) | PyBUF_C_CONTIGUOUS;
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) {
      PyErr_Clear();
      throw StatusError(
          {StatusCode::kInvalidArgument, std::string(name) + " must be a C-contiguous" +
                                             (writable ? ", writable" : "") +
                                             " buffer; make a contiguous copy of it first."});
    }
  }
  ~Bytes() { PyBuffer_Release(&view_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  std::span<std::byte> span() const {
    return {static_cast<std::byte*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_;
};

core::DType ParseDType(const std::string& name) {
  if (auto dtype = core::ParseDType(name)) return *dtype;
  throw StatusError({StatusCode::kInvalidArgument,
                     "dtype is '" + name.substr(0, 40) + "'; use f32, f16 or bf16."});
}

py::bytes ToBytes(const pack::Hash128& hash) {
  return py::bytes(reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size());
}

void Pack(const std::string& dtype, int64_t rows, int64_t k, const py::buffer& source,
          int64_t packed_row, const py::buffer& packed) {
  const core::DType type = ParseDType(dtype);
  Bytes from(source, "source", false);
  Bytes to(packed, "packed", true);
  ReleaseGil release;
  ThrowIfError(pack::PackN16K4(type, rows, k, from.span(), packed_row, to.span()));
}

void Unpack(const std::string& dtype, int64_t rows, int64_t k, const py::buffer& packed,
            int64_t packed_row, const py::buffer& target) {
  const core::DType type = ParseDType(dtype);
  Bytes from(packed, "packed", false);
  Bytes to(target, "target", true);
  ReleaseGil release;
  ThrowIfError(pack::UnpackN16K4(type, rows, k, from.span(), packed_row, to.span()));
}

py::bytes Hash(const py::buffer& data) {
  Bytes bytes(data, "data", false);
  pack::Hash128 hash;
  {
    ReleaseGil release;
    hash = pack::Xxh3_128(bytes.span());
  }
  return ToBytes(hash);
}

}  // namespace

void BindPack(py::module_& m) {
  py::module_ door = m.def_submodule(
      "pack", "Packed weights and hashes of the engine file; for the builder only.");
  door.def("xxh3_128", &Hash, py::arg("data"), "The 16 bytes of XXH3-128, big-endian, seed 0.");

  py::class_<pack::Xxh3Stream>(door, "Xxh3Stream", "XXH3-128 over data in pieces. Not thread-safe.")
      .def(py::init<>())
      .def(
          "update",
          [](pack::Xxh3Stream& self, const py::buffer& data) {
            Bytes bytes(data, "data", false);
            ReleaseGil release;
            self.Update(bytes.span());
          },
          py::arg("data"))
      .def("digest", [](const pack::Xxh3Stream& self) { return ToBytes(self.Digest()); })
      .def("hexdigest", [](const pack::Xxh3Stream& self) { return self.Digest().Hex(); });

  door.def(
      "n16k4_packed_rows",
      [](const std::vector<int64_t>& segment_rows) {
        return Unwrap(pack::N16K4PackedRows(segment_rows));
      },
      py::arg("segment_rows"), "Sum of the segments, each padded to whole blocks of 16 rows.");
  door.def(
      "n16k4_bytes",
      [](const std::string& dtype, int64_t packed_rows, int64_t k) {
        return Unwrap(pack::N16K4Bytes(ParseDType(dtype), packed_rows, k));
      },
      py::arg("dtype"), py::arg("packed_rows"), py::arg("k"), "Bytes of a packed matrix.");
  door.def("pack_n16k4", &Pack, py::arg("dtype"), py::arg("rows"), py::arg("k"), py::arg("source"),
           py::arg("packed_row"), py::arg("packed"),
           "Packs `rows` rows of a row-major [rows, k] buffer into `packed` from row `packed_row` "
           "(a multiple of 16) "
           "on; the rest of the last block becomes zeros.");
  door.def("unpack_n16k4", &Unpack, py::arg("dtype"), py::arg("rows"), py::arg("k"),
           py::arg("packed"), py::arg("packed_row"), py::arg("target"),
           "The inverse of pack_n16k4.");
}

}  // namespace slipstream::python
