#include "core/capture.h"

#include <pthread.h>

#include <algorithm>
#include <unordered_map>
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
    for (Capture* c : get().all) c->hold();
  }
  static void let_go_all() {
    for (Capture* c : get().all) c->let_go();
    get().mutex.unlock();
  }
  Capture* take() {
    const std::lock_guard lock(mutex);
    if (!idle.empty()) {
      Capture* c = idle.back();
      idle.pop_back();
      return c;
    }
    const size_t number = std::min<size_t>(all.size() + 1, kSeveral);
    return all.emplace_back(new Capture(static_cast<uint8_t>(number)));
  }
  void put_back(Capture* c) {
    const std::lock_guard lock(mutex);
    idle.push_back(c);
  }
  /// Those whose calls may use a storage.
  std::vector<Capture*> users_of(const Storage& s) {
    const uint8_t user = user_of(s);
    const std::lock_guard lock(mutex);
    if (user == kSeveral) return all;
    if (user == 0) return {};
    return {all[user - 1u]};
  }
};

struct OwnCapture {
  Capture* capture = Captures::get().take();
  ~OwnCapture() { Captures::get().put_back(capture); }
};

// Whether the program has a handle of the storage, or something that it may read it through.
bool seen(const Storage& s) { return holders(s) > 0; }

bool any_seen(const InlineVec<Storage*, 2>& storages) {
  return std::any_of(storages.begin(), storages.end(), [](const Storage* s) { return seen(*s); });
}

template <class F> void for_each_storage(const CapturedCall& call, const F& f) {
  for (const Tensor& t : call.inputs)
    if (t.defined()) f(*t.impl().storage);
  for (size_t k = 0; k < call.output_count; ++k)
    if (call.outputs[k].defined()) f(*call.outputs[k].impl().storage);
}

/// While it lives, what calls that are kept will use is known as such (is_used_later): the calls
/// that run now must leave it in memory of its own.
class UsedLater {
 public:
  UsedLater(std::span<const std::unique_ptr<CapturedCall>> calls, std::span<const Fate> fates) {
    for (size_t i = 0; i < calls.size(); ++i) {
      if (fates[i] != Fate::Kept) continue;
      for_each_storage(*calls[i], [&](Storage& s) {
        // Only its own capture writes it, and looks at its notes.
        if (s.pending_writes.load(std::memory_order_relaxed) == 0) return;
        if (s.note.fetch_or(kUsedLater, std::memory_order_relaxed) & kUsedLater) return;
        marked_.push_back(&s);
      });
    }
  }
  ~UsedLater() {
    for (Storage* s : marked_)
      s->note.fetch_and(static_cast<uint8_t>(~kUsedLater), std::memory_order_relaxed);
  }
  UsedLater(const UsedLater&) = delete;

 private:
  std::vector<Storage*> marked_;  // the calls that are kept hold them
};

}  // namespace

int64_t programs_missed() { return missed; }

constinit thread_local bool notes_callers = false;
constinit thread_local bool recomputing = false;
constinit thread_local size_t memory_budget = 0;

Capture& Capture::own() {
  thread_local const OwnCapture own;
  return *own.capture;
}

void Capture::add(std::unique_ptr<CapturedCall> call) {
  bool full = false;
  {
    const std::lock_guard lock(mutex_);
    for_each_storage(*call, [&](Storage& s) {
      note_user(s);
      if (s.captured.fetch_add(1, std::memory_order_relaxed) == 0 && s.data) held_bytes_ += s.bytes;
    });
    for (Storage* s : call->writes) {
      s->pending_writes.fetch_add(1, std::memory_order_relaxed);
      s->writer.store(this, std::memory_order_release);
    }
    calls_.push_back(std::move(call));
    captured_calls.fetch_add(1, std::memory_order_relaxed);
    full = !forbidden_by_ && (calls_.size() >= kMostCalls ||
                              (held_bytes_ > std::max(held_limit_, kMostHeld) && holds_too_much()));
  }
  if (full) flush();
}

