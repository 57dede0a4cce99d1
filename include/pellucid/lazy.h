// Lazy evaluation: calls are captured, and run when a value is needed.
#pragma once

#include "pellucid/tensor.h"

namespace pellucid {

/// While it lives, this thread captures the calls of ops. Their results are pending: they have
/// sizes and dtypes, and no memory. Whoever reads the values (printing, item(), data_ptr(), a file,
/// another thread) makes the calls run that they depend on, with the same bits as without the
/// guard. At the end of the guard all that the program can still see is computed, and the rest is
/// forgotten. PELLUCID_LAZY=1 does the same for a whole program.
class PELLUCID_API LazyGuard {
 public:
  explicit LazyGuard(bool enabled = true);
  ~LazyGuard();
  LazyGuard(const LazyGuard&) = delete;
  static bool is_enabled();

 private:
  bool before_;
};

/// Computes pending tensors, and nothing that they do not depend on. The others are left alone.
PELLUCID_API void eval(TensorList tensors);
/// Computes everything that this thread captured and that the program can still see.
PELLUCID_API void eval();
/// Whether calls that make or change the tensor's values were captured and did not run yet.
PELLUCID_API bool is_pending(const Tensor& t);

}  // namespace pellucid
