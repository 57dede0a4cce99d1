// Says where a loss that is not finite comes from.
#pragma once

#include <string>

#include "cli/train/task.h"
#include "pellucid/io/checkpoint.h"

namespace pellucid::cli::train {

/// The first parameter or buffer that is not finite, or "".
std::string first_not_finite(const nn::Module& model);

/// A sentence on what turned not finite first when the loss of `batch` was computed with the random
/// numbers from `random`: parameters, data, or the output of a module. Runs the batch again.
std::string blame(Task& task, const data::Example<>& batch, const io::RandomState& random);

}  // namespace pellucid::cli::train
