// Members of Tensor that are written with ops: conversions, new_*, the operators.
#include "core/generated_support.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"
#include "tensor/pending.h"

namespace pellucid {

// Conversions

Tensor Tensor::to(DType dtype, bool, bool copy, std::optional<MemoryFormat> format) const {
  const MemoryFormat asked = format.value_or(MemoryFormat::Preserve);
  if (dtype == this->dtype()) {
    if (!copy && (asked == MemoryFormat::Preserve || is_contiguous(asked))) return *this;
    return clone(asked);
  }
  return _to_copy(dtype, asked);
}

Tensor Tensor::to(const TensorOptions& options, bool non_blocking, bool copy) const {
  options.device().require_available("to");
  return to(options.dtype_opt().value_or(dtype()), non_blocking, copy, options.memory_format_opt());
}

namespace {
TensorOptions with_dtype_of(const Tensor& t, const TensorOptions& options) {
  return options.has_dtype() ? options : options.dtype(t.dtype());
}
}  // namespace

Tensor Tensor::new_zeros(IntArrayRef sizes, const TensorOptions& options) const {
  return zeros(sizes, with_dtype_of(*this, options));
}
Tensor Tensor::new_ones(IntArrayRef sizes, const TensorOptions& options) const {
  return ones(sizes, with_dtype_of(*this, options));
}
Tensor Tensor::new_empty(IntArrayRef sizes, const TensorOptions& options) const {
  return empty(sizes, with_dtype_of(*this, options));
}
Tensor Tensor::new_full(IntArrayRef sizes, const Scalar& value,
                        const TensorOptions& options) const {
  return full(sizes, value, with_dtype_of(*this, options));
}

// Assignments

namespace {
// An assignment to a temporary that nobody else sees is a mistake: the write would be lost.
void check_seen(const Tensor& t) {
  const detail::TensorImpl& impl = t.impl();
  if (t.use_count() > 1 || !impl.storage) return;
  const detail::Storage& storage = *impl.storage;
  if (storage.borrowed || storage.deleter || storage.pointer_given_out()) return;
  if (impl.base && impl.base.use_count() > 1) return;
  PELLUCID_CHECK(detail::holders(*impl.storage) > (impl.base ? 2u : 1u), ValueError,
                 "operator=: the tensor on the left ({}) is a temporary that nothing else sees, so "
                 "the write would be lost. An index with tensors gives a copy: use "
                 "x.index_put_({{indices}}, values) to write into x.",
                 describe(t));
}
}  // namespace

Tensor Tensor::operator=(const Tensor& values) && {
  check_seen(*this);
  return copy_(values);
}
Tensor Tensor::operator=(Tensor&& values) && {  // NOLINT(performance-noexcept-move-constructor)
  check_seen(*this);
  return copy_(values);
}
Tensor Tensor::operator=(const Scalar& value) && {
  check_seen(*this);
  return fill_(value);
}

// Operators

Tensor Tensor::operator-() const { return neg(); }
Tensor Tensor::operator~() const { return bitwise_not(); }
const Tensor& Tensor::operator+=(const Tensor& o) const { return add_(o); }
const Tensor& Tensor::operator+=(const Scalar& o) const { return add_(o); }
const Tensor& Tensor::operator-=(const Tensor& o) const { return sub_(o); }
const Tensor& Tensor::operator-=(const Scalar& o) const { return sub_(o); }
const Tensor& Tensor::operator*=(const Tensor& o) const { return mul_(o); }
const Tensor& Tensor::operator*=(const Scalar& o) const { return mul_(o); }
const Tensor& Tensor::operator/=(const Tensor& o) const { return div_(o); }
const Tensor& Tensor::operator/=(const Scalar& o) const { return div_(o); }

#define PELLUCID_TENSOR_OPERATOR(symbol, op)                                                    \
  Tensor operator symbol(const Tensor& a, const Tensor& b) { return op(a, b); }                 \
  Tensor operator symbol(const Tensor& a, const Scalar& b) { return op(a, wrapped_number(b)); } \
  Tensor operator symbol(const Scalar& a, const Tensor& b) { return op(wrapped_number(a), b); }

PELLUCID_TENSOR_OPERATOR(+, add)
PELLUCID_TENSOR_OPERATOR(-, sub)
PELLUCID_TENSOR_OPERATOR(*, mul)
PELLUCID_TENSOR_OPERATOR(/, div)
PELLUCID_TENSOR_OPERATOR(%, remainder)
PELLUCID_TENSOR_OPERATOR(==, eq)
PELLUCID_TENSOR_OPERATOR(!=, ne)
PELLUCID_TENSOR_OPERATOR(<, lt)
PELLUCID_TENSOR_OPERATOR(<=, le)
PELLUCID_TENSOR_OPERATOR(>, gt)
PELLUCID_TENSOR_OPERATOR(>=, ge)
PELLUCID_TENSOR_OPERATOR(&, bitwise_and)
PELLUCID_TENSOR_OPERATOR(|, bitwise_or)
PELLUCID_TENSOR_OPERATOR(^, bitwise_xor)
#undef PELLUCID_TENSOR_OPERATOR

Tensor operator!(const Tensor& a) { return logical_not(a); }

}  // namespace pellucid
