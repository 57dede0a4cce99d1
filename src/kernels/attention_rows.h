// The loops over one tile of attention's scores, compiled for each ISA level: masks, the running
// softmax, dropout and the gradient of softmax. Rows of a tile are padded to whole groups of lanes
// with -infinity. Sums run in a fixed number of lanes, so they do not depend on the level's
// vectors. Used by attention.cpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/philox.h"
#include "kernels/isa.h"
#include "kernels/lane.h"
#include "kernels/lane_halves.h"
#include "kernels/math.h"

namespace pellucid::kernels::attention {

inline constexpr int kLanes = 16;  // of a sum; rows are padded to a multiple

/// A tile of scores [rows, columns] at (row, column) of one head.
template <class T> struct TileView {
  T* data;
  int64_t rows, columns, stride;  // stride: the padded columns
  int64_t row, column;            // of the whole matrix
};

/// What a tile's rows need of the mask: pointers to its first element, or null.
template <class T> struct MaskView {
  const T* additive;
  const bool* boolean;
  int64_t row_stride, column_stride;
  bool causal;
};

template <class T> inline constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();

/// exp(x) for NaN and for x <= 0, but for rounding: one scaling by 2^n is enough, and results below
/// the least normal number are 0.
template <class V> [[gnu::always_inline]] inline V exp_nonpositive(V x) {
  const V least = detail::constant<V>(-87.0, -708.0);
  const auto e = detail::reduce_exp(max(least, x));
  const V y = detail::pow2_shifted(e.shifted);
  return select(x < least, V(0), fma(y, detail::expm1_poly(e.r), y));
}

/// Adds the masks and pads rows with -infinity.
template <class T> struct MaskRows {
  template <Isa level>
  [[gnu::always_inline]] static void run(const TileView<T>& s, const MaskView<T>& m) {
    for (int64_t i = 0; i < s.rows; ++i) {
      T* const row = s.data + i * s.stride;
      if (m.additive != nullptr) {
        const T* const add = m.additive + i * m.row_stride;
        if (m.column_stride == 1) {
          for (int64_t j = 0; j < s.columns; ++j) row[j] += add[j];
        } else {
          for (int64_t j = 0; j < s.columns; ++j) row[j] += add[j * m.column_stride];
        }
      }
      if (m.boolean != nullptr) {
        const bool* const keep = m.boolean + i * m.row_stride;
        for (int64_t j = 0; j < s.columns; ++j)
          row[j] = keep[j * m.column_stride] ? row[j] : kMinusInfinity<T>;
      }
      int64_t end = s.columns;
      if (m.causal && s.row + i + 1 < s.column + end)
        end = s.row + i + 1 > s.column ? s.row + i + 1 - s.column : 0;
      for (int64_t j = end; j < s.stride; ++j) row[j] = kMinusInfinity<T>;
    }
  }
};

/// One step of the running softmax: scores become exp(score - max); max and sum of each row are
/// updated, and correction[i] is what earlier results must be multiplied with.
template <class T> struct SoftmaxRows {
  template <Isa level>
  [[gnu::always_inline]] static void run(const TileView<T>& s, T* max_so_far, T* sum_so_far,
                                         T* correction) {
    using V = Lane<T, level>;
    for (int64_t i = 0; i < s.rows; ++i) {
      T* const row = s.data + i * s.stride;
      // A vector type, because the compiler turns an array of lanes into scalars here.
      typedef T Lanes
          __attribute__((vector_size(kLanes * sizeof(T)), aligned(alignof(T)), may_alias));
      Lanes best = *reinterpret_cast<const Lanes*>(row);
      for (int64_t j = kLanes; j < s.stride; j += kLanes) {
        const Lanes x = *reinterpret_cast<const Lanes*>(row + j);
        best = x > best ? x : best;
      }
      T lanes[kLanes];
      for (int l = 0; l < kLanes; ++l) lanes[l] = best[l];
      const T found = max_halves<kLanes / 2>(lanes);
      const T top = found > max_so_far[i] ? found : max_so_far[i];
      // Nothing seen yet: any shift does, and 0 lets NaN through.
      const T shift = top == kMinusInfinity<T> ? T(0) : top;
      T sum[kLanes] = {};
      for (int64_t j = 0; j < s.stride; j += kLanes)
        for (int l = 0; l < kLanes; ++l) {
          const T p = exp_nonpositive(V(row[j + l] - shift)).v;
          row[j + l] = p;
          sum[l] += p;
        }
      const T factor = max_so_far[i] == kMinusInfinity<T> ? T(0) : exp(V(max_so_far[i] - shift)).v;
      correction[i] = factor;
      sum_so_far[i] = sum_so_far[i] * factor + sum_halves<kLanes / 2>(sum);
      max_so_far[i] = top;
    }
  }
};

/// Scores become weights: exp(score - logsumexp).
template <class T> struct WeightRows {
  template <Isa level>
  [[gnu::always_inline]] static void run(const TileView<T>& s, const T* logsumexp) {
    using V = Lane<T, level>;
    for (int64_t i = 0; i < s.rows; ++i) {
      T* const row = s.data + i * s.stride;
      const T shift = logsumexp[i];
      for (int64_t j = 0; j < s.stride; ++j) row[j] = exp_nonpositive(V(row[j] - shift)).v;
    }
  }
};

/// out = weights where the element is kept, times 1 / (1 - p), else 0; `first` is the tile's first
/// row of the whole [B H T] and `counters` the Philox blocks of a row.
template <class T> struct DropoutRows {
  template <Isa level>
  [[gnu::always_inline]] static void run(const TileView<T>& s, T* out, uint64_t seed,
                                         uint64_t offset, int64_t first, int64_t counters,
                                         double probability) {
    const auto limit = static_cast<float>(probability);
    const T scale = static_cast<T>(1 / (1 - probability));
    for (int64_t i = 0; i < s.rows; ++i) {
      // Tiles begin at multiples of 4 columns, and their padding is 0 already.
      const uint64_t counter =
          offset + static_cast<uint64_t>((first + i) * counters + s.column / 4);
      for (int64_t j = 0; j < s.stride; j += 4) {
        const PhiloxBlock bits = philox4x32(seed, counter + static_cast<uint64_t>(j / 4));
        for (int l = 0; l < 4; ++l) {
          const T w = s.data[i * s.stride + j + l];
          out[i * s.stride + j + l] =
              uniform_float(bits[static_cast<size_t>(l)]) >= limit ? w * scale : T(0);
        }
      }
    }
  }
};

/// grad becomes the scores' gradient: weights * (grad - delta), where dropped elements have grad 0.
/// `dropped` is null without dropout.
template <class T> struct GradientRows {
  template <Isa level>
  [[gnu::always_inline]] static void run(const TileView<T>& weights, const T* dropped, T* grad,
                                         const T* delta, T keep_scale) {
    const int64_t n = weights.columns;
    for (int64_t i = 0; i < weights.rows; ++i) {
      const T* const w = weights.data + i * weights.stride;
      T* const g = grad + i * weights.stride;
      const T d = delta[i];
      if (dropped == nullptr) {
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j) g[j] = w[j] * (g[j] - d);
      } else {
        // A weight that underflowed to 0 looks dropped; its gradient is 0 either way.
        const T* const kept = dropped + i * weights.stride;
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j)
          g[j] = w[j] * ((kept[j] != T(0) ? g[j] * keep_scale : T(0)) - d);
      }
    }
  }
};

}  // namespace pellucid::kernels::attention
