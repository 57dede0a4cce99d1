// What this thread does with calls besides running them. The dispatcher reads one byte; while it is
// 0, a call is run and nothing else.
#pragma once

#include <cstdint>
#include <optional>

#include "pellucid/dtype.h"

namespace pellucid::detail {

enum Mode : uint8_t {
  kEstimate = 1,  ///< count what they would cost (EstimateGuard)
  kObserve = 2,   ///< show them to a function (OpObserver)
  kCapture = 4,   ///< keep them until their values are needed (LazyGuard)
  kUnknown = 8    ///< the thread has called nothing yet: the environment may ask for a mode
};

extern constinit thread_local uint8_t modes;

inline void set_mode(Mode mode, bool on) {
  modes = static_cast<uint8_t>(on ? modes | mode : modes & ~mode);
}

/// Turns a mode on or off for a scope.
class ModeScope {
 public:
  ModeScope(Mode mode, bool on) : before_(modes) { set_mode(mode, on); }
  ~ModeScope() { modes = before_; }
  ModeScope(const ModeScope&) = delete;

 private:
  const uint8_t before_;
};

/// For a scope, get_default_dtype() on this thread is what it was when a call was captured.
class DefaultDTypeScope {
 public:
  explicit DefaultDTypeScope(DType t);
  ~DefaultDTypeScope();
  DefaultDTypeScope(const DefaultDTypeScope&) = delete;

 private:
  const std::optional<DType> before_;
};

}  // namespace pellucid::detail
