// What the dispatcher tells the recorder: which call this is, where it came from, when it began and
// ended. Off, it is a load and a branch.
#pragma once

#include <span>

#include "pellucid/op.h"
#include "recorder/recorder.h"

namespace pellucid {

class Watch {
 public:
  explicit Watch(const Call& c) noexcept {
    if (profile::recording()) [[unlikely]]
      begin(c, true);
  }
  /// Of a call that was made before: which values it reads is told by other versions than now.
  struct Later {};
  Watch(const Call& c, Later) noexcept {
    if (profile::recording()) [[unlikely]]
      begin(c, false);
  }
  /// The call is done: its cost is known, and the number of the node it left, 0 for none.
  void done(const Call& c, uint64_t node = 0) noexcept {
    if (!begun_) [[likely]]
      return;
    if (profile::detail::uses_recorded.load(std::memory_order_relaxed)) [[unlikely]]
      tell_uses(c, node);
    profile::end_scope(this, node);
    begun_ = false;
    if (is_new_) [[unlikely]]
      tell_cost(c);
  }
  ~Watch() {
    if (begun_) [[unlikely]]
      profile::end_scope(this, 0, true);
  }
  Watch(const Watch&) = delete;

 private:
  void begin(const Call& c, bool knows_inputs) noexcept;
  void begin_new(const Call& c, profile::EventKind kind, uint64_t hash, uint32_t inputs);
  void tell_cost(const Call& c) noexcept;
  static void tell_uses(const Call& c, uint64_t node) noexcept;
  bool begun_ = false;
  bool is_new_ = false;  // its cost is not known yet
  uint32_t signature_ = 0;
};

namespace detail {
struct CapturedCall;
}

/// The same for captured calls that run as one.
class GroupWatch {
 public:
  /// `unmade`: bytes of results that need no memory.
  GroupWatch(std::span<detail::CapturedCall* const> calls, int64_t unmade) noexcept {
    if (profile::recording()) [[unlikely]]
      begin(calls, unmade);
  }
  void done() noexcept {
    if (begun_) profile::end_scope(this, node_);
    begun_ = false;
  }
  ~GroupWatch() {
    if (begun_) [[unlikely]]
      profile::end_scope(this, 0, true);
  }
  GroupWatch(const GroupWatch&) = delete;

 private:
  void begin(std::span<detail::CapturedCall* const> calls, int64_t unmade) noexcept;
  bool begun_ = false;
  uint64_t node_ = 0;
};

}  // namespace pellucid
