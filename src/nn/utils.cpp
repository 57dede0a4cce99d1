// Clipping of gradients, and parameters as one vector.
#include "pellucid/nn/utils.h"

#include <cmath>
#include <limits>

#include "pellucid/autograd.h"
#include "pellucid/creation.h"
#include "pellucid/lazy.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::nn::utils {

namespace {

std::vector<Tensor> gradients(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> out;
  for (const Tensor& p : parameters)
    if (p.defined() && p.grad().defined()) out.push_back(p.grad());
  return out;
}

}  // namespace

Tensor get_total_norm(const std::vector<Tensor>& tensors, double norm_type,
                      bool error_if_nonfinite) {
  PELLUCID_CHECK(norm_type >= 0, ValueError,
                 "get_total_norm: the norm's type must not be negative, but is {}.", norm_type);
  const NoGradGuard off;
  if (tensors.empty()) return zeros({});
  if (norm_type == 0) return full({}, static_cast<double>(tensors.size()), get_default_dtype());
  std::vector<Tensor> norms;
  norms.reserve(tensors.size());
  for (const Tensor& t : tensors) norms.push_back(linalg_vector_norm(t, norm_type));
  Tensor total = linalg_vector_norm(stack(norms), norm_type);
  if (error_if_nonfinite) {
    const double value = total.item<double>();
    PELLUCID_CHECK(std::isfinite(value), ValueError,
                   "get_total_norm: the norm of order {} is {}. Pass error_if_nonfinite = false to "
                   "get it anyway.",
                   norm_type, value);
  }
  return total;
}

void clip_grads_with_norm_(const std::vector<Tensor>& parameters, double max_norm,
                           const Tensor& total_norm) {
  const NoGradGuard off;
  const Tensor scale = (max_norm / (total_norm + 1e-6)).clamp_max(1.0);
  // A product with 1 changes no values, but moves every gradient; a lazy program does not look.
  const bool same = !LazyGuard::is_enabled() && scale.item<double>() == 1.0;
  for (const Tensor& g : gradients(parameters))
    same ? g.impl().bump_version() : void(g.mul_(scale));
}

double grad_norm(const std::vector<Tensor>& parameters, double norm_type) {
  return get_total_norm(gradients(parameters), norm_type).item<double>();
}

double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  const Tensor total = get_total_norm(gradients(parameters), norm_type, error_if_nonfinite);
  clip_grads_with_norm_(parameters, max_norm, total);
  return total.item<double>();
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  PELLUCID_CHECK(clip_value >= 0, ValueError,
                 "clip_grad_value_: the value must not be negative, but is {}.", clip_value);
  const NoGradGuard off;
  for (const Tensor& g : gradients(parameters)) g.clamp_(Scalar(-clip_value), Scalar(clip_value));
}

Tensor parameters_to_vector(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> parts;
  parts.reserve(parameters.size());
  for (const Tensor& p : parameters) parts.push_back(p.reshape({-1}));
  return cat(parts);
}

void vector_to_parameters(const Tensor& vec, const std::vector<Tensor>& parameters) {
  int64_t total = 0;
  for (const Tensor& p : parameters) total += p.numel();
  PELLUCID_CHECK(vec.dim() == 1 && vec.numel() == total, ShapeError,
                 "vector_to_parameters: the vector is {}, but the parameters have {} values.",
                 vec.sizes(), total);
  const NoGradGuard off;
  int64_t at = 0;
  for (const Tensor& p : parameters) {
    p.set_data(vec.slice(0, at, at + p.numel()).view(p.sizes()).data());
    at += p.numel();
  }
}

}  // namespace pellucid::nn::utils
