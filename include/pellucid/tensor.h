// Tensor: the one tensor type, a counted handle. Operators as methods come from the op definitions
// (tensor_methods.inc is generated); here are the handle, its facts, its data and its gradient.
#pragma once

#include <atomic>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "pellucid/array_ref.h"
#include "pellucid/detail/tensor_impl.h"
#include "pellucid/dtype.h"
#include "pellucid/error.h"
#include "pellucid/options.h"
#include "pellucid/scalar.h"

namespace pellucid {

class Tensor;
using Tensors = std::vector<Tensor>;
using TensorList = ArrayRef<Tensor>;
namespace autograd {
struct Node;
using variable_list = std::vector<Tensor>;
}  // namespace autograd
namespace indexing {
class TensorIndex;
}

/// A strided view of T elements with N dimensions, for loops over raw values.
template <class T, size_t N> class TensorAccessor {
 public:
  TensorAccessor(T* data, const int64_t* sizes, const int64_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  int64_t size(int64_t i) const { return sizes_[i]; }
  int64_t stride(int64_t i) const { return strides_[i]; }
  IntArrayRef sizes() const { return {sizes_, N}; }
  IntArrayRef strides() const { return {strides_, N}; }
  T* data() const { return data_; }
  decltype(auto) operator[](int64_t i) const {
    if constexpr (N == 1)
      return data_[i * strides_[0]];
    else
      return TensorAccessor<T, N - 1>(data_ + i * strides_[0], sizes_ + 1, strides_ + 1);
  }

 private:
  T* data_;
  const int64_t* sizes_;
  const int64_t* strides_;
};

/// A multi-dimensional array that knows how it was computed. Copies share the same tensor.
class PELLUCID_API Tensor {
 public:
  Tensor() = default;
  explicit Tensor(detail::Ref<detail::TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;
  // An assignment to a variable makes it a handle of the other tensor. One to what an expression
  // gives, x[0] = y or x.index({Slice(1)}) = 2, writes the values into that tensor, broadcast and
  // converted as by copy_. Where nobody else sees the tensor, because the index made a copy, it
  // throws ValueError: the write would be lost.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  Tensor operator=(const Tensor& values) &&;
  Tensor operator=(Tensor&& values) &&;  // NOLINT(performance-noexcept-move-constructor): it copies
  Tensor operator=(const Scalar& value) &&;

  // Facts
  bool defined() const { return static_cast<bool>(impl_); }
  void reset() { impl_.reset(); }
  int64_t dim() const { return static_cast<int64_t>(impl().sizes.size()); }
  int64_t ndimension() const { return dim(); }
  IntArrayRef sizes() const { return impl().sizes; }
  IntArrayRef strides() const {
    expose();
    return impl().strides;
  }
  int64_t size(int64_t d) const;
  int64_t stride(int64_t d) const;
  template <detail::Mistaken<int64_t> T> int64_t size(T) const = delete;
  template <detail::Mistaken<int64_t> T> int64_t stride(T) const = delete;
  int64_t numel() const { return impl().numel; }
  DType dtype() const { return impl().dtype; }
  DType scalar_type() const { return impl().dtype; }
  int64_t element_size() const { return pellucid::element_size(dtype()); }
  int64_t itemsize() const { return element_size(); }
  size_t nbytes() const { return static_cast<size_t>(numel() * element_size()); }
  int64_t storage_offset() const {
    expose();
    return impl().offset;
  }
  Device device() const { return {}; }
  Layout layout() const { return kStrided; }
  TensorOptions options() const { return TensorOptions(dtype()); }
  bool is_floating_point() const { return is_floating(dtype()); }
  bool is_cpu() const { return true; }
  bool is_cuda() const { return false; }
  bool is_sparse() const { return false; }
  bool is_complex() const { return false; }
  bool is_signed() const { return dtype() != kUInt8 && dtype() != kBool; }
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
  /// Whether sizes and all elements are equal; NaN equals nothing.
  bool equal(const Tensor& other) const;
  /// Whether isclose holds for every element.
  bool allclose(const Tensor& other, double rtol = 1e-05, double atol = 1e-08,
                bool equal_nan = false) const;
  template <detail::Mistaken<double> T, class... Rest>
  bool allclose(const Tensor& other, T rtol, Rest...) const = delete;
  template <detail::Mistaken<double> T>
  bool allclose(const Tensor& other, double rtol, T atol, bool equal_nan = false) const = delete;
  bool is_same(const Tensor& o) const { return impl_ == o.impl_; }
  bool is_alias_of(const Tensor& o) const {
    return impl().storage && impl().storage == o.impl().storage;
  }
  /// Whether values exist (false for a tensor that only has sizes).
  bool has_storage() const { return static_cast<bool>(impl().storage); }
  uint32_t use_count() const { return impl_.use_count(); }

  // Data
  void* data_ptr() const;
  const void* const_data_ptr() const;
  template <class T> T* data_ptr() const {
    check_type(dtype_of<T>);
    return static_cast<T*>(data_ptr());
  }
  template <class T> const T* const_data_ptr() const {
    check_type(dtype_of<T>);
    return static_cast<const T*>(const_data_ptr());
  }
  template <class T> T* mutable_data_ptr() const { return data_ptr<T>(); }
  template <class T, size_t N> TensorAccessor<T, N> accessor() const& {
    PELLUCID_CHECK(dim() == static_cast<int64_t>(N), ShapeError,
                   "accessor: the tensor has {} dimensions but {} were asked for (sizes {}).",
                   dim(), N, sizes());
    T* data = data_ptr<T>();
    return {data, impl().sizes.data(), impl().strides.data()};
  }
  /// The accessor of a temporary would look at memory that is gone: keep the tensor in a variable.
  template <class T, size_t N> TensorAccessor<T, N> accessor() const&& = delete;
  /// The value of a tensor with one element.
  Scalar item() const;
  template <class T> T item() const { return item().to<T>(); }

  // Gradients
  bool requires_grad() const;
  const Tensor& requires_grad_(bool on = true) const;
  Tensor& set_requires_grad(bool on) {
    requires_grad_(on);
    return *this;
  }
  bool is_leaf() const;
  /// The accumulated gradient; undefined until backward has reached this tensor. A reference, as in
  /// libtorch: read it when no other thread runs backward into this tensor.
  const Tensor& grad() const;
  Tensor& mutable_grad() const;
  void set_grad(const Tensor& g) const;
  /// Sets the gradient to undefined, or to zeros with set_to_none = false.
  void zero_grad(bool set_to_none = true) const;
  detail::Ref<autograd::Node> grad_fn() const;
  uint32_t output_nr() const;
  void retain_grad() const;
  bool retains_grad() const;
  void backward(const Tensor& gradient = {}, std::optional<bool> retain_graph = std::nullopt,
                bool create_graph = false, std::optional<TensorList> inputs = std::nullopt) const;
  /// Calls `hook` with the gradient of this tensor when it is computed; what it returns, if
  /// defined, replaces it.
  unsigned register_hook(std::function<Tensor(Tensor)> hook) const;
  template <class F>
  requires std::is_void_v<std::invoke_result_t<F, Tensor>>
  unsigned register_hook(F hook) const {
    return register_hook(std::function<Tensor(Tensor)>([hook](Tensor g) {
      hook(g);
      return Tensor();
    }));
  }
  void remove_hook(unsigned position) const;
  /// Cuts this tensor from its history.
  const Tensor& detach_() const;
  /// The same values without history and without the version counter of this tensor (PyTorch's
  /// .data).
  Tensor data() const;
  Tensor variable_data() const { return data(); }
  void set_data(const Tensor& other) const;
  bool is_view() const { return static_cast<bool>(impl().base); }
  Tensor _base() const;
  /// How often the storage was changed in place.
  uint32_t _version() const { return impl().storage ? impl().storage->version.load() : 0; }
  bool is_inference() const { return impl().inference; }
  const std::string& name() const;
  /// Gives the tensor a name that graph pictures and messages show.
  const Tensor& set_name(std::string name) const;

  // Conversions and copies that take options
  Tensor to(DType dtype, bool non_blocking = false, bool copy = false,
            std::optional<MemoryFormat> format = std::nullopt) const;
  Tensor to(Device device, DType dtype, bool non_blocking = false, bool copy = false) const {
    device.require_available("to");
    return to(dtype, non_blocking, copy);
  }
  Tensor to(Device device, bool non_blocking = false, bool copy = false) const {
    device.require_available("to");
    return copy ? to(dtype(), non_blocking, copy) : *this;
  }
  Tensor to(DeviceType type, bool non_blocking = false, bool copy = false) const {
    return to(Device(type), non_blocking, copy);
  }
  Tensor to(const TensorOptions& options, bool non_blocking = false, bool copy = false) const;
  Tensor to(const Tensor& other) const { return to(other.dtype()); }
  Tensor toType(DType t) const { return to(t); }
  Tensor type_as(const Tensor& other) const { return to(other.dtype()); }
  Tensor cpu() const { return *this; }
  Tensor new_zeros(IntArrayRef sizes, const TensorOptions& options = {}) const;
  Tensor new_ones(IntArrayRef sizes, const TensorOptions& options = {}) const;
  Tensor new_empty(IntArrayRef sizes, const TensorOptions& options = {}) const;
  Tensor new_full(IntArrayRef sizes, const Scalar& value, const TensorOptions& options = {}) const;

  // Indexing (indexing.h)
  Tensor index(ArrayRef<indexing::TensorIndex> indices) const;
  Tensor index(std::initializer_list<indexing::TensorIndex> indices) const;
  const Tensor& index_put_(ArrayRef<indexing::TensorIndex> indices, const Tensor& values) const;
  const Tensor& index_put_(ArrayRef<indexing::TensorIndex> indices, const Scalar& value) const;
  const Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices,
                           const Tensor& values) const;
  const Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices,
                           const Scalar& value) const;
  Tensor operator[](int64_t i) const;
  Tensor operator[](const Tensor& index) const;
  /// An integer only; throws IndexError for another number.
  Tensor operator[](const Scalar& index) const;
  template <detail::Among<detail::kFloats> T> Tensor operator[](T) const = delete;

  // Operators
  Tensor operator-() const;
  Tensor operator~() const;
  const Tensor& operator+=(const Tensor& o) const;
  const Tensor& operator+=(const Scalar& o) const;
  const Tensor& operator-=(const Tensor& o) const;
  const Tensor& operator-=(const Scalar& o) const;
  const Tensor& operator*=(const Tensor& o) const;
  const Tensor& operator*=(const Scalar& o) const;
  const Tensor& operator/=(const Tensor& o) const;
  const Tensor& operator/=(const Scalar& o) const;

  /// The values as PyTorch prints them.
  std::string toString() const;
  void print() const;

#include "pellucid/tensor_methods.inc"

  // For kernels and the core: no exposure of a layout that an op chose.
  detail::TensorImpl& impl() const {
    check_defined();
    return *impl_;
  }
  const detail::Ref<detail::TensorImpl>& impl_ref() const { return impl_; }
  void* raw_data() const { return impl().data(); }
  IntArrayRef raw_strides() const { return impl().strides; }
  template <class T> T* raw() const { return static_cast<T*>(impl().data()); }
  /// Makes a layout that an op chose visible as PyTorch's: rewrites the values row-major, in place.
  void expose() const {
    // Another thread may be about to do so: its writes are seen before the flag is.
    if (std::atomic_ref<bool>(impl().hidden_layout).load(std::memory_order_acquire)) [[unlikely]]
      make_exposed();
  }

 private:
  void check_defined() const {
    if (!impl_) [[unlikely]]
      fail_undefined();
  }
  [[noreturn]] static void fail_undefined();
  void check_type(DType asked) const;
  void make_exposed() const;
  detail::Ref<detail::TensorImpl> impl_;
};

PELLUCID_API std::ostream& operator<<(std::ostream& out, const Tensor& t);
/// "float32[2, 3]", for messages.
PELLUCID_API std::string describe(const Tensor& t);

}  // namespace pellucid
