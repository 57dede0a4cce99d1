#include "core/capture.h"

#include <pthread.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/allocator.h"
#include "base/env.h"
#include "base/parallel.h"
#include "base/random.h"
#include "base/text.h"
#include "core/autograd_meta.h"
#include "core/capture_check.h"
#include "core/fuse.h"
#include "core/program.h"
#include "pellucid/lazy.h"
#include "tensor/phantom.h"

namespace pellucid {
namespace detail {

namespace {

constexpr size_t kMostCalls = 65'536;
constexpr size_t kMostHeld = size_t{256} << 20;  // bytes that only the capture keeps alive
// Some calls of a capture run as a program from here on: for fewer, finding it costs what it saves.
constexpr size_t kLeastPart = 16;
// Whoever asks for one value after the other looks at all calls each time. What was looked at in
// vain may be this much more than what ran; then all runs at once.
constexpr size_t kMostIdleVisits = size_t{1} << 20, kVisitsForEachRun = 16;

// The capture whose calls this thread runs.
constinit thread_local Capture* executing = nullptr;

// Who wants to know what runs how.
constinit thread_local Explanation* explaining = nullptr;

constinit thread_local int64_t missed = 0;  // see programs_missed

struct Executing {
  explicit Executing(Capture* c) : outer(std::exchange(executing, c)) {}
  ~Executing() { executing = outer; }
  Executing(const Executing&) = delete;
  Capture* const outer;
};

/// All captures of the process. One outlives its thread, for the sake of its pending tensors, and
/// serves another thread later.
struct Captures {
  std::mutex mutex;
  std::vector<Capture*> all, idle;
  static Captures& get() {
    static auto* const captures = [] {
      // What captured calls need is held after the captures are: its handlers come first.
      memory_stats();
      default_generator();
      pthread_atfork(hold_all, let_go_all, let_go_all);
      return new Captures;  // tensors may outlive static objects
    }();
    return *captures;
  }
  static void hold_all() {
    get().mutex.lock();
    for (Capture* c : get().all) c->lock();
  }
  static void let_go_all() {
    for (Capture* c : get().all) c->unlock();
    get().mutex.unlock();
  }
  Capture* take() {
    const std::lock_guard lock(mutex);
    if (!idle.empty()) {
      Capture* c = idle.back();
      idle.pop_back();
      return c;
    }
    return all.emplace_back(new Capture(all.size() + 1));
  }
  void put_back(Capture* c) {
    const std::lock_guard lock(mutex);
    idle.push_back(c);
  }
  /// Those whose calls may use a storage.
  std::vector<Capture*> users_of(const Storage& s) {
    const uint8_t user = s.user.load(std::memory_order_acquire);
    const std::lock_guard lock(mutex);
    if (user == kSeveral) return all;
    if (user == 0) return {};
    return {all[user - 1u]};
  }
};

// Whether the program has a handle of the storage, or something that it may read it through.
bool seen(const Storage& s) { return holders(s) > 0; }

bool any_seen(const InlineVec<Storage*, 2>& storages) {
  return std::any_of(storages.begin(), storages.end(), [](const Storage* s) { return seen(*s); });
}

// Storage::slot is the number of a capture and a place in its list of slots.
constexpr uint32_t kPlaceBits = 20;
constexpr uint32_t kPlace = (1u << kPlaceBits) - 1;
// What no storage has: captures whose number is too large find all slots in `elsewhere_`.
constexpr uint32_t kNoTag = 1;

}  // namespace

/// While it lives, what calls that are kept will use is known as such (used_later): the calls that
/// run now must leave it in memory of its own.
class Capture::UsedLater {
 public:
  explicit UsedLater(Capture& capture) : capture_(capture) {
    for (size_t i = 0; i < capture.calls_.size(); ++i) {
      if (capture.fates_[i] != Fate::Kept) continue;
      for (const CapturedView& v : capture.calls_[i]->views)
        if (v.storage && capture.slots_[v.slot].writes != 0) {
          capture.slots_[v.slot].note = kUsedLater;
          marked_ = true;
        }
    }
  }
  ~UsedLater() {
    if (marked_)
      for (Slot& slot : capture_.slots_) slot.note = 0;
  }
  UsedLater(const UsedLater&) = delete;

