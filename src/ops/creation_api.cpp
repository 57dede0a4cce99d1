// tensor(…) from C++ values, from_blob over the program's memory, and the seed.
#include <algorithm>

#include "base/random.h"
#include "core/capture.h"
#include "ops/new_values.h"
#include "pellucid/creation.h"
#include "pellucid/ops.h"
#include "tensor/mode.h"
#include "tensor/phantom.h"

namespace pellucid {

namespace detail {

TensorDataContainer::TensorDataContainer(const void* values, size_t count, DType dtype)
    : dtype_(dtype), sizes_({static_cast<int64_t>(count)}) {
  values_ = new_values(sizes_, dtype);
  if (count && has_values(values_.impl()))
    std::copy_n(static_cast<const char*>(values), values_.nbytes(),
                static_cast<char*>(values_.raw_data()));
}

TensorDataContainer::TensorDataContainer(const std::vector<bool>& values)
    : dtype_(kBool), sizes_({static_cast<int64_t>(values.size())}) {
  values_ = new_values(sizes_, kBool);
  if (has_values(values_.impl())) std::copy(values.begin(), values.end(), values_.raw<bool>());
}

TensorDataContainer::TensorDataContainer(std::initializer_list<TensorDataContainer> list)
    : dtype_(get_default_dtype()), sizes_({static_cast<int64_t>(list.size())}), list_(list) {
  if (list_.empty()) return;
  dtype_ = list_[0].dtype_;
  for (int64_t n : list_[0].sizes_) sizes_.push_back(n);
  for (const TensorDataContainer& e : list_) {
    PELLUCID_CHECK(e.sizes_ == list_[0].sizes_, ShapeError,
                   "tensor: lists at one depth must have equal sizes, found {} and {}.",
                   list_[0].sizes_, e.sizes_);
    PELLUCID_CHECK(
        e.dtype_ == dtype_, TypeError,
        "tensor: all values must have one type, found {} and {}. Write 2.0 for a floating 2.",
        dtype_, e.dtype_);
  }
}

void TensorDataContainer::write(const Tensor& to, int64_t& at) const {
  if (values_.defined()) {
    to.slice(0, at, at + values_.numel(), 1).copy_(values_);
    at += values_.numel();
  } else if (sizes_.empty()) {
    if (has_values(to.impl()))
      visit(to.dtype(), [&](auto v) { to.raw<decltype(v)>()[at] = scalar_.to<decltype(v)>(); });
    ++at;
  } else {
    for (const TensorDataContainer& e : list_) e.write(to, at);
  }
}

Tensor new_values(IntArrayRef sizes, DType dtype) {
  if ((modes & kCapture) == 0 || (modes & kEstimate)) return empty(sizes, dtype);
  const ModeScope at_once(kCapture, false);
  Tensor t = empty(sizes, dtype);
  if (Capture& own = Capture::own(); own.forbids_values() && t.has_storage())
    own.constants.push_back(t.impl().storage);
  return t;
}

Tensor TensorDataContainer::to_tensor(TensorOptions options) const {
  options.device().require_available("tensor");
  if (!options.has_dtype()) {
    const bool is_integer = dtype_ == kInt32 || dtype_ == kInt64,
               is_float = dtype_ == kFloat32 || dtype_ == kFloat64;
    options = options.dtype(is_integer ? kInt64 : is_float ? get_default_dtype() : dtype_);
  }
  const Tensor flat = sizes_.empty() ? new_values({}, *options.dtype_opt())
                                     : new_values({checked_numel(sizes_)}, *options.dtype_opt());
  int64_t at = 0;
  {
    const ModeScope at_once(kCapture, (modes & kEstimate) != 0 && (modes & kCapture) != 0);
    write(flat, at);
  }
  Tensor t(alias_impl(flat.impl()));
  t.impl().set_contiguous(sizes_);
  if (options.requires_grad()) t.requires_grad_();
  return t;
}

}  // namespace detail

Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides,
                 std::function<void(void*)> deleter, const TensorOptions& options) {
  options.device().require_available("from_blob");
  PELLUCID_CHECK(sizes.size() == strides.size(), ShapeError,
                 "from_blob: {} sizes but {} strides were given.", sizes.size(), strides.size());
  auto impl = detail::new_impl(options.dtype_opt().value_or(get_default_dtype()), sizes);
  PELLUCID_CHECK(data || impl->numel == 0, ValueError,
                 "from_blob: the pointer is null but sizes {} need memory.", sizes);
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size() && impl->numel > 0; ++d) {
    PELLUCID_CHECK(strides[d] >= 0, ValueError,
                   "from_blob: strides must not be negative, found {}.", strides);
    int64_t reach = 0;
    PELLUCID_CHECK(!__builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) &&
                       !__builtin_add_overflow(last, reach, &last),
                   ValueError, "from_blob: sizes {} and strides {} pass 2^63 elements.", sizes,
                   strides);
  }
  impl->strides.assign(strides);
  const size_t bytes = impl->numel == 0 ? 0
                                        : static_cast<size_t>(last + 1) *
                                              static_cast<size_t>(element_size(impl->dtype));
  impl->storage = detail::borrow_storage(data, bytes, std::move(deleter));
  Tensor t(std::move(impl));
  if (options.requires_grad()) t.requires_grad_();
  return t;
}

Tensor from_blob(void* data, IntArrayRef sizes, std::function<void(void*)> deleter,
                 const TensorOptions& options) {
  return from_blob(data, sizes, detail::contiguous_strides(sizes), std::move(deleter), options);
}

Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options) {
  return from_blob(data, sizes, strides, nullptr, options);
}

Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options) {
  return from_blob(data, sizes, detail::contiguous_strides(sizes), nullptr, options);
}

void manual_seed(uint64_t seed) { default_generator().manual_seed(seed); }
uint64_t seed() { return default_generator().seed(); }
uint64_t initial_seed() { return default_generator().initial_seed(); }

}  // namespace pellucid
