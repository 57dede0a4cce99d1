// Calls that were captured and run later. Each thread has one capture: a list of calls in program
// order, with their inputs and results as they were when the call was made. Views share storages,
// so they are no calls; an in-place change is a call that writes a storage it did not make.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/call_text.h"
#include "core/tape.h"
#include "pellucid/detail/inline_vec.h"
#include "pellucid/lazy.h"
#include "pellucid/op.h"
#include "recorder/recorder.h"
#include "tensor/mode.h"
#include "tensor/pending.h"

namespace pellucid::detail {

/// Mixes words into 128 bits, two at a time.
struct Hash128 {
  uint64_t a = 0x243f6a8885a308d3u, b = 0x13198a2e03707344u;
  void add(uint64_t x, uint64_t y) {
    a = profile::mix(a, x, y);
    b = profile::mix(b, y, x ^ 0xa4093822299f31d0u);
  }
};

/// A tensor as it was when a call was made. The capture keeps its storage.
struct CapturedView {
  Storage* storage;  ///< null for no tensor; the rest is set only where there is one
  uint32_t slot;     ///< of the storage, in the capture
  uint32_t dims;     ///< where its sizes begin in the call's list; the strides follow
  int64_t offset;
  DType dtype;  // these four as in TensorImpl: one word is copied
  bool wrapped_number, hidden_layout, inference;
  uint8_t rank;
  bool fresh;  ///< nobody but the call that was just made knows the storage
};

/// One call, with all that its kernel will need. What the program does to its own handles later
/// does not reach it.
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
  bool checks = false;  ///< its kernel must look at values that nobody looked at: it always runs
  uint64_t seed = 0, random_offset = 0;
  ProgramLine line;  ///< that made it, where somebody wants to know
  profile::LaterPlace place;
  uint64_t node = 0;  ///< the number of the tape's node that the call left, 0 for none
  /// Of a call that a program made: its inputs, and then its outputs.
  InlineVec<CapturedView, 4> views;
  InlineVec<int64_t, 12> dims;
  Hash128 form;  ///< of all that decides what runs, but for which storages are the same
  /// What the kernel gets. A program that was made before needs none of them: make_tensors.
  InlineVec<Tensor, 3> inputs;
  std::array<Tensor, Call::kMaxOutputs> outputs;
  bool has_tensors = false;  ///< made from the views
  InlineVec<Storage*, 2> writes;
  OwnedAttrs attrs;

  size_t input_count() const { return views.size() - output_count; }
  IntArrayRef sizes(const CapturedView& v) const { return {&dims[0] + v.dims, v.rank}; }
  IntArrayRef strides(const CapturedView& v) const { return {&dims[0] + v.dims + v.rank, v.rank}; }
  /// Makes the tensors of the views.
  void make_tensors();
  void drop_tensors() noexcept;
};

/// In Storage::user, for more than one capture, or one whose number is too large.
constexpr uint8_t kSeveral = 0xff;

/// In Storage::slot: the number of a capture and a place in its list of slots.
constexpr uint32_t kPlaceBits = 20;
constexpr uint32_t kPlace = (1u << kPlaceBits) - 1;

class Group;
/// What becomes of a captured call.
enum class Fate : uint8_t { Kept, Runs, Forgotten };

/// While it is set, captured calls know the line that made them.
extern constinit thread_local bool notes_callers;
/// Who wants to know what runs how; null for nobody.
extern constinit thread_local Explanation* explaining;
/// The most bytes that a program may need for its results, 0 for no limit.
extern constinit thread_local size_t memory_budget;
/// While it is set, captured calls compute again what was let go, so that nothing is kept.
extern constinit thread_local bool recomputing;

/// The calls of one thread that did not run yet. Any thread may make them run.
class Capture {
 public:
  /// That of this thread.
  static Capture& own() {
    if (Capture* const c = own_) [[likely]]
      return *c;
    return take_own();
  }
  /// `number`: of this capture, from 1 on; what storages know it by.
  explicit Capture(size_t number);

  void add(std::unique_ptr<CapturedCall> call);
  /// Runs what writes a storage, and what that needs.
  void run_writers(const Storage& s);
  /// Runs what reads or writes a storage: it is about to be changed by somebody else.
  void run_users(const Storage& s);
  /// In Storage::user: its number, or kSeveral.
  uint8_t user() const { return user_; }
  /// Runs all whose results the program can see, and forgets the rest.
  void flush();
  /// Calls run, and what is known of them changes, only while it is locked: for the fork of a
  /// process, too, whose child must not find it locked by a thread that it does not have.
  void lock();
  void unlock();

