// Page faults and switches where the kernel does not tell of each one: what getrusage counted for
// the thread between the beginning and the end of a scope, less what scopes inside it counted.
// Asking takes about half a microsecond, so only steps, runs of backward, optimisers' steps,
// outermost scopes and large calls ask.
#pragma once

#include <cstdint>
#include <vector>

#include "pellucid/recorder.h"

namespace pellucid::profile {

/// The scopes of one thread that count, innermost last.
class UsageScopes {
 public:
  /// Whether a scope of this kind counts, wherever it is.
  static bool counts(EventKind kind) {
    return kind == EventKind::Step || kind == EventKind::Engine || kind == EventKind::Optimizer;
  }
  /// One begins, at that tick.
  void begin(uint64_t ticks) noexcept;
  /// The innermost one ends.
  void end(int32_t thread) noexcept;

 private:
  struct Usage {
    int64_t faults = 0, waits = 0, preemptions = 0;
  };
  struct Scope {
    uint64_t begun;
    Usage at_begin, inside;
  };
  static Usage read() noexcept;
  std::vector<Scope> open_;
};

}  // namespace pellucid::profile
