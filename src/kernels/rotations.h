// Rotations of neighbouring rows of a matrix, kept until there are many: then the matrix is read
// once for all of them, a strip of columns at a time.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/gemm_scratch.h"

namespace pellucid::kernels {

/// A plane rotation: (x, y) becomes (c x + s y, c y - s x).
struct Turn {
  double c, s;
};

/// The rotation that takes (f, g) to (r, 0).
inline Turn make_turn(double f, double g, double& r) {
  if (g == 0) return r = f, Turn{1, 0};
  if (f == 0) return r = g, Turn{0, 1};
  const double square = f * f + g * g;
  r = square > 1e-280 && square < 1e280 ? std::sqrt(square) : std::hypot(f, g);
  return {f / r, g / r};
}

/// Collects the rotations of sweeps, each of at most `rows` - 1, and applies them to the rows of x
/// [rows, stride], whose length and address are multiples of 64 bytes.
template <class T> class Rotations {
 public:
  /// A null x collects nothing.
  Rotations(T* x, int64_t rows, int64_t stride);

  /// Begins a sweep: its i-th rotation is of rows first + i * step and first + (i + 1) * step.
  void sweep(int64_t first, int64_t step) {
    if (x_ == nullptr) return;
    if (turn_count_ > most_turns_ || sweep_count_ == kMostSweeps) apply();
    sweeps_[sweep_count_++] = {first, step, turn_count_};
  }
  void add(Turn turn) {
    if (x_ != nullptr) turns_[turn_count_++] = {static_cast<T>(turn.c), static_cast<T>(turn.s)};
  }
  /// Applies what was collected.
  void apply();

 private:
  struct Pair {
    T c, s;
  };
  struct Sweep {
    int64_t first, step, begin;
  };
  struct Strip;
  static constexpr int64_t kLongSweeps = 48;  // so many of the whole length are applied together
  static constexpr int64_t kMostSweeps = 96;

  T* x_;
  int64_t stride_, most_turns_, turn_count_ = 0, sweep_count_ = 0;
  Scratch memory_;
  Sweep* sweeps_;
  Pair* turns_;
};

}  // namespace pellucid::kernels
