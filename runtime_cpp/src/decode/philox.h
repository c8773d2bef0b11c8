// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011). It has no state: a draw is a function of (seed, position,
// purpose), so that a sequence that is resumed, recomputed or batched differently draws the same
// numbers.
#pragma once

#include <array>
#include <cstdint>

namespace slipstream::decode {

/// The block function: 128 bits of counter and 64 bits of key to 128 random bits.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// What a number is drawn for. Draws of different purposes at one position are independent. Values
/// are stable.
enum class RandomPurpose : uint32_t {
  kSampleToken = 0,
  kAnswerSeed = 1,  ///< The "position" is the answer's index.
};

/// 64 random bits for the token at an absolute position: key = seed (low word first), counter =
/// (position low, position high, purpose, 0), the first two output words, low word first.
uint64_t RandomBits(uint64_t seed, uint64_t position, RandomPurpose purpose);

/// Maps 64 random bits to [0, bound) by the high word of the product; bound >= 1. A value's
/// probability is off by less than 2^-64.
uint64_t ScaleToBound(uint64_t bits, uint64_t bound);

}  // namespace slipstream::decode
