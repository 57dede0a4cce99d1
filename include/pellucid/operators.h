// The arithmetic and comparison operators of tensors and numbers, as libtorch has them: a + b, 2 *
// a, a < 0, a & b. a == b compares elements and gives a tensor; whole tensors are compared by
// equal().
#pragma once

#include "pellucid/tensor.h"

namespace pellucid {

#define PELLUCID_TENSOR_OPERATOR(symbol)                                 \
  PELLUCID_API Tensor operator symbol(const Tensor& a, const Tensor& b); \
  PELLUCID_API Tensor operator symbol(const Tensor& a, const Scalar& b); \
  PELLUCID_API Tensor operator symbol(const Scalar& a, const Tensor& b);

PELLUCID_TENSOR_OPERATOR(+)
PELLUCID_TENSOR_OPERATOR(-)
PELLUCID_TENSOR_OPERATOR(*)
PELLUCID_TENSOR_OPERATOR(/)
PELLUCID_TENSOR_OPERATOR(%)
PELLUCID_TENSOR_OPERATOR(==)
PELLUCID_TENSOR_OPERATOR(!=)
PELLUCID_TENSOR_OPERATOR(<)
PELLUCID_TENSOR_OPERATOR(<=)
PELLUCID_TENSOR_OPERATOR(>)
PELLUCID_TENSOR_OPERATOR(>=)
PELLUCID_TENSOR_OPERATOR(&)
PELLUCID_TENSOR_OPERATOR(|)
PELLUCID_TENSOR_OPERATOR(^)
#undef PELLUCID_TENSOR_OPERATOR

/// logical_not, element by element.
PELLUCID_API Tensor operator!(const Tensor& a);

}  // namespace pellucid
