// OpObserver: a function that sees every op of a thread right after it ran, with its inputs and
// results (the mode kObserve of tensor/mode.h).
#pragma once

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
/// What the dispatcher calls when a kernel is done, in a thread that has an observer.
void tell_observer(const Call& call);
}  // namespace detail

}  // namespace pellucid
