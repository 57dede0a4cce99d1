// Optimisers and schedules by the names of the command line.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/train/options.h"
#include "pellucid/optim.h"

namespace pellucid::cli::train {

/// The names that --optimizer and --schedule take.
const std::vector<std::string>& optimizer_names();
const std::vector<std::string>& schedule_names();
/// Whether --momentum means something to the optimiser.
bool takes_momentum(const std::string& optimizer);

/// The optimiser that the options ask for, over groups of parameters that may carry options of
/// their own.
std::unique_ptr<optim::Optimizer> make_optimizer(
    const TrainOptions& options, const std::vector<optim::OptimizerParamGroup>& groups);

/// The schedule that the options ask for over so many steps; null for a constant learning rate.
std::unique_ptr<optim::LRScheduler> make_schedule(const TrainOptions& options,
                                                  optim::Optimizer& optimizer, int64_t total_steps);

}  // namespace pellucid::cli::train
