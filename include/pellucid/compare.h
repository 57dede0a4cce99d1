// Comparisons of whole tensors that answer with one bool. Elementwise ones (eq, isclose…) are ops.
#pragma once

#include "pellucid/tensor.h"

namespace pellucid {

/// Whether sizes and all elements are equal; NaN equals nothing.
PELLUCID_API bool equal(const Tensor& self, const Tensor& other);
/// Whether isclose holds for every element.
PELLUCID_API bool allclose(const Tensor& self, const Tensor& other, double rtol = 1e-05,
                           double atol = 1e-08, bool equal_nan = false);
template <detail::Mistaken<double> T, class... Rest>
bool allclose(const Tensor& self, const Tensor& other, T rtol, Rest...) = delete;
template <detail::Mistaken<double> T>
bool allclose(const Tensor& self, const Tensor& other, double rtol, T atol,
              bool equal_nan = false) = delete;

}  // namespace pellucid
