// Recording what a program does. `pellucid profile -- PROGRAM` needs nothing of this; a program
// that wants to record a part of itself, or to name its own parts, uses it:
//
//   ProfilerSession session("step.pellucid");       // records until stop() or the end of the scope
//   { RecordFunction scope("forward"); y = model->forward(x); }
//   profile::Profile p = session.stop();            // also written to the file
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "pellucid/profile.h"

namespace pellucid {

namespace profile {
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
};
}  // namespace profile

/// Names a part of the program in its profile, until the end of the scope.
class PELLUCID_API RecordFunction {
 public:
  explicit RecordFunction(std::string_view name,
                          profile::EventKind kind = profile::EventKind::User) noexcept {
    if (profile::recording()) [[unlikely]]
      begin(name, kind);
  }
  ~RecordFunction() {
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

/// Records from its making until stop(), from all threads of the program. One at a time.
class PELLUCID_API ProfilerSession {
 public:
  /// Without a file the profile is only returned. Throws ValueError where a recording runs already.
  explicit ProfilerSession(std::string file = {}, profile::RecorderOptions options = {});
  ~ProfilerSession();  ///< stops; what goes wrong then is lost
  ProfilerSession(const ProfilerSession&) = delete;
  /// Ends the recording, writes the file and returns the profile.
  profile::Profile stop();

 private:
  std::string file_, folder_;
  bool running_ = false;
};

namespace profile {
/// Reads the raw files of a recording that ended, or whose program did.
PELLUCID_API Profile collect(const std::string& folder);
/// Marks that a step (an iteration of training) begins; the one before ends.
PELLUCID_API void begin_step();
/// Ends the last step.
PELLUCID_API void end_step();
/// What recording one event costs here, in nanoseconds (of Count: one call, of Sample: telling the
/// sampler of one op): one-element additions with and without a recording. 0 where one runs.
PELLUCID_API double measure_event_cost(Mode mode = Mode::Trace);
/// Notes in a profile that was collected what recording it took, by its mode; measured once in a
/// process.
PELLUCID_API void state_recording_cost(Profile& p);
}  // namespace profile

}  // namespace pellucid
