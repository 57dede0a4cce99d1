// Gradient checkpointing. In the first run nothing that backward needs is kept, only its number;
// when backward asks for one, the function runs again with the same random numbers and all are
// there.
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/random.h"
#include "core/capture.h"
#include "core/engine.h"
#include "pellucid/autograd.h"

namespace pellucid::autograd {
namespace {

struct Frame {
  std::function<variable_list(const variable_list&)> f;
  variable_list inputs;
  PhiloxRange random;
  bool preserve_rng = true;
  std::atomic<size_t> count = 0;  // saved in the first run
  // What each backward run has computed again and not yet read: several may meet here.
  std::map<const void*, std::vector<Tensor>> runs;
  std::mutex mutex;  // of the map

  /// Tensor i, for the backward run of this thread.
  Tensor take(size_t i) {
    std::vector<Tensor> mine;
    {
      const std::lock_guard lock(mutex);
      if (const auto node = runs.extract(current_run())) mine = std::move(node.mapped());
    }
    if (i >= mine.size() || !mine[i].defined()) mine = recompute();
    Tensor t = std::exchange(mine[i], Tensor());
    const std::lock_guard lock(mutex);
    runs[current_run()] = std::move(mine);
    return t;
  }

  std::vector<Tensor> recompute() {
    std::vector<Tensor> recomputed;
    // A generator of its own for this thread, so that others may draw meanwhile.
    Generator numbers(random.seed);
    numbers.set_state(random);
    const GeneratorGuard use(preserve_rng ? numbers : default_generator());
    struct Recomputing {
      ~Recomputing() { detail::recomputing = outer; }
      const bool outer = std::exchange(detail::recomputing, true);
    } const scope;
    {
      const SavedTensorsHooks collect(
          [&recomputed](const Tensor& t) -> std::any {
            recomputed.push_back(t);
            return recomputed.size() - 1;
          },
          [](const std::any&) -> Tensor { return {}; });
      const AutoGradMode on(true);
      const MemoryCategoryGuard category(MemoryCategory::Activation);
      variable_list again;
      for (const Tensor& t : inputs)
        again.push_back(t.defined() && t.requires_grad() ? t.detach().requires_grad_() : t);
      f(again);
    }
    PELLUCID_CHECK(recomputed.size() == count, AutogradError,
                   "checkpoint: the function saved {} tensors when it ran first and {} when it ran "
                   "again; it must do "
                   "the same both times.",
                   count.load(), recomputed.size());
    return recomputed;
  }
};

}  // namespace

variable_list checkpoint(std::function<variable_list(const variable_list&)> f,
                         const variable_list& inputs, bool preserve_rng_state) {
  auto frame = std::make_shared<Frame>();
  frame->f = f;
  frame->inputs = inputs;
  frame->preserve_rng = preserve_rng_state;
  frame->random = default_generator().get_state();
  const SavedTensorsHooks drop(
      [frame = frame.get()](const Tensor&) -> std::any { return frame->count++; },
      [frame](const std::any& index) { return frame->take(std::any_cast<size_t>(index)); });
  return f(inputs);
}

Tensor checkpoint(std::function<Tensor(const Tensor&)> f, const Tensor& input) {
  return checkpoint([f = std::move(f)](const variable_list& in) { return variable_list{f(in[0])}; },
                    {input})[0];
}

}  // namespace pellucid::autograd