  /// Until allow_values(), this thread captures a program that must be whole: whoever asks for a
  /// value gets a ValueError that begins with `who`. With `give_up` it is called instead, once,
  /// with the reason; it ends that (allow_values_now), and the calls run as those of any capture.
  using GiveUp = std::function<void(std::string)>;
  void forbid_values(const char* who, GiveUp give_up = {});
  void allow_values() noexcept;
  /// The same where it is locked by this thread: for `give_up`.
  void allow_values_now() noexcept;
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
  /// How many captured calls write the storage.
  uint32_t pending_writes(const Storage& s) const;
  struct Use {
    bool written;  ///< by calls that did not run yet
    bool later;    ///< by calls that do not run now
  };
  Use use_of(const CapturedView& v) const {
    const Slot& slot = slots_[v.slot];
    return {.written = slot.writes != 0, .later = (slot.note & kUsedLater) != 0};
  }
  /// The place of a storage; UINT32_MAX if no captured call uses it.
  uint32_t slot_of(const Storage& s) const {
    const uint32_t slot = s.slot.load(std::memory_order_relaxed);
    if ((slot & ~kPlace) == tag_) [[likely]]
      return slot & kPlace;
    if (elsewhere_.empty()) [[likely]]
      return kNone;
    const auto found = elsewhere_.find(&s);
    return found == elsewhere_.end() ? kNone : found->second;
  }
  /// All places of storages have smaller numbers.
  size_t slot_count() const { return slots_.size(); }
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
  /// A storage that captured calls use. The capture holds one reference to it.
  struct Slot {
    Storage* storage;
    uint32_t uses;    // references of calls
    uint32_t writes;  // calls that write it
    uint8_t note;     // while it is decided which calls run
  };
  enum Note : uint8_t { kRead = 1, kWritten = 2, kReadByKept = 4, kUsedLater = 8 };
  class Turn;
  class UsedLater;

  static Capture& take_own();
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t slot_for(const CapturedView& v);
  uint32_t new_slot(const CapturedView& v);
  void release_slot(uint32_t slot) noexcept;
  void release_all(Capture* writer = nullptr) noexcept;
  template <class Wanted> void decide(const Wanted& wanted);
  template <class Wanted> void decide_on_earlier(const Wanted& wanted);
  void refuse();
  void refuse_to_split() const;
  template <class Wanted> void run(const Wanted& wanted, bool whole = false);
  void tell(std::span<const std::unique_ptr<CapturedCall>> calls, const Group* group);
  bool run_program(bool whole);
  size_t run_some(std::span<const std::unique_ptr<CapturedCall>> calls);
  void execute(CapturedCall& call);
  void release(CapturedCall& call) noexcept;
  bool holds_too_much();

  void note_user(Storage& s) const;
  void count_idle();

  static constinit thread_local Capture* own_;
  /// Held by whoever lets calls run. The thread whose capture it is adds calls without it: it says
  /// so in `adding_`, and goes to the mutex where another thread has stopped it.
  std::mutex mutex_;
  std::atomic<bool> adding_{false}, stopped_{false};
  std::vector<std::unique_ptr<CapturedCall>> calls_;
  const uint8_t user_;  // in Storage::user
  const uint32_t tag_;  // in Storage::slot
  std::vector<Slot> slots_;
  uint32_t free_slot_ = kNone;                              // the first of a list, linked by `uses`
  std::unordered_map<const Storage*, uint32_t> elsewhere_;  // slots of what others use, too
  std::vector<Fate> fates_;                                 // of the calls, while they run
  std::vector<CapturedCall*> chosen_;                       // those that run
  size_t kept_bytes_ = 0;                                   // that calls alone keep after these
  size_t idle_visits_ = 0;  // of calls that were looked at and did not run
  size_t held_bytes_ = 0;   // of storages that have memory
  size_t held_limit_ = 0;
  const char* forbidden_by_ = nullptr;
  GiveUp give_up_;
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
/// Whether the call is kept for later, in a thread that captures. Throws for values that its op
/// refuses.
bool captures(const Call& c, bool unknown_sizes);
/// Keeps a call whose results have storages without memory (core/call_capture.cpp). `node`: the
/// number of the tape's node that it leaves, 0 for none.
void capture(const Call& c, bool tracked, uint64_t node);
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
  /// The kernel alone, for a caller that watches several calls as one.
  void run_in_group();

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
