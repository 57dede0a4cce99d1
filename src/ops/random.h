// What the ops that draw random numbers share.
#pragma once

#include "ops/common.h"
#include "pellucid/ops.h"

namespace pellucid {

/// The numbers that belong to a call.
inline PhiloxRange range_of(const Call& c) { return {c.seed(), c.random_offset()}; }

inline void check_probability(const Call& c, double p) {
  PELLUCID_CHECK(p >= 0 && p <= 1, ValueError, "{}: p must be between 0 and 1, found {}.", c.name(),
                 p);
}

/// The gradient of what was drawn: it does not depend on the values that it replaced.
inline Tensors independent(const Vjp& v) {
  Tensors out(v.input_count());
  for (size_t i = 0; i < out.size(); ++i)
    if (v.needs(i)) out[i] = zeros(v.in_sizes(i), v.in_dtype(i));
  return out;
}

}  // namespace pellucid
