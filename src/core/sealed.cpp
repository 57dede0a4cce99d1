// Sealed functions: when they are traced, and the replay of their program.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_set>

#include "core/tape.h"
#include "core/traced.h"
#include "core/whole_capture.h"
#include "pellucid/autograd.h"
#include "pellucid/compile.h"
#include "tensor/phantom.h"

namespace pellucid::detail {

bool is_sealing() { return (modes & kCapture) != 0 && Capture::own().forbids_values(); }

void note_live_number(const Tensor& t, std::function<Tensor()> current) {
  Capture::own().live_numbers.emplace_back(t.impl().storage, std::move(current));
}

void note_assumption(std::function<uint64_t()> current) {
  if (is_sealing()) Capture::own().assumptions.push_back(std::move(current));
}

bool history_is_spent(const Tensor& t) {
  if (!t.defined() || !t.requires_grad() || !t.grad_fn()) return false;
  std::vector<autograd::NodeRef> pending{t.grad_fn()};
  std::unordered_set<const autograd::Node*> seen;
  while (!pending.empty()) {
    const autograd::NodeRef node = std::move(pending.back());
    pending.pop_back();
    if (!seen.insert(node.get()).second) continue;
    const auto* op = dynamic_cast<const tape::OpNode*>(node.get());
    const auto* custom = dynamic_cast<const autograd::detail_fn::CustomNode*>(node.get());
    if ((op && op->freed_) || (custom && custom->context.freed_)) return true;
    for (const autograd::Edge& e : node->next_edges())
      if (e.function) pending.push_back(e.function);
  }
  return false;
}

namespace {
constinit thread_local char this_thread = 0;  // its address tells threads apart
}

struct Sealed::State {
  State(bool s, const CompileOptions& o) : strict(s), options(o) {}
  const bool strict;
  const CompileOptions options;
  std::atomic<const void*> tracer{nullptr};  // the thread that captures, which holds the mutex
  mutable std::mutex mutex;                  // calls take turns
  int64_t calls = 0;
  int64_t all_calls = 0, replayed = 0;
  bool settled = false;  // two calls in a row did the same
  std::unique_ptr<TracedProgram> program;
  bool anew = false;  // the program no longer fits; a call that found that it did may still run it
  const TracedProgram* known() const { return anew ? nullptr : program.get(); }
  std::optional<WholeCapture> capture;
  Tensors arguments;
  std::vector<uint64_t> others, others_now;
  std::any prototype;  // the last result that was traced
  std::vector<uint64_t> numbers;
  std::string refused;  // not strict: why there is no program
  std::atomic<bool> is_refused{false};

