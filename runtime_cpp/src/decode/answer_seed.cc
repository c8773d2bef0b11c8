#include "decode/philox.h"
#include "slipstream/sampling.h"

namespace slipstream {

uint64_t AnswerSeed(uint64_t seed, int32_t index) {
  if (index == 0) return seed;
  return decode::RandomBits(seed, static_cast<uint64_t>(index), decode::RandomPurpose::kAnswerSeed);
}

}  // namespace slipstream
