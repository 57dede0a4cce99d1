// nn::utils: clipping of gradients, and parameters as one vector.
#pragma once

#include <vector>

#include "pellucid/tensor.h"

namespace pellucid::nn::utils {

/// Scales the gradients so that their joint norm is at most max_norm; returns the norm before.
PELLUCID_API double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                                    double norm_type = 2.0, bool error_if_nonfinite = false);
inline double clip_grad_norm_(std::initializer_list<Tensor> parameters, double max_norm,
                              double norm_type = 2.0, bool error_if_nonfinite = false) {
  return clip_grad_norm_(std::vector<Tensor>(parameters), max_norm, norm_type, error_if_nonfinite);
}
inline double clip_grad_norm_(const Tensor& parameter, double max_norm, double norm_type = 2.0,
                              bool error_if_nonfinite = false) {
  return clip_grad_norm_(std::vector<Tensor>{parameter}, max_norm, norm_type, error_if_nonfinite);
}

/// The joint norm of tensors.
PELLUCID_API double get_total_norm(const std::vector<Tensor>& tensors, double norm_type = 2.0,
                                   bool error_if_nonfinite = false);

/// The joint norm of the gradients, without changing them; the norm after clipping, for example.
PELLUCID_API double grad_norm(const std::vector<Tensor>& parameters, double norm_type = 2.0);

/// Cuts every gradient value to [-clip_value, clip_value].
PELLUCID_API void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);
inline void clip_grad_value_(std::initializer_list<Tensor> parameters, double clip_value) {
  clip_grad_value_(std::vector<Tensor>(parameters), clip_value);
}
inline void clip_grad_value_(const Tensor& parameter, double clip_value) {
  clip_grad_value_(std::vector<Tensor>{parameter}, clip_value);
}

/// All values, one parameter after another.
PELLUCID_API Tensor parameters_to_vector(const std::vector<Tensor>& parameters);
/// The reverse: each parameter becomes its part of `vec`, sharing its memory.
PELLUCID_API void vector_to_parameters(const Tensor& vec, const std::vector<Tensor>& parameters);

}  // namespace pellucid::nn::utils
