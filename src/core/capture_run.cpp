// Which captured calls run, and how: as a program that is kept, in groups, or one by one.
#include <algorithm>
#include <utility>

#include "base/allocator.h"
#include "base/parallel.h"
#include "core/capture.h"
#include "core/capture_check.h"
#include "core/fuse.h"
#include "core/program.h"
#include "pellucid/lazy.h"
#include "tensor/weights.h"

namespace pellucid::detail {
namespace {

// Of what the program let go, calls that stay pending may keep so many bytes. If it is more, all
// that was called before runs, too: an eager program would have run it by now.
constexpr size_t kMostKept = size_t{4} << 20;
// Some calls of a capture run as a program from here on: for fewer, finding it costs what it saves.
constexpr size_t kLeastPart = 16;
// Whoever asks for one value after the other looks at all calls each time. What was looked at in
// vain may be this much more than what ran; then all runs at once.
constexpr size_t kMostIdleVisits = size_t{1} << 20, kVisitsForEachRun = 16;

// The capture whose calls this thread runs.
constinit thread_local Capture* executing = nullptr;

constinit thread_local int64_t missed = 0;  // see programs_missed

struct Executing {
  explicit Executing(Capture* c) : outer(std::exchange(executing, c)) {}
  ~Executing() { executing = outer; }
  Executing(const Executing&) = delete;
  Capture* const outer;
};

// Whether the program has a handle of the storage, or something that it may read it through.
bool seen(const Storage& s) { return holders(s) > 0; }

bool any_seen(const InlineVec<Storage*, 2>& storages) {
  return std::any_of(storages.begin(), storages.end(), [](const Storage* s) { return seen(*s); });
}

}  // namespace

constinit thread_local Explanation* explaining = nullptr;

int64_t programs_missed() { return missed; }

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

void Capture::count_idle() {
  const size_t visits = idle_visits_ + calls_.size(),
               useful = chosen_.size() * (1 + kVisitsForEachRun);
  idle_visits_ = visits > useful ? visits - useful : 0;
}

// Which calls must run is decided from the last to the first. A call must run if it writes what is
// wanted or what a later one reads, if a later one writes what it reads, or if a later one writes
// the same storage again. They run in program order. Of the others, those whose results neither the
// program nor a later call can see are forgotten. `wanted` gets a call, and whether
// the program or a later call needs what it writes.
template <class Wanted> void Capture::decide(const Wanted& wanted) {
  fates_.assign(calls_.size(), Fate::Kept);
  for (size_t i = calls_.size(); i-- > 0;) {
    const CapturedCall& call = *calls_[i];
    bool kept = call.checks || any_seen(call.writes), run = false;
    for (const Storage* s : call.writes) {
      const uint8_t later = slots_[slot_of(*s)].note;
      run = run || (later & (kRead | kWritten));
      kept = kept || later != 0;
    }
    run = wanted(call, kept) || run;
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
  kept_bytes_ = 0;
  for (Slot& slot : slots_) {
    if ((slot.note & kReadByKept) && (slot.storage->data || (slot.note & kWritten)) &&
        !seen(*slot.storage))
      kept_bytes_ += slot.storage->bytes;
    slot.note = 0;
  }
}

// What is wanted may be made of large results that calls before it read, too, and that could go if
// these calls ran: the activations of a loss that is read while its gradients stay pending.
template <class Wanted> void Capture::decide_on_earlier(const Wanted& wanted) {
  if (kept_bytes_ <= kMostKept || chosen_.empty()) return;
  const CapturedCall* const last = chosen_.back();
  const auto at = std::find_if(calls_.begin(), calls_.end(),
                               [&](const auto& call) { return call.get() == last; });
  const auto is_kept = [](Fate fate) { return fate == Fate::Kept; };
  if (std::none_of(fates_.begin(), fates_.begin() + (at - calls_.begin()), is_kept)) return;
  bool before = false;
  decide([&](const CapturedCall& call, bool needed) {
    before = before || &call == last;
    return (before && needed) || wanted(call, needed);
  });
}

template <class Wanted> void Capture::run(const Wanted& wanted, bool whole) {
  if (forbidden_by_) refuse();
  if (calls_.empty()) return;
  decide(wanted);
  if (!whole) decide_on_earlier(wanted);
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
        s.borrowed || s.deleter || s.pointer_given_out())
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

namespace {

/// Captured calls that run now.
class Running {
 public:
  explicit Running(std::span<const std::unique_ptr<CapturedCall>> calls) : calls_(calls) {
    const CapturedCall& first = *calls[0];
    if (first.op.kind == OpKind::Contraction && first.inputs.size() > 1 &&
        first.inputs[1].defined()) {
      Storage* const s = first.inputs[1].impl().storage.get();
      weights_.stand_in = s;
      if (!first.tracked) weights_.storage = s;
    }
    tell();
  }
  ~Running() { tell(); }
  Running(const Running&) = delete;

 private:
  void tell() const {
    for (const auto& call : calls_)
      for (Storage* s : call->writes) bytes_change(*s);
  }
  const std::span<const std::unique_ptr<CapturedCall>> calls_;
  CapturedWeights weights_;
  const CapturedWeightsScope scope_{&weights_};
};

}  // namespace

// Runs the first of the calls, or a group that begins with it; returns how many that were.
size_t Capture::run_some(std::span<const std::unique_ptr<CapturedCall>> calls) {
  if (!(modes & kObserve)) {
    if (const std::unique_ptr<Group> group = Group::form(calls, explaining != nullptr)) {
      const Running running(calls.first(group->size()));
      group->run();
      if (checks_captures.load(std::memory_order_relaxed)) check_now(calls.first(group->size()));
      if (explaining) tell(calls.first(group->size()), group.get());
      return group->size();
    }
  }
  const Running running(calls.first(1));
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
  run([&](const CapturedCall& call, bool needed) {
    return (all && needed) ||
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
  run([](const CapturedCall&, bool needed) { return needed; }, true);
}

std::vector<CapturedCall*> Capture::to_flush() {
  const std::lock_guard hold(*this);
  decide([](const CapturedCall&, bool needed) { return needed; });
  return chosen_;
}

// A thread of the pool works for a kernel that runs; what the kernel reads was settled before.
void run_writers(const Storage& s) {
  Capture* const capture = s.writer.load(std::memory_order_acquire);
  if (capture && capture != executing && !serves_a_region()) capture->run_writers(s);
}

// A kernel that runs is part of its capture's order; whoever had to run before it did.
void run_users(const Storage& s) {
  if (!executing) run_users_elsewhere(s, nullptr);
}

}  // namespace pellucid::detail
