// Recording what a program does. `pellucid profile -- PROGRAM` needs nothing of this; a program
// that wants to record a part of itself, or to name its own parts, uses it:
//
//   ProfilerSession session("step.pellucid");       // records until stop() or the end of the scope
//   { RecordFunction scope("forward"); y = model->forward(x); }
//   profile::Profile p = session.stop();            // also written to the file
#pragma once

#include <string>

#include "pellucid/profile.h"
#include "pellucid/recorder.h"

namespace pellucid {

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
  bool sources_ = true;
  bool running_ = false;
};

namespace profile {
/// Reads the raw files of a recording that ended, or whose program did.
PELLUCID_API Profile collect(const std::string& folder);
/// What recording one event costs here, in nanoseconds (of Count: one call, of Sample: telling the
/// sampler of one op): one-element additions with and without a recording. 0 where one runs.
PELLUCID_API double measure_event_cost(Mode mode = Mode::Trace);
/// Notes in a profile that was collected what recording it took, by its mode; measured once in a
/// process.
PELLUCID_API void state_recording_cost(Profile& p);
}  // namespace profile

}  // namespace pellucid
