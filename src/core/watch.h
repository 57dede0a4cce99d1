// What the door tells the recorder: which call this is, where it came from, when it began and
// ended. Off, it is a load and a branch.
#pragma once

#include "pellucid/op.h"
#include "profile/recorder.h"

namespace pellucid {

class Watch {
 public:
  explicit Watch(const Call& c) noexcept {
    if (profile::recording()) [[unlikely]]
      begin(c);
  }
  /// The call is done: its cost is known, and the number of the node it left, 0 for none.
  void done(const Call& c, uint64_t node = 0) noexcept {
    if (begun_) [[unlikely]]
      end(c, node);
  }
  ~Watch() {
    if (begun_) [[unlikely]]
      profile::end_scope(this, 0, true);
  }
  Watch(const Watch&) = delete;

 private:
  void begin(const Call& c) noexcept;
  void end(const Call& c, uint64_t node) noexcept;
  bool begun_ = false;
  bool is_new_ = false;  // its cost is not known yet
  uint32_t signature_ = 0;
};

}  // namespace pellucid
