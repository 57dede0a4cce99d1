// What the generated functions and methods need: pointers to a list of inputs, and numbers wrapped
// as tensors.
#pragma once

#include "pellucid/detail/inline_vec.h"
#include "pellucid/op.h"

namespace pellucid {

/// A 0-dimensional tensor made from a number; weakest in type promotion.
PELLUCID_API Tensor wrapped_number(const Scalar& value);

// The strict parameters of generated functions as plain numbers, for attributes.
constexpr bool plain(bool v) { return v; }
constexpr bool plain(BoolArg v) { return v; }
constexpr bool plain(detail::ExactBool v) { return v; }
constexpr int64_t plain(int64_t v) { return v; }
constexpr int64_t plain(IntArg v) { return v; }
constexpr double plain(FloatArg v) { return v; }
constexpr std::string_view plain(TextArg v) { return v; }
template <class T> constexpr auto plain(const std::optional<T>& v) {
  return v ? std::optional(plain(*v)) : std::nullopt;
}

/// Collects pointers to the inputs of an op that takes a list.
class InputPointers {
 public:
  void add(const Tensor& t) { pointers_.emplace_back(&t); }
  void add_list(TensorList list) {
    pointers_.reserve(pointers_.size() + list.size() + 2);
    for (const Tensor& t : list) pointers_.emplace_back(&t);
  }
  Inputs span() const { return {pointers_.begin(), pointers_.size()}; }

 private:
  detail::InlineVec<const Tensor*, 8> pointers_;
};

}  // namespace pellucid
