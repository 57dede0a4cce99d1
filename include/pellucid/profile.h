// What a recorded run did: every op and scope with its times, where it came from, what it cost, and
// the memory it took. A Profile is read from the one file that `pellucid profile` or a
// ProfilerSession wrote (SQLite; docs/profile-format.md); reports, exports and the viewer read
// nothing else.
//
// Times are nanoseconds since the start of the recording. Indices refer to the vectors of Profile;
// -1 means none.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pellucid/api.h"
#include "pellucid/dtype.h"
#include "pellucid/machine.h"
#include "pellucid/memory.h"
#include "pellucid/recorder.h"

namespace pellucid::profile {

/// Which part of training an event belongs to: inside a backward run, inside an optimiser's step,
/// or neither.
enum class Phase : uint8_t { Forward, Backward, Optimizer };
PELLUCID_API std::string_view name_of(Phase phase);

/// One tensor of a call.
struct TensorInfo {
  DType dtype = kFloat32;
  std::vector<int64_t> sizes;
};

/// What was called, with what: one for each different call. Scopes have a name and a kind alone.
struct Signature {
  EventKind kind = EventKind::Op;
  std::string name;     ///< "addmm", "Conv2d", "AddmmBackward0", "training step"
  std::string op_kind;  ///< of an op: "contraction", "pointwise", "reduction", "view"…
  std::vector<TensorInfo> inputs, outputs;
  std::string attributes;        ///< "stride=[2, 2], padding=[3, 3]"
  double flops = 0;              ///< of one call, all that it does
  double contraction_flops = 0;  ///< the multiply-adds of products and convolutions, two each
  double bytes = 0;              ///< the least that must move
  bool has_cost = false;  ///< whether the cost is known; views cost nothing, and that is known
};

/// A line of the program.
struct Site {
  std::string file;  ///< as the compiler or Python knew it; "" where unknown
  int line = 0;
  std::string function;  ///< the function that contains the line; "" where unknown
  std::string object;    ///< the executable or library it lies in; "" for Python
  bool python = false;
};

/// A place in a model: the outermost module has the path "".
struct ModuleInfo {
  int32_t parent = -1;
  std::string name;                             ///< "conv1"; for the outermost one its type
  std::string path;                             ///< "layer1.0.conv1"
  std::string type;                             ///< "Conv2d"
  int64_t parameters = 0, parameter_bytes = 0;  ///< its own, without those of modules below
};

struct Thread {
  int32_t process = 0, id = 0;  ///< as the system numbers them
  std::string name;
};

/// One op or scope. Events of a thread are sorted by begin, parents before their children.
struct Event {
  int64_t begin = 0, end = 0;
  int32_t parent = -1;
  int32_t signature = -1;
  int32_t thread = 0;
  int32_t site = -1;     ///< the program's line; for backward work the line of the forward call
  int32_t module = -1;   ///< the innermost module; for backward work that of the forward call
  int32_t forward = -1;  ///< for a Backward scope: the op that made the node
  int32_t stack = -1;    ///< the whole stack of the call, where stacks were asked for
  int32_t step = -1;     ///< how many Step events were begun before, minus one
  int64_t self = 0;      ///< end - begin without what its children took
  int64_t allocated = 0, freed = 0;  ///< bytes, by this event alone without its children
  uint32_t inputs = 0;  ///< of an op: the same for calls that read the same values; 0: not known
  Phase phase = Phase::Forward;
  bool threw = false;  ///< left by an exception
  bool open = false;   ///< not finished when the recording ended (a crash, a kill)
};

/// A block of memory from its allocation to its free.
struct Allocation {
  int64_t begin = 0, end = -1;  ///< -1: still alive at the end
  int64_t bytes = 0;
  int32_t event = -1;     ///< the innermost event that was running when it was allocated
  int32_t freed_by = -1;  ///< the innermost event that was running when it was freed
  int32_t thread = 0;
  MemoryCategory category = MemoryCategory::Other;
  /// Alive when the recording of its process began. A block that was freed later has a row of its
  /// own; those that stayed have one row for each category.
  bool before = false;
  uint64_t address = 0;  ///< in the program; 0 where it is not known (files before version 5)
  /// Its place, and that of its free, among all blocks that were taken and given back: times may be
  /// equal, these are not. -1 where that is not known (files before version 4), or not freed.
  int64_t order = -1, freed_order = -1;
};

/// A moment in which a thread did not get on because of the system.
struct Stall {
  enum class Kind : uint8_t {
    PageFault,  ///< a page of memory was not there yet
    Waiting,    ///< the thread gave up its core until something happens
    Preempted,  ///< its core was given to somebody else
  };
  Kind kind = Kind::PageFault;
  int64_t begin = 0;
  int64_t duration = 0;  ///< 0 where the end was not seen
  int32_t thread = 0;
  int32_t event = -1;  ///< the innermost event then; for a thread of the pool that of its caller
  int64_t count = 1;   ///< more than one where only their number is known, and not when each was
};
PELLUCID_API std::string_view name_of(Stall::Kind kind);

/// One frame of a call stack; a stack is named by its innermost frame.
struct Frame {
  int32_t parent = -1;  ///< the frame that called
  int32_t site = -1;
};

/// A stack seen by the sampler.
struct Sample {
  int64_t at = 0;
  int32_t thread = 0;
  int32_t stack = -1;
  int32_t signature = -1;  ///< the innermost op or scope of the thread
  int32_t site = -1;       ///< and its line
};

/// How a run was recorded and how it ended.
struct RunInfo {
  std::string program;            ///< the command line
  std::string mode = "trace";     ///< "count", "sample" or "trace"
  std::string version;            ///< of pellucid
  std::string started;            ///< "2026-11-16T10:00:00Z"
  std::string isa;                ///< the kernels' ISA level: "v3"; "" where unknown
  int threads = 0;                ///< that ops could use when the recording ended; 0: unknown
  int64_t duration = 0;           ///< nanoseconds from the start to the end of the recording
  int exit_code = 0, signal = 0;  ///< of the program; signal 0 where it ended by itself
  bool complete = true;           ///< whether the program closed its recording
  int64_t dropped = 0;            ///< events beyond the limit
  /// Measured nanoseconds that recording one event takes; in mode "count" counting one call, in
  /// mode "sample" telling the sampler of one op or scope.
  double event_cost = 0;
  int64_t scopes = 0;              ///< mode "sample": ops and scopes that told it of themselves
  double sample_cost = 0;          ///< mode "sample": measured nanoseconds that one sample takes
  int64_t recorded_bytes = 0;      ///< of the raw events
  double sample_rate = 0;          ///< per second, for samples
  int64_t peak_memory = 0;         ///< of the allocator, in bytes; 0 where unknown
  int64_t memory_at_start = 0;     ///< bytes that were alive when the recording began
  std::string stalls_missing;      ///< not empty: why page faults and switches were not recorded
  int64_t stalls_lost = 0;         ///< how many of them found no room
  std::vector<std::string> notes;  ///< what was not recorded, or not as usual, and why
  std::string folder;              ///< in which the program started; "" where unknown
  std::string revision;            ///< the commit that was checked out there; "" where unknown
  /// What the program stated of its run ("run_folder": "/home/me/runs/mnist") and the variables
  /// PELLUCID_… that it was started with.
  std::vector<std::pair<std::string, std::string>> facts, variables;
  int format = 0;  ///< the version of the file that it was read from; 0: not from a file
};

/// One file of the program's own source, as it was when the recording ended.
struct SourceFile {
  std::string file;  ///< as the sites name it
  std::string hash;  ///< SHA-256 of its bytes, in hexadecimal
  std::string text;
};

/// What an op of the chosen step did with a block of memory.
struct BlockUse {
  enum class Kind : uint8_t {
    Read,
    Write,
    Saved,  ///< kept for backward by the node that the op left on the tape
  };
  int32_t event = -1;
  int32_t allocation = -1;
  Kind kind = Kind::Read;
  std::string name;  ///< of a saved one: "input", "result"
};
PELLUCID_API std::string_view name_of(BlockUse::Kind kind);

/// How often something was called, for the mode that counts.
struct CallCount {
  int32_t signature = -1, site = -1;
  int64_t calls = 0;
};

/// A whole recording.
struct PELLUCID_API Profile {
  RunInfo run;
  MachineCeilings machine;
  std::vector<Thread> threads;
  std::vector<Signature> signatures;
  std::vector<Site> sites;
  std::vector<ModuleInfo> modules;
  std::vector<Event> events;
  std::vector<Allocation> allocations;
  std::vector<Frame> frames;
  std::vector<Sample> samples;
  std::vector<CallCount> counts;
  std::vector<Counter> counters;
  std::vector<SourceFile> sources;
  std::vector<BlockUse> uses;  ///< of the chosen step
  std::vector<Stall> stalls;   ///< of threads that called ops or worked for them, sorted by begin

  /// Reads a profile; throws IoError for a file that is missing, damaged, foreign or of a newer
  /// version, and says which.
  static Profile load(const std::string& file);
  /// Writes it under a temporary name, then puts it in place.
  void save(const std::string& file) const;
};

}  // namespace pellucid::profile
