// Philox blocks by the vector: the words of many consecutive counters, in order. The same bits as
// philox4x32 of base/philox.h, at the speed of the machine's widest multiplier.
#pragma once

#include <cstdint>

namespace pellucid::kernels {

/// words[4 b + k] = word k of Philox block first + b, for b < blocks.
void philox_words(uint64_t seed, uint64_t first, int64_t blocks, uint32_t* words);

}  // namespace pellucid::kernels
