// How a loop over a shape visits several strided operands: dimensions of size 1 dropped, the rest
// in the memory order of the first operand and merged where every operand allows it. Internal to
// the pointwise driver and to copies; no data is touched here.
#pragma once

#include <cstdint>
#include <span>

#include "pellucid/array_ref.h"

namespace pellucid::kernels {

inline constexpr int kMaxDims = 64;
inline constexpr int kMaxOperands = 8;  // of one loop
inline constexpr int kMaxPlanned = 17;  // of a fused group (tiles.h)

/// Elements of work 1 from which a second thread gains more than fork and join cost.
inline constexpr double kParallelWork = 32768;

/// Bytes of a result from which it is written past the caches. Measured on a machine with 2 MB of
/// second-level cache a core: at 32 MB a result that is read again at once comes 1.2x sooner that
/// way, at 64 MB 1.4x, and one that is not 1.7x and 2x; at 16 MB the reader loses what the writer
/// gains.
inline constexpr int64_t kStreamBytes = int64_t{32} << 20;

/// Dimension 0 is the innermost; strides count elements.
struct IterationPlan {
  int dims = 0;
  int operands = 0;
  int64_t numel = 1;
  int64_t sizes[kMaxDims];
  int64_t strides[kMaxPlanned][kMaxDims];

  /// `strides` has one array per operand, each as long as the shape; the first is written to.
  IterationPlan(IntArrayRef shape, std::span<const int64_t* const> operand_strides);

  /// Whether operand k lies in memory in the order of the iteration, without gaps.
  bool linear(int k) const;
  /// The index of the element at a linear position, for dimensions 0 … dims - 1.
  void locate(int64_t position, int64_t* index) const;
  int64_t offset(int k, const int64_t* index) const {
    int64_t o = 0;
    for (int d = 0; d < dims; ++d) o += index[d] * strides[k][d];
    return o;
  }

 private:
  void order();
  void merge();
};

/// Copies a block of results to where nobody will look soon. Both begin a cache line; the thread
/// fences before others read.
void stream_block(char* to, const char* from, int64_t bytes);

/// Brings `count` elements of a strided operand, from an index of the plan on, into a dense block
/// (pointwise.cpp).
void gather_block(int64_t element, char* dense, const char* base, const IterationPlan& plan,
                  const int64_t* strides, const int64_t* start, int64_t count);

}  // namespace pellucid::kernels
