// What the generated functions and methods need: pointers to a list of inputs, and numbers wrapped
// as tensors.
#pragma once

#include "pellucid/detail/inline_vec.h"
#include "pellucid/op.h"

namespace pellucid {

/// A 0-dimensional tensor made from a number; weakest in type promotion.
PELLUCID_API Tensor wrapped_number(const Scalar& value);

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
