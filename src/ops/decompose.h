// What the ops of matrix decompositions share: checks, and a run over the matrices of a batch.
#pragma once

#include "base/parallel.h"
#include "kernels/decompose.h"
#include "ops/common.h"
#include "pellucid/autograd.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid {

/// The sizes before the last two.
inline IntArrayRef batch_sizes(const Tensor& t) { return t.sizes().slice(0, t.sizes().size() - 2); }

/// Matrices of float32 or float64; square if asked.
inline void check_matrices(const Call& c, const Tensor& t, std::string_view argument, bool square) {
  PELLUCID_CHECK(t.dim() >= 2, ShapeError,
                 "{}: {} must have at least 2 dimensions, found sizes {}.", c.name(), argument,
                 t.sizes());
  PELLUCID_CHECK(t.dtype() == kFloat32 || t.dtype() == kFloat64, TypeError,
                 "{}: {} must be float32 or float64, found {}. Convert it with to().", c.name(),
                 argument, t.dtype());
  PELLUCID_CHECK(!square || t.size(-1) == t.size(-2), ShapeError,
                 "{}: {} must be square matrices, found sizes {}.", c.name(), argument, t.sizes());
}

inline Tensor transposed(const Tensor& t) { return t.transpose(-2, -1); }

/// Samples: square matrices well away from singular.
inline Tensor sample_regular(IntArrayRef sizes) {
  return sample_randn(sizes) + eye(sizes.back(), kFloat64) * 4;
}

/// Calls f(i) for each matrix of a batch; `work` is about how many operations one takes.
template <class F> void for_each_matrix(int64_t count, double work, F&& f) {
  const auto grain = static_cast<int64_t>(std::max(1.0, 20000.0 / std::max(work, 1.0)));
  parallel_for(0, count, grain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) f(i);
  });
}

/// Calls f with a value of the type of `t`: f(float()) or f(double()).
template <class F> void by_type(const Tensor& t, F&& f) {
  if (t.dtype() == kFloat64)
    f(double());
  else
    f(float());
}

/// n n n times a factor for each matrix of input 0, and the bytes of one pass.
inline Cost cubic_cost(const Call& c, double factor) {
  const Tensor& a = c.in(0);
  const auto n = static_cast<double>(std::min(a.size(-1), a.size(-2)));
  return {factor * n * static_cast<double>(a.numel()), moved_bytes(c)};
}

}  // namespace pellucid