// So that whoever changes the storage asks no other capture.
void Capture::note_user(Storage& s) const {
  uint8_t note = s.note.load(std::memory_order_relaxed), now = 0;
  do {
    const uint8_t user = note >> 4;
    if (user == number_) return;
    now = static_cast<uint8_t>((note & kNoteMarks) | (user == 0 ? number_ : kSeveral) << 4);
  } while (!s.note.compare_exchange_weak(note, now, std::memory_order_relaxed));
}

void Capture::count_idle(std::span<const Fate> fates) {
  const auto ran = static_cast<size_t>(std::count(fates.begin(), fates.end(), Fate::Runs));
  const size_t visits = idle_visits_ + fates.size(), useful = ran * (1 + kVisitsForEachRun);
  idle_visits_ = visits > useful ? visits - useful : 0;
}

// Memory that the program let go is kept by calls that read it.
bool Capture::holds_too_much() {
  size_t bytes = 0;
  std::unordered_map<const Storage*, bool> counted;
  for (const auto& call : calls_)
    for_each_storage(*call, [&](const Storage& s) {
      if (s.data && !seen(s) && counted.emplace(&s, true).second) bytes += s.bytes;
    });
  held_limit_ = held_bytes_ * 2;
  return bytes > kMostHeld;
}

// Which calls must run is decided from the last to the first. A call must run if it writes what is
// wanted or what a later one reads, if a later one writes what it reads, or if a later one writes
// the same storage again. They run in program order. Of the others, those whose results neither the
// program nor a later call can see are forgotten.
template <class Wanted> std::vector<Fate> Capture::decide(const Wanted& wanted) {
  enum : uint8_t { kRead = 1, kWritten = 2, kReadByKept = 4 };
  std::vector<Fate> fates(calls_.size(), Fate::Kept);
  // Only what captured calls write is ever asked for, and only its own capture writes it.
  const auto mark_of = [](const Storage* s) {
    return static_cast<uint8_t>(s->note.load(std::memory_order_relaxed) & kNoteMarks);
  };
  const auto mark = [](Storage* s, uint8_t how) {
    if (s->pending_writes.load(std::memory_order_relaxed) != 0)
      s->note.fetch_or(how, std::memory_order_relaxed);
  };
  for (size_t i = calls_.size(); i-- > 0;) {
    const CapturedCall& call = *calls_[i];
    bool run = wanted(call), kept = any_seen(call.writes);
    for (const Storage* s : call.writes) {
      const uint8_t later = mark_of(s);
      run = run || (later & (kRead | kWritten));
      kept = kept || later != 0;
    }
    for (const Tensor& t : call.inputs)
      run = run || (kept && t.defined() && (mark_of(t.impl().storage.get()) & kWritten));
    if (!run && !kept) {
      fates[i] = Fate::Forgotten;
      continue;
    }
    if (run) fates[i] = Fate::Runs;
    for (const Tensor& t : call.inputs)
      if (t.defined()) mark(t.impl().storage.get(), run ? kRead : kReadByKept);
    if (run)
      for (Storage* s : call.writes) mark(s, kWritten);
  }
  for (const auto& call : calls_)
    for (Storage* s : call->writes)
      s->note.fetch_and(static_cast<uint8_t>(~kNoteMarks), std::memory_order_relaxed);
  return fates;
}