 private:
  Capture& capture_;
  bool marked_ = false;
};

/// While it lives, the thread of a capture adds a call, and no other thread lets calls run.
class Capture::Turn {
 public:
  explicit Turn(Capture& c) : capture_(c) {
    c.adding_.exchange(true, std::memory_order_seq_cst);
    if (!c.stopped_.load(std::memory_order_seq_cst)) [[likely]]
      return;
    c.adding_.store(false, std::memory_order_release);
    c.mutex_.lock();
    waited_ = true;
  }
  ~Turn() {
    if (waited_)
      capture_.mutex_.unlock();
    else
      capture_.adding_.store(false, std::memory_order_release);
  }
  Turn(const Turn&) = delete;

 private:
  Capture& capture_;
  bool waited_ = false;
};

int64_t programs_missed() { return missed; }

constinit thread_local bool notes_callers = false;
constinit thread_local bool recomputing = false;
constinit thread_local size_t memory_budget = 0;

constinit thread_local Capture* Capture::own_ = nullptr;

Capture::Capture(size_t number)
    : user_(static_cast<uint8_t>(std::min<size_t>(number, kSeveral))),
      tag_(number < (size_t{1} << (32 - kPlaceBits)) ? static_cast<uint32_t>(number << kPlaceBits)
                                                     : kNoTag) {}

Capture& Capture::take_own() {
  struct Own {
    Capture* capture = Captures::get().take();
    ~Own() {
      own_ = nullptr;
      Captures::get().put_back(capture);
    }
  };
  thread_local const Own own;
  own_ = own.capture;
  return *own_;
}

void Capture::lock() {
  mutex_.lock();
  if (this == own_) return;  // its thread is here, and adds nothing
  stopped_.store(true, std::memory_order_seq_cst);
  while (adding_.load(std::memory_order_seq_cst)) std::this_thread::yield();
}

void Capture::unlock() {
  stopped_.store(false, std::memory_order_release);
  mutex_.unlock();
}

uint32_t Capture::slot_of(const Storage& s) const {
  const uint32_t slot = s.slot.load(std::memory_order_relaxed);
  if ((slot & ~kPlace) == tag_) [[likely]]
    return slot & kPlace;
  if (elsewhere_.empty()) [[likely]]
    return kNone;
  const auto found = elsewhere_.find(&s);
  return found == elsewhere_.end() ? kNone : found->second;
}

inline uint32_t Capture::slot_for(const CapturedView& v) {
  const uint32_t known = v.fresh ? kNone : slot_of(*v.storage);
  if (known == kNone) return new_slot(v);
  ++slots_[known].uses;
  return known;
}

uint32_t Capture::new_slot(const CapturedView& v) {
  Storage& s = *v.storage;
  uint32_t place = free_slot_;
  if (place == kNone) [[likely]] {
    place = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    free_slot_ = slots_[place].uses;
  }
  const bool fits = tag_ != kNoTag && place <= kPlace;
  uint32_t none = 0;
  if (v.fresh && fits) {
    s.slot.store(tag_ | place, std::memory_order_relaxed);
    s.refs.store(2, std::memory_order_relaxed);
    s.captured.store(1, std::memory_order_relaxed);
    s.user.store(user_, std::memory_order_relaxed);
  } else {
    note_user(s);
    // Of several captures that use a storage, the first finds its slot there.
    if (!fits || !s.slot.compare_exchange_strong(none, tag_ | place, std::memory_order_relaxed))
      elsewhere_.emplace(&s, place);
    s.refs.fetch_add(1, std::memory_order_relaxed);
    s.captured.fetch_add(1, std::memory_order_relaxed);
    if (s.data) held_bytes_ += s.bytes;
  }
  slots_[place] = {.storage = &s, .uses = 1, .writes = 0, .note = 0};
  return place;
}

// The last call that used it is gone.
inline void Capture::release_slot(uint32_t place) noexcept {
  Storage* const s = std::exchange(slots_[place].storage, nullptr);
  if (s->slot.load(std::memory_order_relaxed) == (tag_ | place))
    s->slot.store(0, std::memory_order_relaxed);
  else
    elsewhere_.erase(s);
  if (s->refs.load(std::memory_order_acquire) == 1)  // nobody else can reach it
    s->captured.store(0, std::memory_order_relaxed);
  else
    s->captured.fetch_sub(1, std::memory_order_release);
  Ref<Storage>::adopt(s).reset();
}

uint32_t Capture::pending_writes(const Storage& s) const {
  const uint32_t slot = slot_of(s);
  return slot == kNone ? 0 : slots_[slot].writes;
}

void CapturedCall::make_tensors() {
  if (std::exchange(has_tensors, true)) return;
  const auto tensor = [&](CapturedView& v) {
    if (!v.storage) return Tensor();
    v.fresh = false;
    Ref<TensorImpl> impl = new_impl(v.dtype, sizes(v));
    impl->strides = strides(v);
    impl->offset = v.offset;
    impl->wrapped_number = v.wrapped_number;
    impl->hidden_layout = v.hidden_layout;
    impl->inference = v.inference;
    impl->storage = Ref<Storage>::share(v.storage);
    v.storage->captured.fetch_add(1, std::memory_order_relaxed);
    return Tensor(std::move(impl));
  };
  try {
    inputs.reserve(input_count());
    for (size_t i = 0; i < input_count(); ++i) inputs.emplace_back(tensor(views[i]));
    for (size_t k = 0; k < output_count; ++k) outputs[k] = tensor(views[input_count() + k]);
  } catch (...) {
    drop_tensors();
    throw;
  }
}

void CapturedCall::drop_tensors() noexcept {
  if (!std::exchange(has_tensors, false)) return;
  const auto drop = [](Tensor& t) {
    if (t.defined()) t.impl().storage->captured.fetch_sub(1, std::memory_order_release);
    t.reset();
  };
  for (Tensor& t : inputs) drop(t);
  for (Tensor& t : outputs) drop(t);
  inputs.clear();
}

void Capture::add(std::unique_ptr<CapturedCall> call) {
  bool full = false;
  {
    const Turn turn(*this);
    if (calls_.size() == calls_.capacity())  // before anything is counted
      calls_.reserve(std::max<size_t>(16, calls_.size() * 2));
    for (CapturedView& v : call->views)
      if (v.storage) v.slot = slot_for(v);
    for (Storage* s : call->writes) {
      ++slots_[slot_of(*s)].writes;
      s->writer.store(this, std::memory_order_release);
    }
    if (calls_.empty()) busy_captures.fetch_add(1, std::memory_order_relaxed);
    calls_.push_back(std::move(call));
    full = !forbidden_by_ && (calls_.size() >= kMostCalls ||
                              (held_bytes_ > std::max(held_limit_, kMostHeld) && holds_too_much()));
  }
  if (full) flush();
}

// So that whoever changes the storage asks no other capture.
void Capture::note_user(Storage& s) const {
  uint8_t user = s.user.load(std::memory_order_relaxed);
  while (user != user_ && !s.user.compare_exchange_weak(user, user == 0 ? user_ : kSeveral,
                                                        std::memory_order_relaxed))
    continue;
}

void Capture::count_idle() {
  const size_t visits = idle_visits_ + calls_.size(),
               useful = chosen_.size() * (1 + kVisitsForEachRun);
  idle_visits_ = visits > useful ? visits - useful : 0;
}

// Memory that the program let go is kept by calls that read it.
bool Capture::holds_too_much() {
  size_t bytes = 0;
  for (const Slot& slot : slots_)
    if (slot.storage && slot.storage->data && !seen(*slot.storage)) bytes += slot.storage->bytes;
  held_limit_ = held_bytes_ * 2;
  return bytes > kMostHeld;
}

// Which calls must run is decided from the last to the first. A call must run if it writes what is
// wanted or what a later one reads, if a later one writes what it reads, or if a later one writes
// the same storage again. They run in program order. Of the others, those whose results neither the
// program nor a later call can see are forgotten. `wanted` gets a call, and whether what it writes
// is seen.
template <class Wanted> void Capture::decide(const Wanted& wanted) {
  fates_.assign(calls_.size(), Fate::Kept);
  for (size_t i = calls_.size(); i-- > 0;) {
    const CapturedCall& call = *calls_[i];
    bool kept = any_seen(call.writes), run = wanted(call, kept);
    for (const Storage* s : call.writes) {
      const uint8_t later = slots_[slot_of(*s)].note;
      run = run || (later & (kRead | kWritten));
      kept = kept || later != 0;
    }
    const std::span<const CapturedView> inputs(call.views.begin(), call.input_count());
    if (!run && kept)
      for (const CapturedView& v : inputs)
        run = run || (v.storage && (slots_[v.slot].note & kWritten));
    if (!run && !kept) {
      fates_[i] = Fate::Forgotten;
      continue;
    }
    if (run) fates_[i] = Fate::Runs;
    for (const CapturedView& v : inputs)
      if (v.storage) slots_[v.slot].note |= run ? kRead : kReadByKept;
    if (run)
      for (const Storage* s : call.writes) slots_[slot_of(*s)].note |= kWritten;
  }
  chosen_.clear();
  for (size_t i = 0; i < calls_.size(); ++i)
    if (fates_[i] == Fate::Runs) chosen_.push_back(calls_[i].get());
  for (Slot& slot : slots_) slot.note = 0;
}

template <class Wanted> void Capture::run(const Wanted& wanted, bool whole) {
  if (forbidden_by_) refuse();
  if (calls_.empty()) return;
  decide(wanted);
  count_idle();
  const Executing scope(this);
  const ModeScope no_capture(kCapture, false);
  const ModeScope no_estimate(kEstimate, false);
  if (run_program(whole)) return;

  for (const auto& call : calls_) call->make_tensors();
  // Whatever happens, the calls that did not run are kept, or forgotten, as they are.
  struct Rest {
    Capture& capture;
    size_t kept = 0, next = 0;
    ~Rest() {
      std::vector<std::unique_ptr<CapturedCall>>& calls = capture.calls_;
      std::move(calls.begin() + static_cast<std::ptrdiff_t>(next), calls.end(),
                calls.begin() + static_cast<std::ptrdiff_t>(kept));
      calls.resize(kept + calls.size() - next);
      if (calls.empty()) capture.release_all();
    }
  } rest{*this};
  size_t row_end = 0;  // of the calls in a row that run
  for (; rest.next < calls_.size(); ++rest.next) {
    std::unique_ptr<CapturedCall>& call = calls_[rest.next];
    if (fates_[rest.next] == Fate::Kept) {
      if (rest.kept != rest.next) calls_[rest.kept] = std::move(call);
      ++rest.kept;
      continue;
    }
    size_t count = 1;
    if (explaining && fates_[rest.next] == Fate::Forgotten) ++explaining->forgotten;
    if (fates_[rest.next] == Fate::Runs) {
      while (row_end < calls_.size() && (row_end <= rest.next || fates_[row_end] == Fate::Runs))
        ++row_end;
      count = run_some({calls_.data() + rest.next, row_end - rest.next});
    }
    for (size_t i = rest.next; i < rest.next + count; ++i) {
      release(*calls_[i]);
      calls_[i].reset();
    }
    rest.next += count - 1;
  }
}

// Runs the chosen calls as a program that was made when they were seen before; false where there is
// none, and nothing was done.
bool Capture::run_program(bool whole) {
  const size_t least = !whole ? kLeastPart : explaining ? 1 : 2;
  if (chosen_.size() < least || (modes & kObserve) ||
      checks_captures.load(std::memory_order_relaxed))
    return false;
  const UsedLater used_later(*this);
  const StorageNumbers numbers(*this, chosen_);
  const std::shared_ptr<ReplayProgram> program =
      ProgramCache::get().find(numbers.key(), chosen_, numbers, explaining != nullptr);
  if (!program) {
    missed += whole;
    return false;
  }
  std::vector<bool> ran(chosen_.size(), false);
  // Whatever happens, the calls that did not run are kept.
  struct Rest {
    Capture& capture;
    const std::vector<bool>& ran;
    ~Rest() {
      size_t next = 0, kept = 0;
      const auto stays = [&](Fate fate) {
        return fate == Fate::Kept || (fate == Fate::Runs && !ran[next++]);
      };
      if (std::none_of(capture.fates_.begin(), capture.fates_.end(), stays)) {
        capture.release_all();
        return;
      }
      next = 0;
      for (size_t i = 0; i < capture.calls_.size(); ++i) {
        std::unique_ptr<CapturedCall>& call = capture.calls_[i];
        if (stays(capture.fates_[i])) {
          if (kept != i) capture.calls_[kept] = std::move(call);
          ++kept;
        } else {
          capture.release(*call);
          call.reset();
        }
      }
      capture.calls_.resize(kept);
    }
  } const rest{*this, ran};
  // Where nothing is kept, what only these calls hold is not needed any more when the last one ran.
  const auto let_go = [this](Storage& s) {
    if (holders(s) > 0 || s.user.load(std::memory_order_relaxed) != user_ || user_ == kSeveral ||
        s.borrowed || s.deleter || s.pointer_given_out.load(std::memory_order_relaxed))
      return;
    deallocate(std::exchange(s.data, nullptr), s.bytes, s.category);
  };
  program->run(chosen_, numbers, whole ? std::function<void(Storage&)>(let_go) : nullptr, ran);
  if (explaining) {
    explaining->forgotten += std::count(fates_.begin(), fates_.end(), Fate::Forgotten);
    program->explain(*explaining);
  }
  return true;
}

void Capture::tell(std::span<const std::unique_ptr<CapturedCall>> calls, const Group* group) {
  Explanation::Part part;
  for (const auto& call : calls) part.ops.push_back(call->op.info->name);
  if (const Tensor& out = calls.back()->outputs[0]; out.defined()) {
    part.sizes.assign(out.sizes().begin(), out.sizes().end());
    part.dtype = out.dtype();
  }
  if (group) {
    part.unmade = group->unmade();
    part.unmade_bytes = group->unmade_bytes();
    part.end = group->end();
  }
  explaining->calls += static_cast<int64_t>(calls.size());
  explaining->parts.push_back(std::move(part));
}

// Runs the first of the calls, or a group that begins with it; returns how many that were.
size_t Capture::run_some(std::span<const std::unique_ptr<CapturedCall>> calls) {
  if (!(modes & kObserve)) {
    if (const std::unique_ptr<Group> group = Group::form(calls, explaining != nullptr)) {
      group->run();
      if (checks_captures.load(std::memory_order_relaxed)) check_now(calls.first(group->size()));
      if (explaining) tell(calls.first(group->size()), group.get());
      return group->size();
    }
  }
  execute(*calls[0]);
  if (checks_captures.load(std::memory_order_relaxed)) check_now(calls.first(1));
  if (explaining) tell(calls.first(1), nullptr);
  return 1;
}

void Capture::execute(CapturedCall& call) {
  const MemoryCategoryGuard category(call.category);  // as when the call was made
  run_captured(call);
}

// The call ran, or nobody can see that it did not.
void Capture::release(CapturedCall& call) noexcept {
  const bool checks = checks_captures.load(std::memory_order_relaxed);
  for (Storage* s : call.writes) {
    if (--slots_[slot_of(*s)].writes > 0) continue;
    s->writer.store(nullptr, std::memory_order_release);
    if (checks) forget_copy(*s);
  }
  if (checks) forget_check(call);
  call.drop_tensors();
  for (const CapturedView& v : call.views) {
    if (!v.storage || --slots_[v.slot].uses > 0) continue;
    release_slot(v.slot);
    slots_[v.slot].uses = std::exchange(free_slot_, v.slot);
  }
}

// All that is left of the calls. What they had to write is now written by `writer`, if nobody did.
void Capture::release_all(Capture* writer) noexcept {
  const bool checks = checks_captures.load(std::memory_order_relaxed);
  for (const auto& call : calls_) {
    if (checks) forget_check(*call);
    call->drop_tensors();
  }
  calls_.clear();
  for (size_t i = 0; i < slots_.size(); ++i) {
    Storage* const s = slots_[i].storage;
    if (!s) continue;
    if (slots_[i].writes > 0) {
      s->writer.store(s->data ? nullptr : writer, std::memory_order_release);
      if (checks) forget_copy(*s);
    }
    release_slot(static_cast<uint32_t>(i));
  }
  slots_.clear();
  free_slot_ = kNone;
  held_bytes_ = held_limit_ = 0;
  busy_captures.fetch_sub(1, std::memory_order_relaxed);
}

void Capture::run_writers(const Storage& s) {
  refuse_to_split();
  const std::lock_guard hold(*this);
  if (s.writer.load(std::memory_order_relaxed) != this) return;  // another thread was quicker
  forced_runs.fetch_add(1, std::memory_order_relaxed);
  const bool all = idle_visits_ > kMostIdleVisits;
  if (all) idle_visits_ = 0;
  run([&](const CapturedCall& call, bool seen) {
    return (all && seen) ||
           std::find(call.writes.begin(), call.writes.end(), &s) != call.writes.end();
  });
}

void Capture::run_users(const Storage& s) {
  const std::lock_guard hold(*this);
  if (slot_of(s) == kNone) return;
  forced_runs.fetch_add(1, std::memory_order_relaxed);
  run([&](const CapturedCall& call, bool) {
    return std::any_of(call.views.begin(), call.views.end(),
                       [&](const CapturedView& v) { return v.storage == &s; });
  });
}

void Capture::flush() {
  const std::lock_guard hold(*this);
  run([](const CapturedCall&, bool seen) { return seen; }, true);
}

namespace {

// Who "has still to write" what no call will ever make: whoever reads it gets an error.
Capture& discarded() {
  static auto* const capture = [] {
    auto* c = new Capture(SIZE_MAX);
    c->forbid_values("discarded");
    return c;
  }();
  return *capture;
}

}  // namespace

// Where a value is asked for, as far as it is known: " at FILE:LINE".
static std::string place_of_question() {
  const std::string line = line_now();
  return line.empty() ? "" : " at " + line;
}

void Capture::refuse_to_split() const {
  if (this != own_ || !whole_for_) return;
  PELLUCID_CHECK(false, ValueError,
                 "{}: the function asks for a value{}, which would split the program. Move item(), "
                 "printing and decisions by values out of it, or compile it without that.",
                 whole_for_, place_of_question());
}

void Capture::refuse() const {
  PELLUCID_CHECK(this != &discarded(), ValueError,
                 "this tensor was made while a function was traced or sealed, and has no values: "
                 "its calls were captured and not run.");
  PELLUCID_CHECK(false, ValueError,
                 "{}: the function asks for a value{}, but nothing runs while it is captured. "
                 "Move item(), printing and decisions by values out of it.",
                 forbidden_by_, place_of_question());
  __builtin_unreachable();
}

void Capture::forbid_values(const char* who) {
  const std::lock_guard hold(*this);
  forbidden_by_ = who;
}

void Capture::allow_values() noexcept {
  const std::lock_guard hold(*this);
  forbidden_by_ = nullptr;
  versions_.clear();
  gradients_.clear();
  changed_.clear();
  live_numbers.clear();
  assumptions.clear();
  constants.clear();
}

std::vector<CapturedCall*> Capture::to_flush() {
  const std::lock_guard hold(*this);
  decide([](const CapturedCall&, bool seen) { return seen; });
  return chosen_;
}

void Capture::will_change(Storage& s) {
  if (changed_.insert(&s).second)
    versions_.emplace_back(Ref<Storage>::share(&s), s.version.load(std::memory_order_relaxed));
}

void Capture::will_change_gradient(const Tensor& leaf, const Tensor& before) {
  if (changed_.insert(&leaf.impl()).second) gradients_.emplace_back(leaf, before);
}

void Capture::restore() noexcept {
  for (const auto& [leaf, before] : gradients_) meta_of(leaf).grad = before;
  gradients_.clear();
  for (auto& [storage, version] : versions_)
    storage->version.store(version, std::memory_order_relaxed);
  versions_.clear();
  changed_.clear();
}

void Capture::discard() noexcept {
  restore();
  const std::lock_guard hold(*this);
  // Whoever still sees a result that was never made must not read it.
  if (!calls_.empty()) release_all(&discarded());
}

Ref<Storage> Capture::stand_in(size_t bytes) {
  Ref<Storage> s = pending_storage(bytes);
  s->writer.store(this, std::memory_order_release);
  return s;
}

Ref<Storage> pending_storage(size_t bytes) {
  auto s = Ref<Storage>::adopt(new (pool_allocate(sizeof(Storage))) Storage);
  s->bytes = bytes;
  s->category = current_memory_category();
  return s;
}

constinit std::atomic<int64_t> busy_captures{0};
constinit std::atomic<int64_t> forced_runs{0};

// A thread of the pool works for a kernel that runs; what the kernel reads was settled before.
void run_writers(const Storage& s) {
  Capture* const capture = s.writer.load(std::memory_order_acquire);
  if (capture && capture != executing && !serves_a_region()) capture->run_writers(s);
}

// A kernel that runs is part of its capture's order; whoever had to run before it did.
void run_users(const Storage& s) {
  if (!executing) run_users_elsewhere(s, nullptr);
}

void run_users_elsewhere(const Storage& s, const Capture* own) {
  const uint8_t user = s.user.load(std::memory_order_acquire);
  if (user == 0 || (own && user == own->user() && user != kSeveral)) return;
  for (Capture* c : Captures::get().users_of(s))
    if (c != own) c->run_users(s);
}

void choose_modes() {
  static const bool lazy = [] {
    const bool check = env_string("PELLUCID_LAZY") == "check";
    if (check) checks_captures.store(true);
    return check || env_bool("PELLUCID_LAZY", false);
  }();
  set_mode(kUnknown, false);
  if (lazy) set_mode(kCapture, true);
}

}  // namespace detail

LazyGuard::LazyGuard(bool enabled) {
  if (detail::modes & detail::kUnknown) detail::choose_modes();
  before_ = is_enabled();
  if (before_ && !enabled) eval();
  detail::set_mode(detail::kCapture, enabled);
}

LazyGuard::~LazyGuard() {
  const bool on = is_enabled();
  detail::set_mode(detail::kCapture, before_);
  if (!on || before_) return;
  try {
    eval();
  } catch (const std::exception&) {
    // The calls that failed are kept: whoever reads their results gets the error.
  }
}

bool LazyGuard::is_enabled() { return (detail::modes & detail::kCapture) != 0; }

void eval(TensorList tensors) {
  for (const Tensor& t : tensors)
    if (t.defined() && t.has_storage()) detail::run_writers(*t.impl().storage);
}

void eval() { detail::Capture::own().flush(); }

int64_t Explanation::fused() const {
  int64_t n = 0;
  for (const Part& p : parts) n += p.ops.size() > 1 ? static_cast<int64_t>(p.ops.size()) : 0;
  return n;
}

std::string Explanation::text() const {
  std::string out;
  int64_t groups = 0, bytes = 0;
  for (const Part& p : parts) {
    if (p.ops.size() == 1) {
      out += fmt::format("alone    {}  {}{}\n", p.ops[0], p.dtype, IntArrayRef(p.sizes));
      continue;
    }
    bytes += p.unmade_bytes;
    out += fmt::format("group {}  {}  {}{}\n", ++groups, fmt::join(p.ops, ", "), p.dtype,
                       IntArrayRef(p.sizes));
    out += fmt::format(
        "         {} of {} results need no memory: {} are neither written nor read\n", p.unmade,
        p.ops.size(), text::format_bytes(static_cast<double>(p.unmade_bytes)));
    std::vector<std::string> lines;  // each once
    for (const std::string& line : p.lines)
      if (!line.empty() && std::find(lines.begin(), lines.end(), line) == lines.end())
        lines.push_back(line);
    if (!lines.empty()) out += fmt::format("         from {}\n", fmt::join(lines, ", "));
    out += fmt::format("         it ends there: {}\n", p.end);
  }
  out +=
      fmt::format("{} call{} ran, {} of them in {} group{}; {} forgotten; {} of results not made\n",
                  calls, calls == 1 ? "" : "s", fused(), groups, groups == 1 ? "" : "s", forgotten,
                  text::format_bytes(static_cast<double>(bytes)));
  if (!passes.empty()) {
    double seconds = 0;
    std::string changed;
    for (const Pass& p : passes) {
      seconds += p.seconds;
      changed += fmt::format("{}{} {}", changed.empty() ? "" : ", ", p.name, p.changed);
    }
    out += fmt::format("passes, with the calls that they changed: {}; {}\n", changed,
                       text::format_seconds(seconds));
    out += fmt::format("plan: at most {} at one time",
                       text::format_bytes(static_cast<double>(peak_bytes)));
    if (arena_bytes > 0)
      out += fmt::format("; small results share {}",
                         text::format_bytes(static_cast<double>(arena_bytes)));
    if (reused > 0)
      out += fmt::format("; {} result{} over an input that nobody reads any more", reused,
                         reused == 1 ? " is written" : "s are written");
    out += '\n';
    out += fmt::format("the program was made in {}\n", text::format_seconds(made_seconds));
  }
  if (gradient_bytes_left > 0)
    out += fmt::format(
        "gradients of {} outlive the step that used them: zero_grad() at its end frees them\n",
        text::format_bytes(static_cast<double>(gradient_bytes_left)));
  return out;
}

Explanation explain(const std::function<void()>& f) {
  Explanation e;
  struct Explaining {
    explicit Explaining(Explanation* e)
        : outer(std::exchange(detail::explaining, e)),
          noted(std::exchange(detail::notes_callers, true)) {}
    ~Explaining() {
      detail::explaining = outer;
      detail::notes_callers = noted;
    }
    Explanation* const outer;
    const bool noted;
  };
  eval();
  const Explaining scope(&e);
  const LazyGuard lazy;
  f();
  eval();
  return e;
}

bool is_pending(const Tensor& t) {
  return t.has_storage() && detail::is_pending(*t.impl().storage);
}

}  // namespace pellucid
