// What a program tells the recorder, which runs inside it: named scopes and steps. Reading what was
// recorded is in pellucid/profiler.h and pellucid/profile.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "pellucid/api.h"

namespace pellucid {

namespace profile {
/// What an event is. Ops are the leaves that have a cost; all others are scopes around them.
enum class EventKind : uint8_t {
  Op,         ///< an op with a kernel, or a view
  Composite,  ///< an op that is written with other ops
  Module,     ///< a module's forward
  Backward,   ///< a node of the tape that runs its vjp
  Engine,     ///< a whole run of backward()
  Optimizer,  ///< a step of an optimiser
  Wait,       ///< waiting for data
  User,       ///< RecordFunction
  Step,       ///< one step of a schedule, or one iteration marked by the program
};
inline constexpr int kEventKindCount = 9;
PELLUCID_API std::string_view name_of(EventKind kind);

/// How much is recorded: calls are counted, the stack is looked at now and then, or every op and
/// scope is written down with its times.
enum class Mode : uint8_t { Off, Count, Sample, Trace };

namespace detail {
PELLUCID_API extern std::atomic<Mode> mode;
}
/// Whether anything is recorded now: the one question that is asked when nothing is.
inline bool recording() noexcept {
#ifdef PELLUCID_NO_RECORDER  // bench/run profiler compares with a library that cannot record
  return false;
#else
  return detail::mode.load(std::memory_order_relaxed) != Mode::Off;
#endif
}

/// What to record.
struct RecorderOptions {
  Mode mode = Mode::Trace;
  std::string folder;                ///< for the raw files; it is made
  double sample_rate = 199;          ///< per second and thread, of processor time
  bool memory = true;                ///< allocations too
  bool stacks = false;               ///< the whole stack of each op
  int64_t limit = int64_t{4} << 30;  ///< the most bytes of events of one thread
  /// Of this step, counted from 1, it is recorded which blocks of memory each op reads, writes and
  /// saves; 0: of none. A step ends with begin_step() or with an optimiser's step.
  int chosen_step = 2;
  bool sources = true;  ///< keep the text of the program's own source files
};

/// A counter of the machine or the system over the whole run, or why there is none.
struct Counter {
  std::string name;  ///< "cycles", "page-faults"
  double value = 0;
  std::string missing;  ///< not empty: why it could not be read
};

/// Marks that a step (an iteration of training) begins; the one before ends.
PELLUCID_API void begin_step();
/// Ends the last step.
PELLUCID_API void end_step();
/// States something of the run for whoever reads its profile: "run_folder", "/home/me/runs/mnist".
PELLUCID_API void state_fact(std::string_view key, std::string_view value) noexcept;
}  // namespace profile

/// Names a part of the program in its profile, until the end of the scope. Always inlined, so that
/// the program's own line calls the library, whatever the optimisation.
class PELLUCID_API RecordFunction {
 public:
  [[gnu::always_inline]] explicit RecordFunction(
      std::string_view name, profile::EventKind kind = profile::EventKind::User) noexcept {
    if (profile::recording()) [[unlikely]]
      begin(name, kind);
  }
  [[gnu::always_inline]] ~RecordFunction() {
    if (begun_) [[unlikely]]
      end();
  }
  RecordFunction(const RecordFunction&) = delete;
  RecordFunction& operator=(const RecordFunction&) = delete;

 private:
  void begin(std::string_view name, profile::EventKind kind) noexcept;
  void end() noexcept;
  bool begun_ = false;
  int exceptions_ = 0;
};

}  // namespace pellucid
