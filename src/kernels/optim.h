// Optimiser steps over contiguous float or double arrays: one pass that reads the gradient and
// moves parameter and state together. Elements do not depend on each other, so neither do the bits
// on the threads. Formulas and their order are PyTorch's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pellucid/dtype.h"

namespace pellucid::kernels {

/// A step made ready, which can run on any part of its arrays, in any order and on any thread.
struct Update {
  static constexpr size_t kMostArrays = 4;
  void (*run)(const Update&, int64_t begin, int64_t count, const void* grad) = nullptr;
  void (*loop)() = nullptr;        ///< of the ISA level in use; `run` knows its type
  void* arrays[kMostArrays] = {};  ///< the parameter and its state
  alignas(8) char numbers[56];
  /// Elements [begin, begin + count); `grad` is at the first of them.
  void operator()(int64_t begin, int64_t count, const void* grad) const {
    run(*this, begin, count, grad);
  }
};
/// All of n elements, by the threads.
void run_update(const Update& update, DType type, int64_t n, const void* grad);

/// Where weight decay goes: nowhere, into the gradient (L2), or straight onto the parameter.
enum class Decay : uint8_t { None, Gradient, Decoupled };

struct SgdStep {
  double lr = 0, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  bool first = false;  ///< the buffer holds nothing yet: it becomes the gradient
};
/// momentum_buffer may be null if momentum is 0.
Update sgd_update(DType type, const SgdStep& s, void* param, void* momentum_buffer);

struct AdamStep {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  int64_t step = 1;  ///< counts from 1
  Decay decay = Decay::None;
};
/// max_exp_avg_sq is null without amsgrad.
Update adam_update(DType type, const AdamStep& s, void* param, void* exp_avg, void* exp_avg_sq,
                   void* max_exp_avg_sq);

struct RmspropStep {
  double lr = 0, alpha = 0, eps = 0, weight_decay = 0, momentum = 0;
};
/// grad_avg is null unless centred, momentum_buffer unless there is momentum.
Update rmsprop_update(DType type, const RmspropStep& s, void* param, void* square_avg,
                      void* grad_avg, void* momentum_buffer);

struct AdagradStep {
  double lr = 0;  ///< already decayed
  double eps = 0, weight_decay = 0;
};
Update adagrad_update(DType type, const AdagradStep& s, void* param, void* sum);

}  // namespace pellucid::kernels
