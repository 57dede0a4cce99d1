// TensorValue: the V with which a formula is evaluated as a composition of ops, so that it can be
// differentiated. Offers just what kernels/lane.h and kernels/math.h offer for lanes. Constants
// stay numbers until they meet a tensor, so that they are never rounded to the default dtype.
#pragma once

#include <cmath>

#include "core/generated_support.h"
#include "pellucid/ops.h"

namespace pellucid {

/// A tensor, or a number that takes part as a Python number would.
class TensorValue {
 public:
  TensorValue(Tensor t) : tensor_(std::move(t)) {}
  template <class N>
  requires std::is_arithmetic_v<N>
  explicit TensorValue(N constant) : number_(static_cast<double>(constant)) {}
  Tensor tensor() const { return is_number() ? wrapped_number(Scalar(number_)) : tensor_; }

  friend TensorValue operator+(const TensorValue& a, const TensorValue& b) {
    return numbers(a, b) ? TensorValue(a.number_ + b.number_) : add(a.tensor(), b.tensor());
  }
  friend TensorValue operator-(const TensorValue& a, const TensorValue& b) {
    return numbers(a, b) ? TensorValue(a.number_ - b.number_) : sub(a.tensor(), b.tensor());
  }
  friend TensorValue operator*(const TensorValue& a, const TensorValue& b) {
    return numbers(a, b) ? TensorValue(a.number_ * b.number_) : mul(a.tensor(), b.tensor());
  }
  friend TensorValue operator/(const TensorValue& a, const TensorValue& b) {
    return numbers(a, b) ? TensorValue(a.number_ / b.number_) : div(a.tensor(), b.tensor());
  }
  friend TensorValue operator-(const TensorValue& a) {
    return a.is_number() ? TensorValue(-a.number_) : neg(a.tensor_);
  }
  friend TensorValue operator<(const TensorValue& a, const TensorValue& b) {
    return mask(lt(a.tensor(), b.tensor()), a, b);
  }
  friend TensorValue operator<=(const TensorValue& a, const TensorValue& b) {
    return mask(le(a.tensor(), b.tensor()), a, b);
  }
  friend TensorValue operator>(const TensorValue& a, const TensorValue& b) {
    return mask(gt(a.tensor(), b.tensor()), a, b);
  }
  friend TensorValue operator>=(const TensorValue& a, const TensorValue& b) {
    return mask(ge(a.tensor(), b.tensor()), a, b);
  }
  friend TensorValue operator==(const TensorValue& a, const TensorValue& b) {
    return mask(eq(a.tensor(), b.tensor()), a, b);
  }
  friend TensorValue operator!=(const TensorValue& a, const TensorValue& b) {
    return mask(ne(a.tensor(), b.tensor()), a, b);
  }
  friend TensorValue operator&(const TensorValue& a, const TensorValue& b) {
    return mask(logical_and(a.tensor_, b.tensor_), a, b);
  }
  friend TensorValue operator|(const TensorValue& a, const TensorValue& b) {
    return mask(logical_or(a.tensor_, b.tensor_), a, b);
  }
  friend TensorValue operator!(const TensorValue& a) { return mask(logical_not(a.tensor_), a, a); }
  friend TensorValue select(const TensorValue& m, const TensorValue& a, const TensorValue& b) {
    if (!numbers(a, b)) return where(m.tensor_, a.tensor(), b.tensor());
    return where(m.tensor_, a.tensor().to(m.compared_), b.tensor().to(m.compared_));
  }
  friend TensorValue fma(const TensorValue& a, const TensorValue& b, const TensorValue& c) {
    return a * b + c;
  }

  friend TensorValue tanh_softplus(const TensorValue& a) {
    return pellucid::tanh(softplus(a.tensor_));
  }

#define PELLUCID_TENSOR_VALUE_UNARY(name) \
  friend TensorValue name(const TensorValue& a) { return pellucid::name(a.tensor_); }
  PELLUCID_TENSOR_VALUE_UNARY(exp)
  PELLUCID_TENSOR_VALUE_UNARY(expm1)
  PELLUCID_TENSOR_VALUE_UNARY(log)
  PELLUCID_TENSOR_VALUE_UNARY(log1p)
  PELLUCID_TENSOR_VALUE_UNARY(sqrt)
  PELLUCID_TENSOR_VALUE_UNARY(rsqrt)
  PELLUCID_TENSOR_VALUE_UNARY(reciprocal)
  PELLUCID_TENSOR_VALUE_UNARY(square)
  PELLUCID_TENSOR_VALUE_UNARY(sin)
  PELLUCID_TENSOR_VALUE_UNARY(cos)
  PELLUCID_TENSOR_VALUE_UNARY(tan)
  PELLUCID_TENSOR_VALUE_UNARY(sinh)
  PELLUCID_TENSOR_VALUE_UNARY(cosh)
  PELLUCID_TENSOR_VALUE_UNARY(tanh)
  PELLUCID_TENSOR_VALUE_UNARY(erf)
  PELLUCID_TENSOR_VALUE_UNARY(sigmoid)
  PELLUCID_TENSOR_VALUE_UNARY(abs)
#undef PELLUCID_TENSOR_VALUE_UNARY

 private:
  bool is_number() const { return !tensor_.defined(); }
  static bool numbers(const TensorValue& a, const TensorValue& b) {
    return a.is_number() && b.is_number();
  }
  /// A mask remembers what was compared, for a select between two numbers.
  static TensorValue mask(Tensor t, const TensorValue& a, const TensorValue& b) {
    TensorValue m(std::move(t));
    const TensorValue& from = a.is_number() ? b : a;
    m.compared_ = from.tensor_.dtype() == kBool ? from.compared_ : from.tensor_.dtype();
    return m;
  }

  Tensor tensor_;
  double number_ = 0;
  DType compared_ = kFloat32;
};

}  // namespace pellucid
