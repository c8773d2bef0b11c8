// ChatTemplate.
#include "slipstream/chat.h"

#include <pybind11/stl.h>

#include <optional>
#include <string>

#include "bindings.h"
#include "chat_options.h"

namespace slipstream::python {

void BindChat(py::module_& m) {
  py::class_<ChatTemplate>(m, "ChatTemplate",
                           "The Jinja subset of chat templates. Immutable and thread-safe.")
      .def_static(
          "parse",
          [](const std::string& source) {
            ReleaseGil release;
            return Unwrap(ChatTemplate::Parse(source));
          },
          py::arg("source"))
      .def(
          "render",
          [](const ChatTemplate& self, const std::string& messages_json, bool add_generation_prompt,
             const std::string& tools_json, const std::string& documents_json,
             const std::string& variables_json, const std::optional<LocalTime>& now) {
            ReleaseGil release;
            return Unwrap(
                self.Render(messages_json, MakeChatOptions(add_generation_prompt, tools_json,
                                                           documents_json, variables_json, now)));
          },
          py::arg("messages_json"), py::kw_only(), py::arg("add_generation_prompt") = true,
          py::arg("tools_json") = "", py::arg("documents_json") = "",
          py::arg("variables_json") = "", py::arg("now") = py::none(),
          "The prompt of a conversation. `now`: the first eight fields of time.localtime().");
}

}  // namespace slipstream::python
