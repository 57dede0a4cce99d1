// Random fills as pure functions of (seed, offset): Philox block `offset + b` gives elements 4b …
// 4b+3 of float32 and 16-bit fills, 2b and 2b+1 of float64 and integer fills. So any number of
// threads gives the same numbers. Reserving the blocks is the caller's task; blocks_for says how
// many. Outputs are contiguous.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "pellucid/dtype.h"

namespace pellucid::kernels {

/// Blocks that a fill of n elements of `type` spends; integers count as float64.
constexpr uint64_t blocks_for(DType type, int64_t n) {
  const bool wide = type == kFloat64 || !is_floating(type);
  return static_cast<uint64_t>(wide ? (n + 1) / 2 : (n + 3) / 4);
}
/// Blocks that bernoulli and dropout spend, whatever the type: a 24-bit uniform an element.
constexpr uint64_t mask_blocks_for(int64_t n) { return static_cast<uint64_t>((n + 3) / 4); }

/// Uniform in [low, high), of a floating type.
void random_uniform(DType type, void* out, int64_t n, PhiloxRange range, double low, double high);
/// Normal with the given mean and standard deviation.
void random_normal(DType type, void* out, int64_t n, PhiloxRange range, double mean,
                   double deviation);
/// Exponential with the given rate.
void random_exponential(DType type, void* out, int64_t n, PhiloxRange range, double rate);
/// Integers uniform in [low, high), of any type that holds them; high > low.
void random_integers(DType type, void* out, int64_t n, PhiloxRange range, int64_t low,
                     int64_t high);
/// 1 with probability p, else 0, of any type; mask_blocks_for(n) blocks.
void random_bernoulli(DType type, void* out, int64_t n, PhiloxRange range, double p);
/// The same with a probability for each element, of floating `p_type`.
void random_bernoulli(DType type, void* out, int64_t n, PhiloxRange range, DType p_type,
                      const void* p);
/// A permutation of 0 … n-1; spends blocks_for(kInt64, n).
void random_permutation(int64_t* out, int64_t n, PhiloxRange range);

/// y = x / (1 - p) with probability 1 - p, else 0. The same range gives the same mask, so backward
/// is the same call on dy.
void dropout(DType type, const void* x, void* y, int64_t n, PhiloxRange range, double p);

/// The first row of contiguous probabilities [rows, classes] that cannot be sampled from (negative
/// or non-finite values, a sum of 0, or fewer positive classes than samples when not replacing), or
/// -1.
int64_t first_bad_distribution(DType type, const void* p, int64_t rows, int64_t classes,
                               int64_t samples, bool replacement);
/// Blocks that random_multinomial spends.
constexpr uint64_t multinomial_blocks(int64_t rows, int64_t classes, int64_t samples,
                                      bool replacement) {
  return static_cast<uint64_t>(replacement ? rows * samples : rows * ((classes + 1) / 2));
}
/// Class indices [rows, samples] drawn with weights p.
void random_multinomial(DType type, const void* p, int64_t rows, int64_t classes, int64_t samples,
                        bool replacement, PhiloxRange range, int64_t* out);

}  // namespace pellucid::kernels
