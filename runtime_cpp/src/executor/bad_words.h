// Bad words as token sequences.
#pragma once

#include "slipstream/sampling.h"
#include "slipstream/status.h"
#include "slipstream/text.h"
#include "slipstream/types.h"

namespace slipstream::executor {

/// Appends the token sequences of `sampling->bad_words` to its bad_words_ids: each text as it is,
/// and with a space in front where that gives other tokens. kInvalidArgument for a text that gives
/// no tokens, or ids beyond `vocab_size`.
Status ResolveBadWords(const Tokenizer& tokenizer, int32_t vocab_size, SamplingParams* sampling);

}  // namespace slipstream::executor
