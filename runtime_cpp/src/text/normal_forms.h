// Unicode normal forms, as Hugging Face `tokenizers` computes them. Pure functions.
#pragma once

#include <string>

namespace slipstream::text {

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

/// Puts `text` (valid UTF-8) into the form.
void ToNormalForm(NormalForm form, std::string* text);

}  // namespace slipstream::text
