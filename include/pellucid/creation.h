// Tensors from C++ values and from the program's own memory, and the random generator's seed. The
// other creation functions (zeros, arange, randn…) are ops.
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "pellucid/tensor.h"

namespace pellucid {

namespace detail {

template <class T>
concept Element = requires {
  DTypeOf<T>::value;
};

/// A number, a list of numbers, or nested braces of them, on the way to becoming a tensor.
class PELLUCID_API TensorDataContainer {
 public:
  template <Element T> TensorDataContainer(T value) : dtype_(dtype_of<T>), scalar_(value) {}
  TensorDataContainer(std::initializer_list<TensorDataContainer> list);
  template <Element T>
  TensorDataContainer(ArrayRef<T> values)
      : TensorDataContainer(values.data(), values.size(), dtype_of<T>) {}
  template <Element T>
  requires(!std::is_same_v<T, bool>) TensorDataContainer(const std::vector<T>& values)
      : TensorDataContainer(values.data(), values.size(), dtype_of<T>) {}
  TensorDataContainer(const std::vector<bool>& values);

  Tensor to_tensor(TensorOptions options) const;

 private:
  TensorDataContainer(const void* values, size_t count, DType dtype);
  void write(const Tensor& to, int64_t& at) const;
  DType dtype_ = kFloat32;
  Dims sizes_;
  Scalar scalar_;
  Tensor values_;                          ///< of a flat list
  std::vector<TensorDataContainer> list_;  ///< of nested braces
};

}  // namespace detail

/// A tensor of the given values: tensor(1.5), tensor({1, 2}), tensor({{1.0, 2.0}, {3.0, 4.0}}),
/// tensor(vector). Without a dtype in the options floats get the default dtype and integers int64.
inline Tensor tensor(const detail::TensorDataContainer& data, const TensorOptions& options = {}) {
  return data.to_tensor(options);
}

/// A tensor over memory of the program, which must live as long as the tensor; `deleter`, if given,
/// is called after that.
PELLUCID_API Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides,
                              std::function<void(void*)> deleter,
                              const TensorOptions& options = {});
PELLUCID_API Tensor from_blob(void* data, IntArrayRef sizes, std::function<void(void*)> deleter,
                              const TensorOptions& options = {});
PELLUCID_API Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides,
                              const TensorOptions& options = {});
PELLUCID_API Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {});

/// Starts the stream of random numbers of `seed` from its beginning.
PELLUCID_API void manual_seed(uint64_t seed);
/// Seeds from the system's entropy and returns the seed.
PELLUCID_API uint64_t seed();
/// The seed in use.
PELLUCID_API uint64_t initial_seed();

}  // namespace pellucid
