// What tasks have in common: the lines of PyTorch's MNIST example, optimiser and schedule by name.
#include "cli/train/task.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/train/optimizers.h"

namespace pellucid::cli::train {

void detail::check_batch_size(int64_t examples, int64_t batch_size) {
  PELLUCID_CHECK(examples > 0, ValueError, "train: the data set is empty.");
  PELLUCID_CHECK(batch_size <= examples, ValueError,
                 "train: the batch size {} is larger than the data set, which has {} examples.",
                 batch_size, examples);
}

std::unique_ptr<optim::Optimizer> Task::optimizer(const TrainOptions& options) {
  return make_optimizer(options, {optim::OptimizerParamGroup(model().parameters())});
}

std::unique_ptr<optim::LRScheduler> Task::schedule(const TrainOptions& options,
                                                   optim::Optimizer& optimizer,
                                                   int64_t total_steps) {
  return make_schedule(options, optimizer, total_steps);
}

std::string Task::epoch_title(int64_t epoch, int64_t epochs) const {
  return fmt::format("Epoch {}/{}\n{:-<60}", epoch + 1, epochs, "");
}

std::string Task::progress_line(const StepReport& r) const {
  return fmt::format("Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.6f}", r.epoch,
                     r.batch * r.batch_size, r.examples,
                     100.0 * static_cast<double>(r.batch) / static_cast<double>(r.batches), r.loss);
}

std::string Task::epoch_summary(double) const { return ""; }

}  // namespace pellucid::cli::train