  void check_others(const std::vector<uint64_t>& now) const {
    PELLUCID_CHECK(!known() || now == others, ValueError,
                   "seal: an argument that is no tensor changed. A sealed function replays what it "
                   "did with the first one; give it as a tensor.");
  }
  // Ends a trace; the mutex is held.
  void leave() {
    capture.reset();
    arguments.clear();
    count_compiled_call(-1);
    tracer.store(nullptr);
    mutex.unlock();
  }
  std::unique_ptr<TracedProgram> make(const Tensors& results, const TracedProgram* before) {
    return std::make_unique<TracedProgram>("seal", true, capture->capture(), arguments, results,
                                           capture->random(), before);
  }
  std::unique_ptr<TracedProgram> take_program(const Tensors& results);
  void check_lenient(const TracedProgram& next, const Tensors& results, bool same,
                     const std::vector<uint64_t>& now) const;
};

Sealed::Sealed(bool strict, const CompileOptions& options)
    : state_(std::make_unique<State>(strict, options)) {}
Sealed::~Sealed() = default;

bool Sealed::is_traced_here() const { return state_->tracer.load() == &this_thread; }

bool Sealed::is_refused() const { return state_->is_refused.load(std::memory_order_acquire); }

// Where calls are only counted the function is called as if it were not sealed.
bool Sealed::traces(const Tensors& arguments) {
  if (estimating()) return true;
  PELLUCID_CHECK(!is_traced_here(), ValueError,
                 "seal: the function calls itself, which a program cannot.");
  const std::lock_guard lock(state_->mutex);
  ++state_->all_calls;
  if (!state_->refused.empty()) return false;
  // The second call may find what the first one left, and a third that does not fit begins anew.
  const TracedProgram* const p = state_->known();
  if (p && !(state_->calls > 1 ? p->fits(arguments) : p->assumes_the_same())) {
    state_->anew = true;
    state_->settled = false;
    state_->calls = 0;
  }
  return !state_->settled || state_->calls % 1024 == 1023;
}

void Sealed::begin(const Tensors& arguments, std::vector<uint64_t> others) {
  if (estimating()) return;
  state_->mutex.lock();
  try {
    if (!state_->strict && state_->known() && others != state_->others) {
      state_->anew = true;  // whoever calls it knows that the program does not fit
      state_->settled = false;
      state_->calls = 0;
    }
    state_->check_others(others);
    state_->others_now = std::move(others);
    state_->arguments = arguments;
    if (state_->known()) state_->known()->note_gradients(arguments);
    eval(arguments);
    for (const Tensor& t : arguments)
      if (t.defined()) t.expose();
    state_->capture.emplace("seal", state_->strict ? nullptr : &state_->refused);
    state_->capture->forbid_arguments(arguments);
    note_assumption([] {
      return static_cast<uint64_t>(get_default_dtype()) << 2 |
             uint64_t{InferenceMode::is_enabled()} << 1 | uint64_t{GradMode::is_enabled()};
    });
    count_compiled_call(1);
    state_->tracer.store(&this_thread);
  } catch (...) {
    state_->capture.reset();
    state_->mutex.unlock();
    throw;
  }
}

// The program of a call whose trace ends. The first call may differ from all others: optimisers
// make their state in it.
std::unique_ptr<TracedProgram> Sealed::State::take_program(const Tensors& results) {
  const TracedProgram* const before = known();
  std::unique_ptr<TracedProgram> next = make(results, before);
  const bool same = before && next->key() == before->key();
  if (before && !same && calls == 1)
    next = make(results, nullptr);
  else if (before)
    before->check_same(*next);
  PELLUCID_CHECK(!same || !next->changes_constants(), ValueError,
                 "seal: the function changes in place a tensor that it makes from values, as "
                 "tensor(0); a replay would go on from the last one. Use zeros or full.");
  settled = same;
  return next;
}

// What strict sealed functions lose, and are known to.
void Sealed::State::check_lenient(const TracedProgram& next, const Tensors& results, bool same,
                                  const std::vector<uint64_t>& now) const {
  constexpr int64_t kFewTraced = 16;
  PELLUCID_CHECK(all_calls - replayed < kFewTraced || replayed > all_calls / 2, ValueError,
                 "what it relies on changed too often: {} of {} calls had to be traced",
                 all_calls - replayed, all_calls);
  const auto has_history = [](const Tensor& t) { return t.defined() && t.requires_grad(); };
  PELLUCID_CHECK(std::none_of(results.begin(), results.end(), has_history), ValueError,
                 "its results need a gradient; compile the whole step, or call it under no_grad");
  PELLUCID_CHECK(std::none_of(arguments.begin(), arguments.end(),
                              [](const Tensor& t) {
                                return t.defined() && t.requires_grad() && !t.is_leaf();
                              }),
                 ValueError, "an argument has a history, or gets one");
  if (!same) return;
  PELLUCID_CHECK(now == numbers, ValueError, "a part of its result that is no tensor changed");
  const std::string kept = next.kept_result();
  PELLUCID_CHECK(kept.empty(), ValueError,
                 "something keeps a tensor that each call makes: the result of {}", kept);
}

void Sealed::end(const Tensors& results, std::any prototype, std::vector<uint64_t> numbers) {
  if (!is_traced_here()) return;
  if (!state_->refused.empty()) return end_unsealed(state_->refused);
  const ProgramOptions options(state_->options);
  std::unique_ptr<TracedProgram> program;
  try {
    program = state_->take_program(results);
    if (!state_->strict) state_->check_lenient(*program, results, state_->settled, numbers);
  } catch (const ValueError& e) {
    if (!state_->strict) return end_unsealed(e.what());
    state_->capture.reset();  // nothing of it runs
    throw;
  } catch (...) {
    state_->capture.reset();
    throw;
  }
  state_->capture->run();
  state_->capture.reset();
  state_->program = std::move(program);
  state_->anew = false;
  state_->program->note_held();
  state_->prototype = std::move(prototype);
  state_->numbers = std::move(numbers);
  state_->others = std::move(state_->others_now);
  ++state_->calls;
  state_->leave();
}

void Sealed::end_unsealed(std::string why) {
  if (!is_traced_here()) return;
  const ProgramOptions options(state_->options);
  state_->refused = std::move(why);
  state_->is_refused.store(true, std::memory_order_release);
  state_->program.reset();
  state_->prototype.reset();
  state_->capture->run();
  state_->leave();
}

std::any Sealed::prototype() const {
  const std::lock_guard lock(state_->mutex);
  return state_->prototype;
}

void Sealed::abandon() noexcept {
  if (!is_traced_here()) return;
  // As an eager call would, what the function did before it failed stays.
  try {
    if (state_->capture) state_->capture->run();
  } catch (const std::exception&) {
    // Whoever reads what could not be computed gets the error.
  }
  state_->leave();
}

Tensors Sealed::replay(const Tensors& arguments, const std::vector<uint64_t>& others) {
  const std::lock_guard lock(state_->mutex);
  state_->check_others(others);
  Tensors results = state_->program->run(arguments);
  ++state_->calls;
  ++state_->replayed;
  return results;
}

bool Sealed::try_replay(const Tensors& arguments, Tensors& results) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->program || arguments.size() != state_->program->input_count()) return false;
  Tensors inputs;
  try {
    const LazyGuard at_once(false);
    inputs = state_->program->checked(arguments);
  } catch (const Error&) {
    return false;  // shared memory, strides: what a strict one asks its user to change
  }
  results = state_->program->run(arguments, inputs);
  ++state_->calls;
  ++state_->replayed;
  return true;
}

