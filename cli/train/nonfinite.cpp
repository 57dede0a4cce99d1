// Where infinities and NaN come from.
#include "cli/train/nonfinite.h"

#include <fmt/format.h>

#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid::cli::train {
namespace {

bool finite(const Tensor& t) {
  const NoGradGuard off;
  return !t.defined() || !t.is_floating_point() || t.isfinite().all().item<bool>();
}

}  // namespace

std::string first_not_finite(const nn::Module& model) {
  for (const auto& item : model.state_dict())
    if (!finite(item.value())) return item.key();
  return "";
}

std::string blame(Task& task, const data::Example<>& batch, const io::RandomState& random) {
  if (!finite(batch.data) || !finite(batch.target)) return "The batch itself is not finite.";
  if (const std::string name = first_not_finite(task.model()); !name.empty())
    return fmt::format("{} is not finite since an earlier step.", name);
  std::string found;
  std::vector<nn::HookHandle> hooks;
  for (const auto& item : task.model().named_modules()) {
    if (!item.value()->children().empty()) continue;
    hooks.push_back(item.value()->register_forward_hook(
        [&found, name = item.key()](nn::Module& m, const Tensors&, const Tensors& outputs) {
          for (const Tensor& t : outputs)
            if (found.empty() && !finite(t))
              found = fmt::format("The output of {} ({}, {}) is the first that is not finite.",
                                  name, m.name(), t.sizes());
        }));
  }
  const NoGradGuard off;
  io::set_random_state(random);
  task.loss(batch);
  for (nn::HookHandle& h : hooks) h.remove();
  return found.empty() ? "Every module's output is finite: the loss function itself overflows."
                       : found;
}

}  // namespace pellucid::cli::train
