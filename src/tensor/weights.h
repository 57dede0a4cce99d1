// Weights in the order that kernels read, kept from one call to the next. They belong to a storage,
// so all calls and programs that use it share them. Whoever changes its bytes drops them: settle()
// and bump_version() do, so do captured calls and programs when they run. Storages that can change
// without a word are never held: borrowed, shared, or their pointer was given out.
//
// Weights are packed into held memory when they are used for the second time without a change, so
// that a training step holds nothing. The process holds most_held_bytes at most; what was not used
// for longest goes first, and all goes where an allocation would fail.
#pragma once

#include <atomic>
#include <memory>

#include "kernels/weights.h"
#include "pellucid/tensor.h"

namespace pellucid::detail {

inline constexpr int64_t kMostHeldBytes = int64_t{1} << 30;
/// Tests set it to less.
extern std::atomic<int64_t> most_held_bytes;
/// What is held now, of all storages; for tests and reports.
PELLUCID_API int64_t held_bytes() noexcept;
/// How often weights were found in an order that was made before.
PELLUCID_API int64_t held_found() noexcept;

/// What a captured call has beside its tensors, which may stand in for those of the program: set
/// while its kernel runs.
struct CapturedWeights {
  const Storage* stand_in = nullptr;  ///< the storage of input 1, as the kernel sees it
  Storage* storage = nullptr;  ///< that of the program; null where what is made of it is not kept
  std::shared_ptr<void> primitive = {};  ///< the kernel's own, from one run to the next
  int64_t held_bytes = 0;                ///< of what was kept or found at the last run
};
extern constinit thread_local CapturedWeights* captured_weights;
/// That of the call that runs now, if its input 1 is `weight`.
inline CapturedWeights* captured_weights_of(const Tensor& weight) {
  CapturedWeights* const c = captured_weights;
  return c && c->stand_in == weight.impl().storage.get() ? c : nullptr;
}
class CapturedWeightsScope {
 public:
  explicit CapturedWeightsScope(CapturedWeights* c) : before_(captured_weights) {
    captured_weights = c;
  }
  ~CapturedWeightsScope() { captured_weights = before_; }
  CapturedWeightsScope(const CapturedWeightsScope&) = delete;

 private:
  CapturedWeights* const before_;
};

/// The weights of one call, kept with their storage.
class PELLUCID_API HeldWeights final : public kernels::Weights {
 public:
  /// `ordered` gives them row-major, when they are needed. `may_keep`: in a call at once, whether
  /// it may be made again with the same weights.
  HeldWeights(const Tensor& weight, Tensor (*ordered)(const Tensor&), bool may_keep);
  bool keeps() const override { return ticket_ != 0; }
  void keep(std::shared_ptr<const kernels::PackedForm> form) const override;

 protected:
  const void* values() const override;
  std::shared_ptr<const kernels::PackedForm> find_form(const Fits& fits) const override;

 private:
  const Tensor& weight_;
  CapturedWeights* const captured_;  // null in a call at once
  Tensor (*const ordered_)(const Tensor&);
  Storage* storage_ = nullptr;  // null where nothing may be kept
  mutable Tensor row_major_;
  mutable uint64_t ticket_ = 0;  // of what is known of the storage; 0 at the first use
};

}  // namespace pellucid::detail
