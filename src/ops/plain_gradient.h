// Gradients of a plain formula: how a fused backward op is differentiated again. The formula is
// written with ops and differentiated by the tape, so it is slower than a fused kernel but right to
// any order.
#pragma once

#include <functional>

#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {

/// The formula: from its inputs (undefined where the call had none) to its results (undefined where
/// not wanted).
using PlainFormula = std::function<Tensors(const Tensors&)>;

/// The gradients of sum_k <formula_k(inputs), grads_k> with respect to those inputs that `needed`
/// marks; undefined elsewhere.
inline Tensors plain_gradients(const PlainFormula& formula, const Tensors& inputs,
                               const std::vector<bool>& needed, std::span<const Tensor> grads) {
  const bool higher = autograd::GradMode::is_enabled();
  const autograd::AutoGradMode on(true);
  // Each input becomes a tensor of its own: paths from one input to another (a gradient that
  // depends on x, one tensor given twice) belong to the caller's graph, not to this formula.
  Tensors own, wanted;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined())
      own.emplace_back();
    else if (higher)
      own.push_back(inputs[i].alias());
    else
      own.push_back(inputs[i].detach().requires_grad_(needed[i]));
    if (needed[i] && own[i].requires_grad()) wanted.push_back(own[i]);
  }
  Tensors results(inputs.size()), used, seeds;
  const Tensors values = formula(own);
  for (size_t k = 0; k < values.size(); ++k) {
    if (!values[k].defined() || !values[k].requires_grad() || k >= grads.size() ||
        !grads[k].defined())
      continue;
    used.push_back(values[k]);
    seeds.push_back(grads[k]);
  }
  if (used.empty() || wanted.empty()) return results;
  const Tensors found = autograd::grad(used, wanted, seeds, true, higher, true);
  for (size_t i = 0, next = 0; i < inputs.size(); ++i)
    if (needed[i] && own[i].defined() && own[i].requires_grad()) results[i] = found[next++];
  return results;
}

}  // namespace pellucid
