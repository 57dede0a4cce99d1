// What a tensor carries once gradients are involved. Owned by its TensorImpl.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pellucid/autograd.h"

namespace pellucid::detail {

struct AutogradMeta {
  bool requires_grad = false;  ///< set by the program, on a leaf
  bool retains_grad = false;
  uint32_t output_nr = 0;
  uint32_t grad_fn_version =
      0;  ///< of the storage, when grad_fn was set; a view's grad_fn is made anew when it differs
  Ref<autograd::Node> grad_fn;
  Tensor grad;
  autograd::AccumulateGrad* accumulator =
      nullptr;  ///< not owned: it owns the tensor; guarded by accumulator_mutex
  std::vector<std::pair<unsigned, std::function<Tensor(Tensor)>>> hooks;  ///< of a leaf
  std::string name;
};

/// The meta of a tensor, made if there was none.
AutogradMeta& meta_of(const Tensor& t);
/// Guards the accumulator pointers of a leaf (one of a fixed set, by address).
std::mutex& accumulator_mutex(const TensorImpl* leaf);

}  // namespace pellucid::detail
