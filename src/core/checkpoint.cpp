// Gradient checkpointing. In the first run nothing that backward needs is kept, only its number;
// when backward asks for one, the function runs again with the same random numbers and all are
// there.
#include <vector>

#include "base/random.h"
#include "pellucid/autograd.h"

namespace pellucid::autograd {
namespace {

struct Frame {
  std::function<variable_list(const variable_list&)> f;
  variable_list inputs;
  PhiloxRange random;
  bool preserve_rng = true;
  size_t count = 0;  // saved in the first run
  std::vector<Tensor> recomputed;
  size_t handed_out = 0;

  void recompute() {
    const PhiloxRange now = default_generator().get_state();
    if (preserve_rng) default_generator().set_state(random);
    struct Restore {
      PhiloxRange state;
      bool on;
      ~Restore() {
        if (on) default_generator().set_state(state);
      }
    } const restore{now, preserve_rng};
    recomputed.clear();
    {
      const SavedTensorsHooks collect(
          [this](const Tensor& t) -> std::any {
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
                   count, recomputed.size());
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
      [frame](const std::any& index) -> Tensor {
        const size_t i = std::any_cast<size_t>(index);
        if (i >= frame->recomputed.size() || !frame->recomputed[i].defined()) frame->recompute();
        Tensor t = std::move(frame->recomputed[i]);
        frame->recomputed[i] = Tensor();
        return t;
      });
  return f(inputs);
}

Tensor checkpoint(std::function<Tensor(const Tensor&)> f, const Tensor& input) {
  return checkpoint([f = std::move(f)](const variable_list& in) { return variable_list{f(in[0])}; },
                    {input})[0];
}

}  // namespace pellucid::autograd
