// Sealed functions: when they are traced, and the replay of their program.
#include <atomic>
#include <mutex>

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

namespace {
constinit thread_local char this_thread = 0;  // its address tells threads apart
}

struct Sealed::State {
  std::atomic<const void*> tracer{nullptr};  // the thread that captures, which holds the mutex
  mutable std::mutex mutex;                  // calls take turns
  int64_t calls = 0;
  bool settled = false;  // two calls in a row did the same
  std::unique_ptr<TracedProgram> program;
  bool anew = false;  // the program no longer fits; a call that found that it did may still run it
  const TracedProgram* known() const { return anew ? nullptr : program.get(); }
  std::optional<WholeCapture> capture;
  Tensors arguments;
  std::vector<uint64_t> others, others_now;
  std::any prototype;  // the last result that was traced

  void check_others(const std::vector<uint64_t>& now) const {
    PELLUCID_CHECK(!known() || now == others, ValueError,
                   "seal: an argument that is no tensor changed. A sealed function replays what it "
                   "did with the first one; give it as a tensor.");
  }
};

Sealed::Sealed() : state_(std::make_unique<State>()) {}
Sealed::~Sealed() = default;

// Where calls are only counted the function is called as if it were not sealed.
bool Sealed::traces(const Tensors& arguments) {
  if (estimating()) return true;
  PELLUCID_CHECK(state_->tracer.load() != &this_thread, ValueError,
                 "seal: the function calls itself, which a program cannot.");
  const std::lock_guard lock(state_->mutex);
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
    state_->check_others(others);
    state_->others_now = std::move(others);
    state_->arguments = arguments;
    if (state_->known()) state_->known()->note_gradients(arguments);
    eval(arguments);
    for (const Tensor& t : arguments)
      if (t.defined()) t.expose();
    state_->capture.emplace("seal");
    state_->capture->forbid_arguments(arguments);
    note_assumption([] {
      return static_cast<uint64_t>(get_default_dtype()) << 1 | uint64_t{GradMode::is_enabled()};
    });
    state_->tracer.store(&this_thread);
  } catch (...) {
    state_->mutex.unlock();
    throw;
  }
}

void Sealed::end(const Tensors& results, std::any prototype) {
  if (state_->tracer.load() != &this_thread) return;
  // The first call may differ from all others: optimisers make their state in it.
  const auto make = [&](const TracedProgram* before) {
    return std::make_unique<TracedProgram>("seal", true, state_->capture->capture(),
                                           state_->arguments, results, state_->capture->random(),
                                           before);
  };
  std::unique_ptr<TracedProgram> program;
  try {
    const TracedProgram* const known = state_->known();
    program = make(known);
    const bool first = !known;
    const bool same = !first && program->key() == known->key();
    if (!first && !same && state_->calls == 1)
      program = make(nullptr);
    else if (!first)
      known->check_same(*program);
    PELLUCID_CHECK(!same || !program->changes_constants(), ValueError,
                   "seal: the function changes in place a tensor that it makes from values, as "
                   "tensor(0); a replay would go on from the last one. Use zeros or full.");
    state_->settled = same;
  } catch (...) {
    state_->capture.reset();  // nothing of it runs
    throw;
  }
  state_->capture->run();
  state_->capture.reset();
  state_->program = std::move(program);
  state_->anew = false;
  state_->program->note_held();
  state_->prototype = std::move(prototype);
  state_->others = std::move(state_->others_now);
  state_->arguments.clear();
  ++state_->calls;
  state_->tracer.store(nullptr);
  state_->mutex.unlock();
}

std::any Sealed::prototype() const {
  const std::lock_guard lock(state_->mutex);
  return state_->prototype;
}

void Sealed::abandon() noexcept {
  if (state_->tracer.load() != &this_thread) return;
  // As an eager call would, what the function did before it failed stays.
  try {
    if (state_->capture) state_->capture->run();
  } catch (const std::exception&) {
    // Whoever reads what could not be computed gets the error.
  }
  state_->capture.reset();
  state_->arguments.clear();
  state_->tracer.store(nullptr);
  state_->mutex.unlock();
}

Tensors Sealed::replay(const Tensors& arguments, const std::vector<uint64_t>& others) {
  const std::lock_guard lock(state_->mutex);
  state_->check_others(others);
  Tensors results = state_->program->run(arguments);
  ++state_->calls;
  return results;
}

}  // namespace pellucid::detail
