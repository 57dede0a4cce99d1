// Steps of Adadelta, Adamax, NAdam, RAdam, ASGD and Rprop, under the rules of optim.h: contiguous
// float or double arrays, one pass, PyTorch's formulas.
#pragma once

#include "kernels/optim.h"

namespace pellucid::kernels {

struct AdadeltaStep {
  double lr = 0, rho = 0, eps = 0, weight_decay = 0;
};
void adadelta_step(DType type, int64_t n, const AdadeltaStep& s, void* param, const void* grad,
                   void* square_avg, void* acc_delta);

struct AdamaxStep {
  double step_size = 0;  ///< lr / (1 - beta1^step)
  double beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
};
void adamax_step(DType type, int64_t n, const AdamaxStep& s, void* param, const void* grad,
                 void* exp_avg, void* exp_inf);

struct NadamStep {
  double grad_size = 0, mean_size = 0;  ///< factors of the gradient and of its average
  double beta1 = 0, beta2 = 0, eps = 0;
  double correction2 = 1;  ///< 1 - beta2^step
  double decay = 0;        ///< the weight decay, or 1 - lr * decay where it is decoupled
  Decay where = Decay::None;
};
void nadam_step(DType type, int64_t n, const NadamStep& s, void* param, const void* grad,
                void* exp_avg, void* exp_avg_sq);

struct RadamStep {
  double step_size = 0;  ///< of the average, over its root mean square where rectified
  double beta1 = 0, beta2 = 0, eps = 0;
  double decay = 0;  ///< as NadamStep's
  Decay where = Decay::None;
  bool rectified = false;  ///< whether the mean square is to be trusted already
};
void radam_step(DType type, int64_t n, const RadamStep& s, void* param, const void* grad,
                void* exp_avg, void* exp_avg_sq);

struct AsgdStep {
  double eta = 0, mu = 0, lambd = 0, weight_decay = 0;
};
void asgd_step(DType type, int64_t n, const AsgdStep& s, void* param, const void* grad, void* ax);

struct RpropStep {
  double eta_minus = 0, eta_plus = 0, step_min = 0, step_max = 0;
};
void rprop_step(DType type, int64_t n, const RpropStep& s, void* param, const void* grad,
                void* prev, void* step_size);

}  // namespace pellucid::kernels
