// Capturing a whole program, of which nothing runs until it is known: for trace() and for sealed
// functions.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/allocator.h"
#include "base/random.h"
#include "core/capture.h"
#include "pellucid/lazy.h"

namespace pellucid::detail {

/// Counts a call of a compiled function that begins (1) or ends (-1): in_compiled_call().
void count_compiled_call(int change);

/// This thread captures a whole program while it lives. What is left at its end is dropped.
class WholeCapture {
 public:
  /// `gave_up`: where it is given, whoever asks for a value gets it, and the program is no longer
  /// whole; it is told why.
  explicit WholeCapture(const char* who, std::string* gave_up = nullptr)
      : noted_(std::exchange(notes_callers, true)) {
    eval();  // what came before is no part of it
    random_ = default_generator().get_state();
    Capture::GiveUp give_up;
    if (gave_up)
      give_up = [this, gave_up](std::string why) {
        *gave_up = std::move(why);
        allow_arguments();
        own_.allow_values_now();
      };
    own_.forbid_values(who, std::move(give_up));
    lazy_.emplace();
  }
  ~WholeCapture() {
    allow_arguments();
    own_.discard();
    own_.allow_values();
    notes_callers = noted_;
  }
  WholeCapture(const WholeCapture&) = delete;
  Capture& capture() { return own_; }
  /// The generator's state before the first call.
  const PhiloxRange& random() const { return random_; }
  /// Runs what was captured.
  void run() {
    allow_arguments();
    own_.allow_values();
    eval();
  }
  /// A stand-in gets the values of a tensor.
  static void give(const Tensor& stand_in, const Tensor& values) {
    const ModeScope at_once(kCapture, false);
    const Tensor whole = values.detach().contiguous();
    Storage& s = *stand_in.impl().storage;
    s.data = allocate(s.bytes, s.category);
    if (whole.numel() > 0) std::memcpy(s.data, whole.const_data_ptr(), whole.nbytes());
    if (Capture::own().pending_writes(s) == 0) s.writer.store(nullptr, std::memory_order_release);
  }
  /// Whoever asks for their values is refused like one who asks for a result.
  void forbid_arguments(const Tensors& arguments) {
    for (const Tensor& t : arguments) {
      if (!t.defined() || !t.impl().storage || is_pending(*t.impl().storage)) continue;
      arguments_.push_back(t.impl().storage);
      t.impl().storage->writer.store(&own_, std::memory_order_release);
    }
  }

 private:
  Capture& own_ = Capture::own();
  void allow_arguments() noexcept {
    for (const Ref<Storage>& s : arguments_)
      if (own_.pending_writes(*s) == 0) s->writer.store(nullptr, std::memory_order_release);
    arguments_.clear();
  }

  const bool noted_;
  std::vector<Ref<Storage>> arguments_;
  PhiloxRange random_;
  std::optional<LazyGuard> lazy_;
};

}  // namespace pellucid::detail
