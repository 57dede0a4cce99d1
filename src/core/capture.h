// Calls that were captured and run later. Each thread has one capture: a list of calls in program
// order, with their inputs and results as they were when the call was made. Views share storages,
// so they are no calls; an in-place change is a call that writes a storage it did not make.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/tape.h"
#include "pellucid/detail/inline_vec.h"
#include "pellucid/op.h"
#include "recorder/recorder.h"
#include "tensor/mode.h"
#include "tensor/pending.h"

namespace pellucid::detail {

/// One call, with all that its kernel will need. The tensors are aliases: what the program does to
/// its own handles later does not reach them.
struct CapturedCall {
  explicit CapturedCall(const OpDef& definition) : op(definition) {}
  static void* operator new(size_t bytes) { return pool_allocate(bytes); }
  static void operator delete(void* p, size_t bytes) { pool_release(p, bytes); }
  const OpDef& op;
  bool in_place = false;
  bool tracked = false;  ///< a gradient may be asked for, so hidden outputs are wanted
  uint8_t output_count = 0;
  MemoryCategory category = MemoryCategory::Other;
  uint64_t seed = 0, random_offset = 0;
  profile::LaterPlace place;
  uint64_t node = 0;  ///< the number of the tape's node that the call left, 0 for none
  InlineVec<Tensor, 3> inputs;
  std::array<Tensor, Call::kMaxOutputs> outputs;
  InlineVec<Storage*, 2> writes;
  OwnedAttrs attrs;
};

class Group;

/// The calls of one thread that did not run yet. Any thread may make them run.
class Capture {
 public:
  /// That of this thread.
  static Capture& own();

  void add(std::unique_ptr<CapturedCall> call);
  /// Runs what writes a storage, and what that needs.
  void run_writers(const Storage& s);
  /// Runs what reads or writes a storage: it is about to be changed by somebody else.
  void run_users(const Storage& s);
  /// Runs all whose results the program can see, and forgets the rest.
  void flush();
  /// Across a fork: a child must not find it held by a thread that it does not have.
  void hold() { mutex_.lock(); }
  void let_go() { mutex_.unlock(); }

 private:
  template <class Wanted> void run(const Wanted& wanted);
  void tell(std::span<const std::unique_ptr<CapturedCall>> calls, const Group* group);
  size_t run_some(std::span<const std::unique_ptr<CapturedCall>> calls);
  void execute(CapturedCall& call);
  void release(CapturedCall& call) noexcept;
  bool holds_too_much();

  std::mutex mutex_;
  std::vector<std::unique_ptr<CapturedCall>> calls_;
  size_t held_bytes_ = 0;  // of storages that have memory
  size_t held_limit_ = 0;
};

/// How often captured calls ran because somebody needed what they read or write, in the process.
extern constinit std::atomic<int64_t> forced_runs;

/// A storage without memory, for the result of a captured call.
Ref<Storage> pending_storage(size_t bytes);
/// Before a change of a storage is captured: runs the calls of other captures that still use it.
void run_users_elsewhere(const Storage& s, const Capture* own);
/// Runs the kernel of a captured call (core/call.cpp).
void run_captured(CapturedCall& call);
/// Lets the kernel say what it would run, for an op that describes itself.
void describe_captured(CapturedCall& call, kernels::TileStep& step);
/// Calls f with a captured call as its kernel would see it.
void with_captured(CapturedCall& call, const std::function<void(const Call&)>& f);
/// Asks the environment for this thread's modes.
void choose_modes();

}  // namespace pellucid::detail
