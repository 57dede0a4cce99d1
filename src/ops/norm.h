// What the normalisations share: checks of their parameters and the gradient of x_hat = (x - mean)
// rstd, written with ops.
#pragma once

#include "ops/common.h"
#include "ops/plain_gradient.h"

namespace pellucid {

/// The type of saved statistics: float64 for float64, else float32.
inline DType statistics_type(DType t) { return t == kFloat64 ? kFloat64 : kFloat32; }

/// Checks an optional parameter (weight, bias, running_mean…) of a normalisation.
inline void check_parameter(const Call& c, size_t i, std::string_view argument, IntArrayRef sizes,
                            std::optional<DType> dtype) {
  if (!c.has_in(i)) return;
  PELLUCID_CHECK(c.in(i).sizes() == sizes, ShapeError,
                 "{}: '{}' must have sizes {}, found {} (input {}).", c.name(), argument, sizes,
                 c.in(i).sizes(), c.in(0).sizes());
  PELLUCID_CHECK(!dtype || c.in(i).dtype() == *dtype, TypeError,
                 "{}: '{}' must have the input's dtype {}, found {}. Convert it with .to(dtype).",
                 c.name(), argument, *dtype, c.in(i).dtype());
}

/// The data of an optional contiguous tensor, or null.
inline const void* data_if(const Tensor& t) { return t.defined() ? t.raw_data() : nullptr; }
inline void* output_if(const Call& c, size_t k) {
  return c.out(k).defined() ? c.out(k).raw_data() : nullptr;
}
/// Input i row-major, or undefined.
inline Tensor contiguous_if(const Call& c, size_t i) {
  return c.has_in(i) ? contiguous_values(c.in(i)) : Tensor();
}

/// dx of y = x_hat w, given g = dy w: rstd (g - mean(g) - x_hat mean(g x_hat)) where x was centred,
/// without mean(g) otherwise.
inline Tensor plain_input_gradient(const Tensor& g, const Tensor& x_hat, const Tensor& rstd,
                                   IntArrayRef dims, bool centred) {
  const Tensor along = x_hat.mul(g.mul(x_hat).mean(dims, true));
  return rstd.mul((centred ? g.sub(g.mean(dims, true)) : g).sub(along));
}

}  // namespace pellucid
