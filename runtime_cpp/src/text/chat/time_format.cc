// strftime in the C locale: not the C library's, whose answer depends on the process' locale.
#include <array>
#include <string>

#include "text/chat/runtime.h"

namespace slipstream::text::chat {
namespace {

constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};

std::string Padded(int value, size_t width, char fill = '0') {
  std::string digits = std::to_string(value);
  if (digits.size() < width) digits.insert(0, width - digits.size(), fill);
  return digits;
}

}  // namespace

std::string FormatTime(const std::string& layout, const std::tm& time) {
  const std::string_view day = kDays[static_cast<size_t>(time.tm_wday) % 7];
  const std::string_view month = kMonths[static_cast<size_t>(time.tm_mon) % 12];
  const int hour12 = time.tm_hour % 12 == 0 ? 12 : time.tm_hour % 12;
  std::string out;
  for (size_t i = 0; i < layout.size(); ++i) {
    if (layout[i] != '%' || i + 1 == layout.size()) {
      out.push_back(layout[i]);
      continue;
    }
    char code = layout[++i];
    const bool unpadded = code == '-' && i + 1 < layout.size();
    if (unpadded) code = layout[++i];
    const size_t two = unpadded ? 1 : 2;
    switch (code) {
      case 'Y':
        out += std::to_string(time.tm_year + 1900);
        break;
      case 'y':
        out += Padded((time.tm_year + 1900) % 100, two);
        break;
      case 'm':
        out += Padded(time.tm_mon + 1, two);
        break;
      case 'd':
        out += Padded(time.tm_mday, two);
        break;
      case 'e':
        out += Padded(time.tm_mday, two, ' ');
        break;
      case 'H':
        out += Padded(time.tm_hour, two);
        break;
      case 'I':
        out += Padded(hour12, two);
        break;
      case 'M':
        out += Padded(time.tm_min, two);
        break;
      case 'S':
        out += Padded(time.tm_sec, two);
        break;
      case 'j':
        out += Padded(time.tm_yday + 1, unpadded ? 1 : 3);
        break;
      case 'p':
        out += time.tm_hour < 12 ? "AM" : "PM";
        break;
      case 'w':
        out += std::to_string(time.tm_wday);
        break;
      case 'u':
        out += std::to_string(time.tm_wday == 0 ? 7 : time.tm_wday);
        break;
      case 'a':
        out += day.substr(0, 3);
        break;
      case 'A':
        out += day;
        break;
      case 'b':
      case 'h':
        out += month.substr(0, 3);
        break;
      case 'B':
        out += month;
        break;
      case 'F':
        out += FormatTime("%Y-%m-%d", time);
        break;
      case 'D':
      case 'x':
        out += FormatTime("%m/%d/%y", time);
        break;
      case 'T':
      case 'X':
        out += FormatTime("%H:%M:%S", time);
        break;
      case 'R':
        out += FormatTime("%H:%M", time);
        break;
      case 'c':
        out += FormatTime("%a %b %e %H:%M:%S %Y", time);
        break;
      case 'n':
        out.push_back('\n');
        break;
      case 't':
        out.push_back('\t');
        break;
      case '%':
        out.push_back('%');
        break;
      default:
        FailUnsupported(std::string("The date format %") + code);
    }
  }
  return out;
}

}  // namespace slipstream::text::chat