CompileReport::Form Sealed::report() const {
  const std::lock_guard lock(state_->mutex);
  return {.calls = state_->all_calls, .replayed = state_->replayed, .refused = state_->refused};
}

struct SealedForms::State {
  static constexpr size_t kMost = 16;
  explicit State(const CompileOptions& o) : options(o) {}
  const CompileOptions options;
  mutable std::mutex mutex;
  std::vector<std::pair<ProgramKey, std::shared_ptr<Sealed>>> forms;  // the newest last
  std::string refused;
};

SealedForms::SealedForms(const CompileOptions& options)
    : state_(std::make_unique<State>(options)) {}
SealedForms::~SealedForms() = default;

namespace {

// All of a call's arguments that decides what a function does with them, but for their values.
ProgramKey key_of(const Tensors& arguments, const std::vector<uint64_t>& others) {
  Hash128 h;
  h.add(uint64_t{GradMode::is_enabled()} << 8 | static_cast<uint64_t>(get_default_dtype()),
        arguments.size());
  for (const uint64_t other : others) h.add(other, 1);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].defined()) {
      h.add(~uint64_t{0}, i);
      continue;
    }
    const TensorImpl& impl = arguments[i].impl();
    size_t shared = i;  // the first argument in the same memory
    for (size_t k = 0; k < i && shared == i; ++k)
      if (arguments[k].defined() && arguments[k].impl().storage == impl.storage) shared = k;
    h.add(static_cast<uint64_t>(impl.dtype) << 9 | uint64_t{arguments[i].requires_grad()} << 8 |
              impl.sizes.size(),
          shared);
    h.add(static_cast<uint64_t>(impl.offset), 2);
    for (size_t d = 0; d < impl.sizes.size(); ++d)
      h.add(static_cast<uint64_t>(impl.sizes[d]), static_cast<uint64_t>(impl.strides[d]));
  }
  return {h.a, h.b};
}

}  // namespace

std::shared_ptr<Sealed> SealedForms::find(const Tensors& arguments,
                                          const std::vector<uint64_t>& others) {
  if (in_compiled_call() || estimating()) return nullptr;
  const ProgramKey key = key_of(arguments, others);
  std::shared_ptr<Sealed> found;
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->refused.empty()) return nullptr;
    for (const auto& [known, sealed] : state_->forms)
      if (known == key) found = sealed;
    if (!found) {
      if (state_->forms.size() == State::kMost) return nullptr;
      found = std::make_shared<Sealed>(false, state_->options);
      state_->forms.emplace_back(key, found);
    }
  }
  return found->is_refused() ? nullptr : found;
}

void SealedForms::refuse(std::string why) {
  const std::lock_guard lock(state_->mutex);
  state_->refused = std::move(why);
  state_->forms.clear();
}

std::string SealedForms::refused() const {
  const std::lock_guard lock(state_->mutex);
  return state_->refused;
}

std::string SealedForms::text() const {
  CompileReport report;
  report.forms = this->report();
  return report.forms.empty() ? "" : report.text();
}

std::vector<CompileReport::Form> SealedForms::report() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<CompileReport::Form> out;
  for (const auto& form : state_->forms) out.push_back(form.second->report());
  if (!state_->refused.empty())
    out.push_back({.calls = 0, .replayed = 0, .refused = state_->refused});
  return out;
}

}  // namespace pellucid::detail
