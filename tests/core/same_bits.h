#pragma once

#include "pellucid/ops.h"

namespace pellucid {

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.equal(b);
}

}  // namespace pellucid