template <class Wanted> void Capture::run(const Wanted& wanted, bool whole) {
  if (forbidden_by_) refuse();
  const std::vector<Fate> fates = decide(wanted);
  count_idle(fates);
  const Executing scope(this);
  const ModeScope no_capture(kCapture, false);
  const ModeScope no_estimate(kEstimate, false);
  if (run_program(fates, whole)) return;

  // Whatever happens, the calls that did not run are kept, or forgotten, as they are.
  struct Rest {
    std::vector<std::unique_ptr<CapturedCall>>& calls;
    size_t kept = 0, next = 0;
    ~Rest() {
      std::move(calls.begin() + static_cast<std::ptrdiff_t>(next), calls.end(),
                calls.begin() + static_cast<std::ptrdiff_t>(kept));
      calls.resize(kept + calls.size() - next);
    }
  } rest{calls_};
  size_t row_end = 0;  // of the calls in a row that run
  for (; rest.next < calls_.size(); ++rest.next) {
    std::unique_ptr<CapturedCall>& call = calls_[rest.next];
    if (fates[rest.next] == Fate::Kept) {
      if (rest.kept != rest.next) calls_[rest.kept] = std::move(call);
      ++rest.kept;
      continue;
    }
    size_t count = 1;
    if (explaining && fates[rest.next] == Fate::Forgotten) ++explaining->forgotten;
    if (fates[rest.next] == Fate::Runs) {
      while (row_end < calls_.size() && (row_end <= rest.next || fates[row_end] == Fate::Runs))
        ++row_end;
      count = run_some({calls_.data() + rest.next, row_end - rest.next});
    }
    for (size_t i = rest.next; i < rest.next + count; ++i) {
      release(*calls_[i]);
      calls_[i].reset();
    }
    rest.next += count - 1;
  }
  if (rest.kept == 0) held_bytes_ = held_limit_ = 0;
}

// Runs the chosen calls as a program that was made when they were seen before; false where there is
// none, and nothing was done.
bool Capture::run_program(std::span<const Fate> fates, bool whole) {
  std::vector<CapturedCall*> chosen;
  for (size_t i = 0; i < calls_.size(); ++i)
    if (fates[i] == Fate::Runs) chosen.push_back(calls_[i].get());
  const size_t least = !whole ? kLeastPart : explaining ? 1 : 2;
  if (chosen.size() < least || (modes & kObserve) ||
      checks_captures.load(std::memory_order_relaxed))
    return false;
  const UsedLater used_later(calls_, fates);
  const StorageNumbers numbers(chosen);
  const std::shared_ptr<ReplayProgram> program =
      ProgramCache::get().find(key_of(chosen, numbers), chosen, numbers, explaining != nullptr);
  if (!program) {
    missed += whole;
    return false;
  }
  std::vector<bool> ran(chosen.size(), false);
  // Whatever happens, the calls that did not run are kept.
  struct Rest {
    Capture& capture;
    std::span<const Fate> fates;
    const std::vector<bool>& ran;
    ~Rest() {
      size_t next = 0, kept = 0;
      for (size_t i = 0; i < capture.calls_.size(); ++i) {
        std::unique_ptr<CapturedCall>& call = capture.calls_[i];
        if (fates[i] == Fate::Kept || (fates[i] == Fate::Runs && !ran[next++])) {
          if (kept != i) capture.calls_[kept] = std::move(call);
          ++kept;
        } else {
          capture.release(*call);
          call.reset();
        }
      }
      capture.calls_.resize(kept);
      if (kept == 0) capture.held_bytes_ = capture.held_limit_ = 0;
    }
  } const rest{*this, fates, ran};
  // Where nothing is kept, what only these calls hold is not needed any more when the last one ran.
  const auto let_go = [this](Storage& s) {
    if (holders(s) > 0 || user_of(s) != number_ || number_ == kSeveral || s.borrowed || s.deleter ||
        s.pointer_given_out.load(std::memory_order_relaxed))
      return;
    deallocate(std::exchange(s.data, nullptr), s.bytes, s.category);
  };
  program->run(chosen, numbers, whole ? std::function<void(Storage&)>(let_go) : nullptr, ran);
  if (explaining) {
    explaining->forgotten += std::count(fates.begin(), fates.end(), Fate::Forgotten);
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
    if (s->pending_writes.fetch_sub(1, std::memory_order_relaxed) > 1) continue;
    s->writer.store(nullptr, std::memory_order_release);
    if (checks) forget_copy(*s);
  }
  if (checks) forget_check(call);
  for_each_storage(call, [](Storage& s) { s.captured.fetch_sub(1, std::memory_order_release); });
  captured_calls.fetch_sub(1, std::memory_order_relaxed);
}

