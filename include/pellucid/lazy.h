// Lazy evaluation: calls are captured, and run when a value is needed.
#pragma once

#include <functional>
#include <string>
#include <vector>

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

/// What became of the calls of a lazy evaluation, in the order in which they ran.
struct PELLUCID_API Explanation {
  /// Calls that ran as one, or a single one.
  struct Part {
    std::vector<std::string> ops;
    std::vector<std::string> lines;  ///< of the program, that made the calls; "" where not known
    std::vector<int64_t> sizes;      ///< of the result
    DType dtype = kFloat32;
    int64_t unmade = 0;        ///< results that only the group reads, so that they got no memory
    int64_t unmade_bytes = 0;  ///< and how many bytes they would have had
    std::string end;           ///< why the next call is no part of it
  };
  /// What a pass over the captured program did.
  struct Pass {
    std::string name;
    double seconds = 0;
    int64_t nodes_before = 0, nodes_after = 0, changed = 0;
  };
  /// Calls that read nothing of each other, each too small for more than one thread.
  struct Beside {
    std::vector<std::string> ops;  ///< of the calls, in the order of the program
    int64_t threads = 0;           ///< that run them at the same time
    /// What the model says: one after the other, and side by side.
    double serial_seconds = 0, beside_seconds = 0;
    /// What the first runs took, if they were measured.
    double measured_serial = 0, measured_beside = 0;
    std::string refused;  ///< why they run one after the other; "" if they do not
  };
  std::vector<Part> parts;
  std::vector<Pass> passes;
  std::vector<Beside> beside;
  std::string way;  ///< how calls of the compiled function run, where there is more to say
  /// The most bytes that a run needs at one time beside what exists before it: for results inside
  /// the program and those that it returns, and for what kernels take for themselves.
  int64_t peak_bytes = 0;
  int64_t arena_bytes = 0;  ///< of the block in which small results inside the program lie
  int64_t reused = 0;       ///< results that are written over an input which nobody reads any more
  /// What it took to make the programs: passes, groups and plans. A program that was made before
  /// costs nothing more.
  double made_seconds = 0;
  /// Gradients that outlive a step which has used them; zero_grad() at its end frees them.
  int64_t gradient_bytes_left = 0;
  int64_t calls = 0;      ///< that ran
  int64_t forgotten = 0;  ///< calls whose results nobody could see, which did not run
  int64_t fused() const;  ///< calls that ran as part of a group
  std::string text() const;
};

/// Runs f lazily and then all that it left, and tells what ran how. What f makes and nobody holds
/// any more when f returns is not computed.
PELLUCID_API Explanation explain(const std::function<void()>& f);

}  // namespace pellucid
