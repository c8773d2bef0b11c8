// Objects of one instruction set must hold no symbol that the linker may share with other objects:
// a weak function compiled with AVX-512 could be the copy that runs on every CPU.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>

namespace slipstream {
namespace {

std::string NmOf(const std::string& object) {
  const std::string command = "nm -C '" + object + "' 2>&1";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string out;
  std::array<char, 4096> buffer;
  while (pipe != nullptr && fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr)
    out += buffer.data();
  return out;
}

TEST(IsaObjects, ExportTheirTableAndNothingElse) {
  std::istringstream objects(SLIPSTREAM_ISA_OBJECTS);
  int seen = 0;
  for (std::string object; std::getline(objects, object, ':');) {
    if (object.find("/kernels_") == std::string::npos ||
        object.find("kernels_scalar") != std::string::npos)
      continue;
    ++seen;
    std::istringstream lines(NmOf(object));
    int exported = 0;
    for (std::string line; std::getline(lines, line);) {
      if (line.size() < 20) continue;
      const char kind = line[17];
      const std::string name = line.substr(19);
      if (name.rfind("__odr_asan", 0) == 0) continue;  // AddressSanitizer's mark of a global
      // W, V: weak; u: unique global; T, R, B, D: strong definitions.
      EXPECT_EQ(std::string("WVuvw").find(kind), std::string::npos)
          << object << ": weak symbol " << name;
      if (std::string("TRBD").find(kind) != std::string::npos) {
        ++exported;
        EXPECT_NE(name.find("Kernels"), std::string::npos) << object << " exports " << name;
      }
      if (kind == 'U') {
        EXPECT_TRUE(name == "fmaf" || name == "sqrtf" || name.rfind("mem", 0) == 0 ||
                    name.rfind("__stack", 0) == 0 || name.rfind("__asan", 0) == 0 ||
                    name.rfind("__ubsan", 0) == 0 || name.rfind("__tsan", 0) == 0 ||
                    name.rfind('_', 0) == 0)
            << object << " needs " << name;
      }
    }
    EXPECT_EQ(exported, 1) << object;
  }
  EXPECT_EQ(seen, 3) << "objects of emulated16, avx2 and avx512 in " << SLIPSTREAM_ISA_OBJECTS;
}

}  // namespace
}  // namespace slipstream