void Capture::run_writers(const Storage& s) {
  refuse_to_split();
  const std::lock_guard lock(mutex_);
  if (s.writer.load(std::memory_order_relaxed) != this) return;  // another thread was quicker
  forced_runs.fetch_add(1, std::memory_order_relaxed);
  const bool all = idle_visits_ > kMostIdleVisits;
  if (all) idle_visits_ = 0;
  run([&](const CapturedCall& call) {
    return (all && any_seen(call.writes)) ||
           std::find(call.writes.begin(), call.writes.end(), &s) != call.writes.end();
  });
}

void Capture::run_users(const Storage& s) {
  const std::lock_guard lock(mutex_);
  if (!calls_.empty()) forced_runs.fetch_add(1, std::memory_order_relaxed);
  run([&](const CapturedCall& call) {
    bool uses = false;
    for_each_storage(call, [&](const Storage& used) { uses = uses || &used == &s; });
    return uses;
  });
}

void Capture::flush() {
  const std::lock_guard lock(mutex_);
  run([](const CapturedCall& call) { return any_seen(call.writes); }, true);
}

namespace {

// Who "has still to write" what no call will ever make: whoever reads it gets an error.
Capture& discarded() {
  static auto* const capture = [] {
    auto* c = new Capture;
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
  if (!whole_for_ || this != &own()) return;
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
  const std::lock_guard lock(mutex_);
  forbidden_by_ = who;
}

void Capture::allow_values() noexcept {
  const std::lock_guard lock(mutex_);
  forbidden_by_ = nullptr;
  versions_.clear();
  gradients_.clear();
  changed_.clear();
  live_numbers.clear();
  assumptions.clear();
  constants.clear();
}

std::vector<CapturedCall*> Capture::to_flush() {
  const std::lock_guard lock(mutex_);
  const std::vector<Fate> fates =
      decide([](const CapturedCall& call) { return any_seen(call.writes); });
  std::vector<CapturedCall*> chosen;
  for (size_t i = 0; i < calls_.size(); ++i)
    if (fates[i] == Fate::Runs) chosen.push_back(calls_[i].get());
  return chosen;
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
  const std::lock_guard lock(mutex_);
  for (const auto& call : calls_) {
    release(*call);
    // Whoever still sees a result that was never made must not read it.
    for (Storage* s : call->writes)
      if (!s->data) s->writer.store(&discarded(), std::memory_order_release);
  }
  calls_.clear();
  held_bytes_ = held_limit_ = 0;
}

Ref<Storage> Capture::stand_in(size_t bytes) {
  Ref<Storage> s = pending_storage(bytes);
  s->writer.store(this, std::memory_order_release);
  return s;
}

Ref<Storage> pending_storage(size_t bytes) {
  Ref<Storage> s = borrow_storage(nullptr, bytes, {});
  s->borrowed = false;
  s->pointer_given_out = false;
  s->category = current_memory_category();
  return s;
}

constinit std::atomic<int64_t> captured_calls{0};
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
  const uint8_t user = user_of(s);
  if (user == 0 || (own && user == own->number() && user != kSeveral)) return;
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
                       text::format_time(seconds));
    out += fmt::format("plan: at most {} at one time",
                       text::format_bytes(static_cast<double>(peak_bytes)));
    if (arena_bytes > 0)
      out += fmt::format("; small results share {}",
                         text::format_bytes(static_cast<double>(arena_bytes)));
    if (reused > 0)
      out += fmt::format("; {} result{} over an input that nobody reads any more", reused,
                         reused == 1 ? " is written" : "s are written");
    out += '\n';
    out += fmt::format("the program was made in {}\n", text::format_time(made_seconds));
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
