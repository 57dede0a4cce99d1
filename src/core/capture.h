// Calls that were captured and run later. Each thread has one capture: a list of calls in program
// order, with their inputs and results as they were when the call was made. Views share storages,
// so they are no calls; an in-place change is a call that writes a storage it did not make.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/call_text.h"
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
  DType default_dtype = get_default_dtype();  ///< decides the type that some kernels compute in
  bool unique = false;  ///< an equal call must not stand for it: recomputation
  uint64_t seed = 0, random_offset = 0;
  ProgramLine line;  ///< that made it, where somebody wants to know
  profile::LaterPlace place;
  uint64_t node = 0;  ///< the number of the tape's node that the call left, 0 for none
  InlineVec<Tensor, 3> inputs;
  std::array<Tensor, Call::kMaxOutputs> outputs;
  InlineVec<Storage*, 2> writes;
  OwnedAttrs attrs;
};

/// Parts of Storage::note: what a capture notes while it decides which calls run, and above that
/// the number of the one capture whose calls ever used the storage; 0 for none, kSeveral for more.
constexpr uint8_t kNoteMarks = 0x0f, kSeveral = 0x0f;
inline uint8_t user_of(const Storage& s) {
  return static_cast<uint8_t>(s.note.load(std::memory_order_acquire) >> 4);
}

class Group;
/// What becomes of a captured call.
enum class Fate : uint8_t { Kept, Runs, Forgotten };

/// While it is set, captured calls know the line that made them.
extern constinit thread_local bool notes_callers;
/// The most bytes that a program may need for its results, 0 for no limit.
extern constinit thread_local size_t memory_budget;
/// While it is set, captured calls compute again what was let go, so that nothing is kept.
extern constinit thread_local bool recomputing;

/// The calls of one thread that did not run yet. Any thread may make them run.
class Capture {
 public:
  explicit Capture(uint8_t number = 0) : number_(number) {}
  /// That of this thread.
  static Capture& own();

  void add(std::unique_ptr<CapturedCall> call);
  /// Runs what writes a storage, and what that needs.
  void run_writers(const Storage& s);
  /// Runs what reads or writes a storage: it is about to be changed by somebody else.
  void run_users(const Storage& s);
  uint8_t number() const { return number_; }
  /// Runs all whose results the program can see, and forgets the rest.
  void flush();
  /// Across a fork: a child must not find it held by a thread that it does not have.
  void hold() { mutex_.lock(); }
  void let_go() { mutex_.unlock(); }

  /// Until allow(), this thread captures a program that must be whole: whoever asks for a value
  /// gets a ValueError that begins with `who`.
  void forbid_values(const char* who);
  void allow_values() noexcept;
  /// While it is set, whoever asks for a value on this thread gets a ValueError that begins with
  /// it: a program that must not be split. All runs at the end as ever. Returns what was set.
  const char* require_whole(const char* who) { return std::exchange(whole_for_, who); }
  /// The calls that flush() would run, in order.
  std::vector<CapturedCall*> to_flush();
  /// Takes back what captured calls did to versions and gradients of other tensors.
  void restore() noexcept;
  /// Drops all calls: tensors that they would have changed are as before, and what they would have
  /// made has no values.
  void discard() noexcept;
  /// A change of a tensor that discard() takes back.
  void will_change(Storage& s);
  void will_change_gradient(const Tensor& leaf, const Tensor& before);
  bool forbids_values() const { return forbidden_by_ != nullptr; }
  /// Leaves whose gradients changed since forbid_values(), with what they were before.
  std::span<const std::pair<Tensor, Tensor>> changed_gradients() const { return gradients_; }
  /// What may change between two runs of the program that is captured (note_live_number).
  std::vector<std::pair<Ref<Storage>, std::function<Tensor()>>> live_numbers;
  /// What the program that is captured relies on (note_assumption).
  std::vector<std::function<uint64_t()>> assumptions;
  /// Tensors that the program which is captured makes from values of its own (new_values).
  std::vector<Ref<Storage>> constants;
  /// A storage without memory that stands for an input of a traced program.
  Ref<Storage> stand_in(size_t bytes);

 private:
  template <class Wanted> std::vector<Fate> decide(const Wanted& wanted);
  [[noreturn]] void refuse() const;
  void refuse_to_split() const;
  template <class Wanted> void run(const Wanted& wanted, bool whole = false);
  void tell(std::span<const std::unique_ptr<CapturedCall>> calls, const Group* group);
  bool run_program(std::span<const Fate> fates, bool whole);
  size_t run_some(std::span<const std::unique_ptr<CapturedCall>> calls);
  void execute(CapturedCall& call);
  void release(CapturedCall& call) noexcept;
  bool holds_too_much();

  void note_user(Storage& s) const;
  void count_idle(std::span<const Fate> fates);

  const uint8_t number_;  // among all captures, at most kSeveral
  std::mutex mutex_;
  std::vector<std::unique_ptr<CapturedCall>> calls_;
  size_t idle_visits_ = 0;  // of calls that were looked at and did not run
  size_t held_bytes_ = 0;   // of storages that have memory
  size_t held_limit_ = 0;
  const char* forbidden_by_ = nullptr;
  const char* whole_for_ = nullptr;
  std::vector<std::pair<Ref<Storage>, uint32_t>> versions_;  // before they were changed
  std::vector<std::pair<Tensor, Tensor>> gradients_;         // leaves, and their gradients before
  std::unordered_set<const void*>
      changed_;  // the storages and leaves of these two, which hold them
};

/// How often captured calls ran because somebody needed what they read or write, in the process.
extern constinit std::atomic<int64_t> forced_runs;

/// A storage without memory, for the result of a captured call.
Ref<Storage> pending_storage(size_t bytes);
/// Before a change of a storage is captured: runs the calls of other captures that still use it.
void run_users_elsewhere(const Storage& s, const Capture* own);
/// Runs the kernel of a captured call (core/call.cpp).
void run_captured(CapturedCall& call);
/// A captured call that is ready to run any number of times.
class PreparedCall {
 public:
  explicit PreparedCall(CapturedCall& call);
  ~PreparedCall();
  PreparedCall(const PreparedCall&) = delete;
  /// What it reads beside tensors changed.
  void take_parameters();
  void run();

 private:
  struct Ready;
  std::unique_ptr<Ready> ready_;
};
/// Lets the kernel say what it would run, for an op that describes itself.
void describe_captured(CapturedCall& call, kernels::TileStep& step);
/// Calls f with a captured call as its kernel would see it.
void with_captured(CapturedCall& call, const std::function<void(const Call&)>& f);
/// Asks the environment for this thread's modes.
void choose_modes();

}  // namespace pellucid::detail
