// softmax and log_softmax over one dim of a contiguous [outer, dim, inner] array, their gradients,
// and cross entropy computed straight from logits. Types are the floating ones; 16-bit floats
// compute in float32.
#pragma once

#include <cstdint>

#include "pellucid/dtype.h"

namespace pellucid::kernels {

/// A contiguous array seen as [outer, dim, inner]; the middle dim is normalised.
struct SoftmaxShape {
  int64_t outer, dim, inner;
};

/// y = exp(x - max) / sum, or its logarithm. y may be x. A line of -inf alone gives NaN.
void softmax(DType type, const void* x, void* y, SoftmaxShape shape, bool log);
/// dx from the result y and its gradient dy: y (dy - sum(dy y)), or dy - exp(y) sum(dy) for log. dx
/// may be dy.
void softmax_backward(DType type, const void* dy, const void* y, void* dx, SoftmaxShape shape,
                      bool log);

/// Cross entropy of contiguous logits [rows, classes] with class targets.
struct CrossEntropy {
  DType type = kFloat32;  ///< of logits, weight, loss and gradients; logsumexp has its compute type
  const void* logits = nullptr;
  int64_t rows = 0, classes = 0;
  const int64_t* target = nullptr;
  const void* weight = nullptr;  ///< per class, or null for ones
  int64_t ignore_index = -100;
  double label_smoothing = 0;
};

/// The first row whose target is neither a class nor ignore_index, or -1.
int64_t first_bad_target(const CrossEntropy& c);
/// Per row: loss[r] (0 where ignored), logsumexp[r], and row_weight[r], the weight of the target's
/// class (0 where ignored): the mean loss is sum(loss) / sum(row_weight). logsumexp and row_weight
/// are of the compute type.
void cross_entropy(const CrossEntropy& c, void* loss, void* logsumexp, void* row_weight);
/// dlogits from logsumexp and the gradient of each row's loss, in one pass; `dloss` is of c.type.
void cross_entropy_backward(const CrossEntropy& c, const void* logsumexp, const void* dloss,
                            void* dlogits);

}  // namespace pellucid::kernels
