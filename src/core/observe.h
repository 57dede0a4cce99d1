// OpObserver: a function that sees every op of a thread right after it ran, with its inputs and
// results. While no observer is open in the process, a call pays for one load and a branch.
#pragma once

#include <atomic>
#include <functional>

#include "pellucid/op.h"

namespace pellucid {

/// Calls `function` after each op that this thread runs, until the end of the scope. An op that is
/// written with others is seen as those; what the function itself computes is not observed. The
/// innermost observer of a thread is the one that sees.
class PELLUCID_API OpObserver {
 public:
  using Function = std::function<void(const Call& call)>;
  explicit OpObserver(Function function);
  ~OpObserver();
  OpObserver(const OpObserver&) = delete;
  void see(const Call& call) const { function_(call); }

 private:
  Function function_;
  OpObserver* outer_;
};

namespace detail {
/// How many observers are open, on whatever thread.
extern constinit std::atomic<int> open_observers;
void tell_observer(const Call& call);
/// What the dispatcher calls when a kernel is done.
inline void observe(const Call& call) {
  if (open_observers.load(std::memory_order_relaxed) != 0) [[unlikely]]
    tell_observer(call);
}
}  // namespace detail

}  // namespace pellucid
