// Strips of columns, each with all sweeps: a row stays in registers from one rotation to the next.
#include "kernels/rotations.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/isa.h"
#include "kernels/wide.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kStrip = 4;  // vectors of a row that stay in registers

}  // namespace

template <class T> struct Rotations<T>::Strip {
  /// kCount vectors of each row of x.
  template <Isa I, int64_t kCount>
  __attribute__((always_inline)) static void rotate(const Rotations& all, Wide<T, I>* x) {
    using V = Wide<T, I>;
    const int64_t stride = all.stride_ / kWide<T, I>;
    for (int64_t i = 0; i < all.sweep_count_; ++i) {
      const Sweep& sweep = all.sweeps_[i];
      const int64_t end = i + 1 < all.sweep_count_ ? all.sweeps_[i + 1].begin : all.turn_count_;
      const int64_t step = sweep.step * stride;
      V* row = x + sweep.first * stride;
      V held[kCount];
      for (int64_t j = 0; j < kCount; ++j) held[j] = row[j];
      for (int64_t k = sweep.begin; k < end; ++k) {
        const T c = all.turns_[k].c, s = all.turns_[k].s;
        V* const next = row + step;
        for (int64_t j = 0; j < kCount; ++j) {
          const V below = next[j];
          row[j] = c * held[j] + s * below;
          held[j] = c * below - s * held[j];
        }
        row = next;
      }
      for (int64_t j = 0; j < kCount; ++j) row[j] = held[j];
    }
  }
  /// Columns [first * kLine<T>, last * kLine<T>).
  template <Isa I>
  __attribute__((always_inline)) static void run(const Rotations& all, int64_t first,
                                                 int64_t last) {
    constexpr int64_t kVectors = kLine<T> / kWide<T, I>;
    auto* const x = reinterpret_cast<Wide<T, I>*>(all.x_);
    first *= kVectors, last *= kVectors;
    for (; first + kStrip <= last; first += kStrip) rotate<I, kStrip>(all, x + first);
    for (; first < last; ++first) rotate<I, 1>(all, x + first);
  }
};

template <class T>
Rotations<T>::Rotations(T* x, int64_t rows, int64_t stride)
    : x_(x),
      stride_(stride),
      most_turns_(kLongSweeps * rows),
      memory_(x == nullptr ? 0
                           : kMostSweeps * static_cast<int64_t>(sizeof(Sweep)) +
                                 (most_turns_ + rows) * static_cast<int64_t>(sizeof(Pair))),
      sweeps_(memory_.template as<Sweep>()),
      turns_(x == nullptr ? nullptr : reinterpret_cast<Pair*>(sweeps_ + kMostSweeps)) {}

template <class T> void Rotations<T>::apply() {
  if (turn_count_ == 0) return;
  const auto loop = IsaLoops<Strip, const Rotations&, int64_t, int64_t>::at(isa());
  constexpr int64_t kLines = 4000;  // that are worth a thread's while
  const int64_t strips = kLines / turn_count_ / kStrip + 1;
  parallel_for(0, stride_ / kLine<T>, strips * kStrip,
               [&](int64_t first, int64_t last) { loop(*this, first, last); });
  turn_count_ = sweep_count_ = 0;
}

template class Rotations<float>;
template class Rotations<double>;

}  // namespace pellucid::kernels
