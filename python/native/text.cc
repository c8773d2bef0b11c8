// Tokenizer and StreamDecoder.
#include "slipstream/text.h"

#include <pybind11/stl.h>

#include "bindings.h"

namespace slipstream::python {
namespace {

std::string TextOf(const char* name, py::handle value) {
  return ArgumentAs<std::string>(name, value, "a str of valid Unicode, or bytes that hold UTF-8");
}

TokenId IdOf(py::handle value) { return ArgumentAs<TokenId>("id", value, "an integer of 32 bits"); }

}  // namespace

void BindText(py::module_& m) {
  py::class_<Tokenizer>(
      m, "Tokenizer",
      "Text to token ids and back, as Hugging Face `tokenizers` does. Immutable and thread-safe.")
      .def_static(
          "from_json",
          [](const py::object& json) {
            const std::string text = TextOf("json", json);
            ReleaseGil release;
            return Unwrap(Tokenizer::FromJson(text));
          },
          py::arg("json"), "Parses the text of a tokenizer.json.")
      .def(
          "encode",
          [](const Tokenizer& self, const py::object& text, bool add_special_tokens,
             bool parse_special_tokens) {
            const std::string bytes = TextOf("text", text);
            ReleaseGil release;
            return Unwrap(self.Encode(bytes, {.add_special_tokens = add_special_tokens,
                                              .parse_special_tokens = parse_special_tokens}));
          },
          py::arg("text"), py::kw_only(), py::arg("add_special_tokens") = true,
          py::arg("parse_special_tokens") = true,
          "Token ids of `text` (str, or bytes that hold UTF-8).")
      .def(
          "decode",
          [](const Tokenizer& self, const py::object& ids, bool skip_special_tokens) {
            const auto tokens =
                ArgumentAs<std::vector<TokenId>>("ids", ids, "a list of integers of 32 bits");
            ReleaseGil release;
            return self.Decode(tokens, skip_special_tokens);
          },
          py::arg("ids"), py::kw_only(), py::arg("skip_special_tokens") = true,
          "Text of `ids`. Unknown ids give nothing; invalid bytes become U+FFFD.")
      .def_property_readonly("vocab_size", &Tokenizer::vocab_size,
                             "Highest id + 1, added tokens included.")
      .def(
          "id_to_token",
          [](const Tokenizer& self, const py::object& id) -> std::optional<std::string> {
            std::string token = self.IdToToken(IdOf(id));
            if (token.empty()) return std::nullopt;
            return token;
          },
          py::arg("id"), "The token's spelling in the vocabulary, or None.")
      .def(
          "token_to_id",
          [](const Tokenizer& self, const py::object& token) -> std::optional<TokenId> {
            TokenId id = self.TokenToId(TextOf("token", token));
            if (id < 0) return std::nullopt;
            return id;
          },
          py::arg("token"), "The id of a token of the vocabulary, or None.")
      .def(
          "is_special",
          [](const Tokenizer& self, const py::object& id) { return self.IsSpecial(IdOf(id)); },
          py::arg("id"));

  py::class_<StreamDecoder>(
      m, "StreamDecoder",
      "Turns a growing list of ids into pieces of valid text. One per sequence; not thread-safe.")
      .def(py::init<const Tokenizer&, bool>(), py::arg("tokenizer"), py::kw_only(),
           py::arg("skip_special_tokens") = true)
      .def(
          "push", [](StreamDecoder& self, const py::object& id) { return self.Push(IdOf(id)); },
          py::arg("id"), "The text that became certain with `id`; may be empty.")
      .def("flush", &StreamDecoder::Flush, "What is still held, at the end of the sequence.");
}

}  // namespace slipstream::python
