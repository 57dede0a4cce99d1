// Clipping of gradients, and parameters as one vector.
#include "pellucid/nn/utils.h"

#include <cmath>
#include <limits>

#include "pellucid/autograd.h"
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

double get_total_norm(const std::vector<Tensor>& tensors, double norm_type,
                      bool error_if_nonfinite) {
  PELLUCID_CHECK(norm_type >= 0, ValueError,
                 "get_total_norm: the norm's type must not be negative, but is {}.", norm_type);
  const NoGradGuard off;
  if (tensors.empty()) return 0.0;
  std::vector<Tensor> norms;
  norms.reserve(tensors.size());
  for (const Tensor& t : tensors) norms.push_back(linalg_vector_norm(t, norm_type));
  const double total = linalg_vector_norm(stack(norms), norm_type).item<double>();
  PELLUCID_CHECK(!error_if_nonfinite || std::isfinite(total), ValueError,
                 "get_total_norm: the norm of order {} is {}. Pass error_if_nonfinite = false to "
                 "get it anyway.",
                 norm_type, total);
  return total;
}

double grad_norm(const std::vector<Tensor>& parameters, double norm_type) {
  return get_total_norm(gradients(parameters), norm_type);
}

double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  const double total = grad_norm(parameters, norm_type);
  PELLUCID_CHECK(!error_if_nonfinite || std::isfinite(total), ValueError,
                 "clip_grad_norm_: the gradients' norm of order {} is {}, so they cannot be "
                 "clipped. Pass error_if_nonfinite = false to scale them anyway.",
                 norm_type, total);
  const double scale = max_norm / (total + 1e-6);
  if (scale < 1.0 || std::isnan(scale)) {
    const NoGradGuard off;
    for (const Tensor& g : gradients(parameters)) g.mul_(scale);
  }
  return total;
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
