// ChatTemplate.
#include "slipstream/chat.h"

#include <pybind11/stl.h>

#include <array>
#include <ctime>
#include <optional>
#include <string>

#include "bindings.h"

namespace slipstream::python {
namespace {

/// time.struct_time without the time zone: year, month, day, hour, minute, second, weekday (Monday
/// is 0), day of the year (from 1).
using LocalTime = std::array<int, 8>;

std::tm ToTm(const LocalTime& time) {
  std::tm out{};
  out.tm_year = time[0] - 1900;
  out.tm_mon = time[1] - 1;
  out.tm_mday = time[2];
  out.tm_hour = time[3];
  out.tm_min = time[4];
  out.tm_sec = time[5];
  out.tm_wday = (time[6] + 1) % 7;
  out.tm_yday = time[7] - 1;
  return out;
}

}  // namespace

void BindChat(py::module_& m) {
  py::class_<ChatTemplate>(m, "ChatTemplate",
                           "The Jinja subset of chat templates. Immutable and thread-safe.")
      .def_static(
          "parse",
          [](const std::string& source) {
            py::gil_scoped_release release;
            return Unwrap(ChatTemplate::Parse(source));
          },
          py::arg("source"))
      .def(
          "render",
          [](const ChatTemplate& self, const std::string& messages_json, bool add_generation_prompt,
             const std::string& tools_json, const std::string& documents_json,
             const std::string& variables_json, const std::optional<LocalTime>& now) {
            py::gil_scoped_release release;
            ChatOptions options;
            options.add_generation_prompt = add_generation_prompt;
            options.tools_json = tools_json;
            options.documents_json = documents_json;
            options.variables_json = variables_json;
            if (now) {
              options.clock = [time = ToTm(*now)] { return time; };
            }
            return Unwrap(self.Render(messages_json, options));
          },
          py::arg("messages_json"), py::kw_only(), py::arg("add_generation_prompt") = true,
          py::arg("tools_json") = "", py::arg("documents_json") = "",
          py::arg("variables_json") = "", py::arg("now") = py::none(),
          "The prompt of a conversation. `now`: the first eight fields of time.localtime().");
}

}  // namespace slipstream::python
