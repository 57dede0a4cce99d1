// What may stand between the brackets of an index: x.index({0, Slice(1, None, 2), "...", None,
// mask}). The names are libtorch's; `using namespace pellucid::indexing` makes them short.
#pragma once

#include <optional>

#include "pellucid/tensor.h"

namespace pellucid::indexing {

enum class TensorIndexType : uint8_t { None, Ellipsis, Integer, Boolean, Slice, Tensor };

/// A new dim of size 1, or an open end of a Slice.
inline constexpr std::nullopt_t None = std::nullopt;

struct EllipsisIndexType final {};
/// As many whole dims as are left.
inline constexpr EllipsisIndexType Ellipsis{};

/// start:stop:step; each may be None. The step must be positive.
class Slice final {
 public:
  constexpr Slice(std::optional<int64_t> start = std::nullopt,
                  std::optional<int64_t> stop = std::nullopt,
                  std::optional<int64_t> step = std::nullopt)
      : start_(start), stop_(stop), step_(step) {}
  constexpr std::optional<int64_t> start() const { return start_; }
  constexpr std::optional<int64_t> stop() const { return stop_; }
  constexpr int64_t step() const { return step_.value_or(1); }

 private:
  std::optional<int64_t> start_, stop_, step_;
};

/// One entry of an index: None, Ellipsis or "...", an integer, a bool, a Slice or a tensor of
/// integers or bools.
class PELLUCID_API TensorIndex final {
 public:
  TensorIndex(std::nullopt_t) : type_(TensorIndexType::None) {}
  TensorIndex(EllipsisIndexType) : type_(TensorIndexType::Ellipsis) {}
  TensorIndex(const char* text);
  TensorIndex(std::nullptr_t) = delete;
  template <detail::Among<detail::kIntegers> T>
  TensorIndex(T integer)
      : integer_(static_cast<int64_t>(integer)), type_(TensorIndexType::Integer) {}
  template <class T>
  requires std::is_same_v<T, bool> TensorIndex(T boolean)
      : integer_(boolean), type_(TensorIndexType::Boolean) {}
  TensorIndex(Slice slice) : slice_(slice), type_(TensorIndexType::Slice) {}
  TensorIndex(Tensor tensor) : tensor_(std::move(tensor)), type_(TensorIndexType::Tensor) {}

  bool is_none() const { return type_ == TensorIndexType::None; }
  bool is_ellipsis() const { return type_ == TensorIndexType::Ellipsis; }
  bool is_integer() const { return type_ == TensorIndexType::Integer; }
  bool is_boolean() const { return type_ == TensorIndexType::Boolean; }
  bool is_slice() const { return type_ == TensorIndexType::Slice; }
  bool is_tensor() const { return type_ == TensorIndexType::Tensor; }
  TensorIndexType type() const { return type_; }
  int64_t integer() const { return integer_; }
  bool boolean() const { return integer_ != 0; }
  const Slice& slice() const { return slice_; }
  const pellucid::Tensor& tensor() const { return tensor_; }

 private:
  int64_t integer_ = 0;
  Slice slice_;
  pellucid::Tensor tensor_;
  TensorIndexType type_;
};

using IndexArrayRef = ArrayRef<TensorIndex>;

}  // namespace pellucid::indexing
