// Optimiser steps over contiguous float or double arrays: one pass that reads the gradient and
// moves parameter and state together. Elements do not depend on each other, so neither do the bits
// on the threads. Formulas and their order are PyTorch's.
#pragma once

#include <cstdint>

#include "pellucid/dtype.h"

namespace pellucid::kernels {

/// Where weight decay goes: nowhere, into the gradient (L2), or straight onto the parameter.
enum class Decay : uint8_t { None, Gradient, Decoupled };

struct SgdStep {
  double lr = 0, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  bool first = false;  ///< the buffer holds nothing yet: it becomes the gradient
};
/// momentum_buffer may be null if momentum is 0.
void sgd_step(DType type, int64_t n, const SgdStep& s, void* param, const void* grad,
              void* momentum_buffer);

struct AdamStep {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  int64_t step = 1;  ///< counts from 1
  Decay decay = Decay::None;
};
/// max_exp_avg_sq is null without amsgrad.
void adam_step(DType type, int64_t n, const AdamStep& s, void* param, const void* grad,
               void* exp_avg, void* exp_avg_sq, void* max_exp_avg_sq);

struct RmspropStep {
  double lr = 0, alpha = 0, eps = 0, weight_decay = 0, momentum = 0;
};
/// grad_avg is null unless centred, momentum_buffer unless there is momentum.
void rmsprop_step(DType type, int64_t n, const RmspropStep& s, void* param, const void* grad,
                  void* square_avg, void* grad_avg, void* momentum_buffer);

struct AdagradStep {
  double lr = 0;  ///< already decayed
  double eps = 0, weight_decay = 0;
};
void adagrad_step(DType type, int64_t n, const AdagradStep& s, void* param, const void* grad,
                  void* sum);

}  // namespace pellucid::kernels
