#include "gil.h"

namespace slipstream::python {

std::atomic<bool> interpreter_closing{false};
std::atomic<int> regions_without_gil{0};

}  // namespace slipstream::python
